"""What the bands of a gated model read in a text: their weights depend on what stands at each position."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin import ResMLPTransformerModel
from resmlp_mt.lab.analysis.matrices import SIDES, layers_of
from resmlp_mt.nn.gated_mixing import Band, GatedTokenMixing

MOST_SENTENCES = 1000
"""Of a text, to be read."""

Place = tuple[str, int]
"""Side and layer, counted from 1."""


@dataclass(frozen=True)
class TextBand:
    """The band of one layer (counted from 1) and side.

    ``offsets`` are j - i of the J weights, up to 0 in the decoder. ``mean`` and ``spread`` (standard deviation) of each
    weight are over all positions of the text, H x J; ``sentence`` has those of each position of one sentence,
    T x H x J, whose T ``tokens`` are beside it.
    """

    side: str
    layer: int
    offsets: list[int]
    mean: Tensor
    spread: Tensor
    sentence: Tensor
    tokens: list[str]

    @property
    def name(self) -> str:
        return f"{self.side} {self.layer}"

    def as_json(self) -> dict[str, Any]:
        return {name: value.tolist() if isinstance(value, Tensor) else value for name, value in vars(self).items()}


def bands_of(model: ResMLPTransformerModel) -> dict[Place, Band]:
    """Every band of a model."""
    return {
        (side, number): layer.mixing.mixing.band
        for side, number, layer in layers_of(model)
        if layer.mixing is not None
        and isinstance(layer.mixing.mixing, GatedTokenMixing)
        and layer.mixing.mixing.band is not None
    }


@torch.no_grad()
def read_bands(
    model: ResMLPTransformerModel,
    pairs: Sequence[tuple[Tensor, Tensor]],
    dictionaries: tuple[Any, Any],
    sentence: int = 1,
) -> list[TextBand]:
    """Read a text with a model; the decoder reads the references.

    Args:
        pairs: source and target of each sentence, symbols that end with ``</s>``; the first ``MOST_SENTENCES`` count
        dictionaries: of source and target
        sentence: the one to keep every weight of, counted from 1
    """
    if not 1 <= sentence <= len(pairs):
        raise UserError(
            f"--sentence {sentence}: the text has {len(pairs):,} sentences: give one of 1 to {len(pairs):,}"
        )
    bands = bands_of(model)
    shown = pairs[sentence - 1]
    weights = _weights(model, bands, [shown, *pairs[:MOST_SENTENCES]])
    read = dict(zip(SIDES, (shown[0], read_by_decoder(shown[1])), strict=True))
    symbols = dict(zip(SIDES, dictionaries, strict=True))
    found = []
    for (side, layer), band in bands.items():
        of_sentence, *of_text = weights[side, layer]
        text = torch.cat(of_text)
        offsets = list(range(-band.before, band.window - band.before))
        tokens = [symbols[side][number] for number in read[side]]
        found.append(TextBand(side, layer, offsets, text.mean(0), text.std(0), of_sentence, tokens))
    return found


def _weights(
    model: ResMLPTransformerModel, bands: Mapping[Place, Band], pairs: Iterable[tuple[Tensor, Tensor]]
) -> dict[Place, list[Tensor]]:
    """What each band predicts, T x H x J of each sentence."""
    found: dict[Place, list[Tensor]] = {place: [] for place in bands}
    hooks = []
    for place, band in bands.items():

        def keep(_: object, __: object, weights: Tensor, place: Place = place, band: Band = band) -> None:
            found[place].append(weights.view(-1, band.heads, band.window))

        hooks.append(band.predict.register_forward_hook(keep))
    for source, target in pairs:
        model(source[None].long(), torch.tensor([len(source)]), read_by_decoder(target)[None].long())
    for hook in hooks:
        hook.remove()
    return found


def read_by_decoder(target: Tensor) -> Tensor:
    """``</s>`` first, as fairseq has it."""
    return target.roll(1)
