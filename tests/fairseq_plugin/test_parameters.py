"""Whether a checkpoint's parameters are a model's: what is said if not."""

import pytest
import torch
from builders import build

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.checkpoints.parameters import DoesNotFit, check_fit


@pytest.fixture(scope="module")
def model():
    return build(scatter=0).float()


def without(parameters, *names):
    return {name: tensor for name, tensor in parameters.items() if name not in names}


FC1, ALPHA, EMBEDDING = "encoder.layers.0.mlp.fc1.weight", "encoder.layer_norm.alpha", "decoder.embed_tokens.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: without(state, FC1), f"it lacks the parameter {FC1}, which the model has"),
        (lambda state: without(state, FC1, ALPHA), rf"lacks the parameter {ALPHA} \(2 differ\)"),
        (lambda state: {**state, "w": torch.ones(1)}, "it has the parameter w, which the model lacks"),
        (lambda state: {**state, FC1: torch.ones(3, 64)}, f"{FC1} is 3 x 64 in it, but 256 x 64 in the model"),
        (lambda state: {**state, EMBEDDING: torch.ones(95, 64)}, "its target dictionary has 95 symbols, .* has 44"),
        (lambda state: {**state, FC1: state[FC1].int()}, f"{FC1} is of torch.int32, the model's of floating-point"),
        (lambda state: {**state, FC1: state[FC1] * float("nan")}, f"{FC1} is not finite .* training diverged"),
    ],
)
def test_parameters_that_are_not_the_model_s(model, change, message):
    parameters = change(model.state_dict())
    with pytest.raises(DoesNotFit, match=message):
        check_fit(parameters, model.state_dict())
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(UserError, match=message):
        model.load_state_dict(parameters)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_are_taken(model, dtype):
    other = build(scatter=0, seed=1).float()
    other.load_state_dict({name: tensor.to(dtype) for name, tensor in model.state_dict().items()})
    for name, tensor in other.state_dict().items():
        torch.testing.assert_close(tensor, model.state_dict()[name], rtol=1e-2, atol=1e-2)


def test_names_may_differ_where_that_is_asked_for(model):
    state = without(model.state_dict(), FC1)
    model.load_state_dict({**state, "w": torch.ones(1)}, strict=False)
