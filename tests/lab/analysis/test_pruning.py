import copy

import pytest
import torch
from small_models import checkpoint, untrained

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.trained import model_of
from resmlp_mt.lab.analysis.matrices import mixing_matrices
from resmlp_mt.lab.analysis.pruning import pruned
from resmlp_mt.lab.analysis.used_part import UsedPart
from resmlp_mt.nn import TokenMixing

USED = UsedPart({"encoder": 10, "decoder": 12}, "")


@pytest.mark.parametrize("share", [0.29, 0.5, 1.0])
def test_exactly_the_smallest_weights_of_the_used_part_are_zero(trained, share):
    before = copy.deepcopy(trained["model"])
    after = pruned(trained, model_of("", trained), share, USED)["model"]
    assert all(torch.equal(trained["model"][key], before[key]) for key in before)
    assert after.keys() == before.keys()
    for key in before:
        if not key.endswith("mixing.mixing.weight"):
            assert after[key] is trained["model"][key]
            continue
        side = key.split(".")[0]
        used = [
            (i, j) for i in range(USED.lengths[side]) for j in range(USED.lengths[side]) if side == "encoder" or j <= i
        ]
        by_size = sorted(used, key=lambda place: abs(before[key][place].item()))
        gone = set(by_size[: int(share * len(used) + 1e-9)])
        assert len(gone) == {0.29: {100: 29, 78: 22}, 0.5: {100: 50, 78: 39}, 1.0: {100: 100, 78: 78}}[share][len(used)]
        expected = before[key].clone()
        for place in gone:
            expected[place] = 0
        assert torch.equal(after[key], expected)


def test_each_head_loses_its_own_and_ties_do_not_matter():
    model = untrained(mixing_heads=2)
    weight = model.encoder.layers[0].mixing.mixing.weight
    weight.data[:, :6, :6] = torch.ones(2, 6, 6)
    weight.data[1, :6, :6] = torch.arange(36).view(6, 6) + 100
    model.half()
    saved = checkpoint(model, options={"mixing_heads": 2})
    after = pruned(saved, model_of("", saved), 0.5, UsedPart({"encoder": 4, "decoder": 4}, ""))["model"]
    after = after["encoder.layers.0.mixing.mixing.weight"]
    assert after.dtype == torch.float16
    assert (after == 0).sum((1, 2)).tolist() == [8, 8]
    assert (after[1, :2, :4] == 0).all()


def test_with_a_relative_term_it_is_a_that_is_zero_and_the_model_is_left_as_it_was():
    model = untrained(mixing_heads=4, mixing_relative=True)
    for name, parameter in model.named_parameters():
        if name.endswith("relative"):
            torch.nn.init.normal_(parameter)
    saved = checkpoint(model, options={"mixing_heads": 4, "mixing_relative": True})
    before = mixing_matrices(model)
    after = mixing_matrices(model_of("", pruned(saved, model, 0.5, USED)))
    for old, same, new in zip(before, mixing_matrices(model), after, strict=True):
        assert torch.equal(old.weights, same.weights)
        gone = new.weights != old.weights
        used = USED.of(old)
        assert gone.sum((1, 2)).tolist() == [used.counts.sum() // 2] * 4
        assert (new.weights[gone] == 0).all()
        assert old.weights[gone].abs().max() < old.weights.abs().max()


class Mean(TokenMixing):
    """Every row is the mean of the weight's."""

    def rows(self, start, end):
        return super().rows(start, end).mean(0, keepdim=True).expand(end - start, end)


def test_an_a_that_no_weight_makes_zero_is_refused():
    model = untrained()
    saved = checkpoint(model)
    model.encoder.layers[1].mixing.mixing = Mean(64)
    with pytest.raises(UserError, match="A of encoder 2 cannot be pruned"):
        pruned(saved, model, 0.5, USED)


def test_a_pruned_checkpoint_is_for_inference(trained):
    trained = {**trained, "extra_state": {"epoch": 3, "ema": {}, "ema_fp32_params": {}}}
    result = pruned(trained, model_of("", trained), 0.5, USED)
    assert result["last_optimizer_state"] == {}
    assert result["optimizer_history"][-1]["optimizer_name"] == "none (pruned checkpoint)"
    assert result["extra_state"] == {"epoch": 3}
    assert trained["optimizer_history"][-1]["optimizer_name"] == "Adagrad"
    assert result["cfg"] is trained["cfg"]
