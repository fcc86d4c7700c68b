import pytest
import torch
from small_models import checkpoint, train, untrained

from resmlp_mt.fairseq_plugin.trained import model_of
from resmlp_mt.lab.analysis import used_part
from resmlp_mt.lab.analysis.matrices import mixing_matrices


def changed(before, after):
    """Up to which position the training changed any A of each side."""
    lengths = {}
    for key in before:
        if key.endswith("mixing.mixing.weight"):
            entries = (before[key] != after[key]).nonzero()
            side = key.split(".")[0]
            lengths[side] = max(lengths.get(side, 0), int(entries.max()) + 1)
    return lengths


def test_biases_tell_what_the_training_reached(before_training, trained):
    model = trained["model"]
    found = used_part.by_bias(model, mixing_matrices(model_of("", trained)))
    assert found == changed(before_training, model) == {"encoder": 11, "decoder": 13}
    assert used_part.by_bias(before_training, mixing_matrices(untrained())) == {}


@pytest.mark.parametrize("optimizer", [torch.optim.Adagrad, torch.optim.Adam])
def test_the_optimizers_state_is_told_apart_by_parameter(optimizer):
    model = untrained()
    stepping = optimizer(model.parameters(), lr=0.01)
    train(model, stepping, [(5, 7)])
    scale = 1 if optimizer is torch.optim.Adagrad else 0.001  # Adam's 1 - beta2
    saved = checkpoint(model, stepping.state_dict())
    found = used_part.squared_gradients(saved)
    gradients = {name: scale * parameter.grad**2 for name, parameter in model.named_parameters()}
    assert found.keys() == gradients.keys()
    assert all(torch.allclose(found[name], gradients[name], rtol=1e-4) for name in gradients)

    # --fp16 makes one vector of all parameters
    record = "sum" if optimizer is torch.optim.Adagrad else "exp_avg_sq"
    flat = torch.cat([(scale * parameter.grad**2).flatten() for parameter in model.parameters()])
    as_one = used_part.squared_gradients({**saved, "last_optimizer_state": {"state": {0: {record: flat}}}})
    assert all(torch.allclose(as_one[name], found[name], rtol=1e-4) for name in found)


def test_gradients_tell_what_the_training_reached_often(trained):
    assert used_part.by_gradient(trained, mixing_matrices(model_of("", trained))) == {"encoder": 6, "decoder": 8}


def test_other_optimizers_tell_nothing(trained):
    mixings = mixing_matrices(model_of("", trained))
    others = {"momentum_buffer": torch.ones(3)}, {"sum": torch.ones(3)}  # the second is of another model
    for state in None, {"state": {}}, *({"state": {0: record}} for record in others):
        assert used_part.by_gradient({**trained, "last_optimizer_state": state}, mixings) == {}


def test_a_training_without_a_gradient_tells_nothing(before_training):
    state = {"state": {0: {"sum": torch.zeros(sum(p.numel() for p in untrained().parameters()))}}}
    assert used_part.by_gradient(checkpoint(before_training, state), mixing_matrices(untrained())) == {}


def test_the_best_that_there_is(trained):
    mixings = mixing_matrices(model_of("", trained))
    few, more = {"encoder": 6, "decoder": 8}, {"encoder": 11, "decoder": 13}
    assert used_part.used_of(mixings, None, few, more).lengths == few
    assert used_part.used_of(mixings, None, {}, more).lengths == more
    assert used_part.used_of(mixings, None, {}, {}).lengths == {"encoder": 64, "decoder": 64}
    shorter = [mixing.up_to(9) for mixing in mixings if mixing.side == "decoder"]
    assert used_part.used_of(shorter, 20, few, more).lengths == {"decoder": 9}
