"""Whether the parameters of a checkpoint are those of a model."""

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.checkpoints.loading import one_line

_DICTIONARIES = {
    "encoder.embed_tokens.weight": "source",
    "decoder.embed_tokens.weight": "target",
    "decoder.output_projection.weight": "target",
}
"""Parameters with a row for each symbol of a dictionary."""


class DoesNotFit(UserError):
    """The parameters are not the model's; the message says which; the caller adds the file."""


def check_fit(parameters: Mapping[str, Tensor], model: Mapping[str, Tensor], strict: bool = True) -> None:
    """Refuse parameters that a model cannot have.

    Args:
        parameters: by name, from a checkpoint
        model: the state dict of the model that is to have them
        strict: all of them, and no others

    Raises:
        DoesNotFit: they are of other names, shapes or kinds of numbers, or not finite
    """
    common = [name for name in model if name in parameters]
    for name in common:
        _check_shape(name, parameters[name].shape, model[name].shape)
    if strict:
        _check_names("lacks", model.keys() - parameters.keys(), "the model has")
        _check_names("has", parameters.keys() - model.keys(), "the model lacks")
    for name in common:
        _check_numbers(name, parameters[name], model[name])


def _check_numbers(name: str, parameter: Tensor, like: Tensor) -> None:
    if like.is_floating_point() and not parameter.is_floating_point():
        raise DoesNotFit(
            f"{name} is of {parameter.dtype}, the model's of floating-point numbers: it was not trained so"
        )
    if not torch.isfinite(parameter).all():
        raise DoesNotFit(f"{name} is not finite (NaN or infinity): the training diverged; give an earlier checkpoint")


def _check_shape(name: str, here: torch.Size, there: torch.Size) -> None:
    if here == there:
        return
    if name in _DICTIONARIES and here[1:] == there[1:]:
        raise DoesNotFit(
            f"its {_DICTIONARIES[name]} dictionary has {here[0]} symbols, the data-bin's has {there[0]}: give the "
            "data-bin that it was trained on"
        )
    raise DoesNotFit(f"{name} is {_sizes(here)} in it, but {_sizes(there)} in the model")


def _check_names(verb: str, names: Collection[str], other: str) -> None:
    if names:
        others = f" (and {len(names) - 1} others)" if len(names) > 1 else ""
        raise DoesNotFit(one_line(f"it {verb} the parameter {min(names):.200}{others}, which {other}"))


def _sizes(shape: torch.Size) -> str:
    return " x ".join(map(str, shape)) or "a single number"
