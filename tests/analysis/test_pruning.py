import copy

import pytest
import torch

from resmlp_mt.analysis.matrices import mixing_matrices
from resmlp_mt.analysis.pruning import pruned
from resmlp_mt.analysis.used_part import UsedPart

USED = UsedPart({"encoder": 10, "decoder": 12}, "")


@pytest.mark.parametrize("share", [0.29, 0.5, 1.0])
def test_exactly_the_smallest_weights_of_the_used_part_are_zero(trained, share):
    before = copy.deepcopy(trained["model"])
    after = pruned(trained, share, USED)["model"]
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
        for place in torch.cartesian_prod(torch.arange(64), torch.arange(64)).tolist():
            expected = 0.0 if tuple(place) in gone else before[key][tuple(place)].item()
            assert after[key][tuple(place)].item() == expected


def test_each_head_loses_its_own_and_ties_do_not_matter(trained):
    key = "encoder.layers.0.mixing.mixing.weight"
    heads = torch.ones(2, 6, 6, dtype=torch.float16)
    heads[1] = torch.arange(36).view(6, 6) + 100
    saved = {**trained, "model": {key: heads}}
    after = pruned(saved, 0.5, UsedPart({"encoder": 4}, ""))["model"][key]
    assert after.dtype == torch.float16
    assert (after == 0).sum((1, 2)).tolist() == [8, 8]
    assert (after[1, :2, :4] == 0).all()
    assert torch.equal(mixing_matrices({key: after})[0].weights, after.float())


def test_a_pruned_checkpoint_is_for_inference(trained):
    trained = {**trained, "extra_state": {"epoch": 3, "ema": {}, "ema_fp32_params": {}}}
    result = pruned(trained, 0.5, USED)
    assert result["last_optimizer_state"] == {}
    assert result["optimizer_history"][-1]["optimizer_name"] == "none (pruned checkpoint)"
    assert result["extra_state"] == {"epoch": 3}
    assert trained["optimizer_history"][-1]["optimizer_name"] == "Adagrad"
    assert result["cfg"] is trained["cfg"]
