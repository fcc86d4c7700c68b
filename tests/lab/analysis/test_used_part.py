"""The part of A that a training used, and what is pruned of it."""

import copy

import pytest
import torch
from small_models import checkpoint, train, untrained

from resmlp_mt.fairseq_plugin.trained import model_of
from resmlp_mt.lab.analysis.matrices import (
    BY_BIAS,
    BY_GRADIENT,
    NOTHING_TELLS,
    UsedPart,
    mixing_matrices,
    pruned,
    squared_gradients,
    used_part,
)


def changed(before, after):
    """Up to which position the training changed any A of each side."""
    lengths = {}
    for key in before:
        if key.endswith("mixing.mixing.weight"):
            entries = (before[key] != after[key]).nonzero()
            side = key.split(".")[0]
            lengths[side] = max(lengths.get(side, 0), int(entries.max()) + 1)
    return lengths


def used(saved):
    return used_part(saved, mixing_matrices(model_of("", saved)))


def test_biases_tell_what_the_training_reached(before_training, trained):
    found = used({**trained, "last_optimizer_state": None})
    reached = changed(before_training, trained["model"])
    assert found == UsedPart(reached, BY_BIAS) == UsedPart({"encoder": 11, "decoder": 13}, BY_BIAS)
    assert used(checkpoint(before_training)) == UsedPart({"encoder": 64, "decoder": 64}, NOTHING_TELLS)


@pytest.mark.parametrize("optimizer", [torch.optim.Adagrad, torch.optim.Adam])
def test_the_optimizers_state_is_told_apart_by_parameter(optimizer):
    model = untrained()
    stepping = optimizer(model.parameters(), lr=0.01)
    train(model, stepping, [(5, 7)])
    scale = 1 if optimizer is torch.optim.Adagrad else 0.001  # Adam's 1 - beta2
    saved = checkpoint(model, stepping.state_dict())
    found = squared_gradients(saved)
    gradients = {name: scale * parameter.grad**2 for name, parameter in model.named_parameters()}
    assert found.keys() == gradients.keys()
    assert all(torch.allclose(found[name], gradients[name], rtol=1e-4) for name in gradients)

    # --fp16 makes one vector of all parameters
    record = "sum" if optimizer is torch.optim.Adagrad else "exp_avg_sq"
    flat = torch.cat([(scale * parameter.grad**2).flatten() for parameter in model.parameters()])
    as_one = squared_gradients({**saved, "last_optimizer_state": {"state": {0: {record: flat}}}})
    assert all(torch.allclose(as_one[name], found[name], rtol=1e-4) for name in found)


def test_gradients_tell_what_the_training_reached_often(trained):
    assert used(trained) == UsedPart({"encoder": 6, "decoder": 8}, BY_GRADIENT)


def test_other_optimizers_tell_nothing(trained):
    others = {"momentum_buffer": torch.ones(3)}, {"sum": torch.ones(3)}  # the second is of another model
    none = {"sum": torch.zeros(sum(parameter.numel() for parameter in untrained().parameters()))}
    for record in *others, none:
        assert used({**trained, "last_optimizer_state": {"state": {0: record}}}).how == BY_BIAS


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


def test_a_pruned_checkpoint_is_for_inference(trained):
    trained = {**trained, "extra_state": {"epoch": 3, "ema": {}, "ema_fp32_params": {}}}
    result = pruned(trained, model_of("", trained), 0.5, USED)
    assert result["last_optimizer_state"] == {}
    assert result["optimizer_history"][-1]["optimizer_name"] == "none (pruned checkpoint)"
    assert result["extra_state"] == {"epoch": 3}
    assert trained["optimizer_history"][-1]["optimizer_name"] == "Adagrad"
    assert result["cfg"] is trained["cfg"]
