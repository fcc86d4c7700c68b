import pytest
import torch

from resmlp_mt.nn.elementwise import Dropout


@pytest.mark.parametrize("p", [0.1, 0.15, 0.5, 0.9])
def test_what_is_kept_is_scaled_and_the_mean_stays(p):
    torch.manual_seed(0)
    x = torch.ones(400, 500, dtype=torch.double)
    y = Dropout(p)(x)
    kept = y != 0
    assert kept.double().mean().item() == pytest.approx(1 - p, abs=0.005)
    assert torch.allclose(y[kept], torch.tensor(1 / (1 - p), dtype=torch.double), atol=1e-3)
    # entries are independent: neighbours, which share a random number, agree no more often than chance has it
    agree = (kept[:, 1:] == kept[:, :-1]).double().mean().item()
    assert agree == pytest.approx(p * p + (1 - p) * (1 - p), abs=0.005)


@pytest.mark.parametrize("entries", [1, 2, 3, 4, 5, 1001])
def test_any_number_of_entries(entries):
    assert Dropout(0.5)(torch.ones(entries)).shape == (entries,)


def test_a_seed_gives_one_mask():
    dropout, x, masks = Dropout(0.3), torch.ones(64), []
    for _ in range(2):
        torch.manual_seed(7)
        masks.append(dropout(x))
    assert torch.equal(*masks) and not torch.equal(masks[0], dropout(x))


def test_nothing_is_dropped_in_evaluation_unless_asked_for():
    dropout, x = Dropout(0.5).eval(), torch.ones(1000)
    assert torch.equal(dropout(x), x)
    dropout.always = True
    assert (dropout(x) == 0).any()


@pytest.mark.parametrize("p", [1e-7, 1 - 1e-7])
def test_extreme_probabilities(p):
    assert torch.isfinite(Dropout(p)(torch.ones(1000))).all()
