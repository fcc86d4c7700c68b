"""What the bands of a gated model read in a text: their weights depend on what stands at each position."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
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
Bands = dict[Place, Band]


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
        """All figures."""
        return {name: value.tolist() if isinstance(value, Tensor) else value for name, value in vars(self).items()}


def bands_of(model: ResMLPTransformerModel) -> Bands:
    """Every band of a model, by side and layer (counted from 1)."""
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
    (shown,) = _weights(model, bands, [pairs[sentence - 1]])
    text = _weights(model, bands, islice(pairs, MOST_SENTENCES))
    source, target = pairs[sentence - 1]
    read = {"encoder": source, "decoder": read_by_decoder(target)}
    symbols = dict(zip(SIDES, dictionaries, strict=True))
    found = {place: torch.cat([sentence[place] for sentence in text]) for place in bands}
    return [
        TextBand(
            side=side,
            layer=layer,
            offsets=list(range(-band.before, band.window - band.before)),
            mean=found[side, layer].mean(0),
            spread=found[side, layer].std(0),
            sentence=shown[side, layer],
            tokens=[symbols[side][number] for number in read[side]],
        )
        for (side, layer), band in bands.items()
    ]


def _weights(
    model: ResMLPTransformerModel, bands: Bands, pairs: Iterable[tuple[Tensor, Tensor]]
) -> list[dict[Place, Tensor]]:
    """What each band predicts, T x H x J, sentence by sentence."""
    found: list[dict[Place, Tensor]] = []
    hooks = []
    for place, band in bands.items():

        def keep(_: object, __: object, weights: Tensor, place: Place = place, band: Band = band) -> None:
            found[-1][place] = weights.view(-1, band.heads, band.window)

        hooks.append(band.predict.register_forward_hook(keep))
    for source, target in pairs:
        found.append({})
        model(source[None].long(), torch.tensor([len(source)]), read_by_decoder(target)[None].long())
    for hook in hooks:
        hook.remove()
    return found


def read_by_decoder(target: Tensor) -> Tensor:
    """``</s>`` first, as fairseq has it."""
    return target.roll(1)
