"""Whether the parameters of a checkpoint are those of a model."""

from collections.abc import Mapping

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
    """Refuse parameters of other names, shapes or kinds of numbers than a model's, or that are not finite.

    Args:
        parameters: by name, from a checkpoint
        model: the state dict of the model that is to have them
        strict: all of them, and no others
    """
    common = [name for name in model if name in parameters]
    for name in common:
        here, there = parameters[name].shape, model[name].shape
        if name in _DICTIONARIES and here != there and here[1:] == there[1:]:
            raise DoesNotFit(
                f"its {_DICTIONARIES[name]} dictionary has {here[0]} symbols, the data-bin's has {there[0]}: give the "
                "data-bin that it was trained on"
            )
        if here != there:
            sizes, wanted = (" x ".join(map(str, shape)) or "one number" for shape in (here, there))
            raise DoesNotFit(f"{name} is {sizes} in it, but {wanted} in the model")
    others = sorted(model.keys() ^ parameters.keys())
    if strict and others:
        verb, other = ("lacks", "has") if others[0] in model else ("has", "lacks")
        more = f" ({len(others)} differ)" if len(others) > 1 else ""
        raise DoesNotFit(one_line(f"it {verb} the parameter {others[0]:.200}{more}, which the model {other}"))
    for name in common:
        if model[name].is_floating_point() and not parameters[name].is_floating_point():
            raise DoesNotFit(f"{name} is of {parameters[name].dtype}, the model's of floating-point numbers")
        if not torch.isfinite(parameters[name]).all():
            raise DoesNotFit(
                f"{name} is not finite (NaN or infinity): the training diverged; give an earlier checkpoint"
            )
