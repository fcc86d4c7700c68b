"""What the pictures show."""

import pytest
import torch

pytest.importorskip("matplotlib")

from resmlp_mt.lab import drawing
from resmlp_mt.lab.analysis import pictures
from resmlp_mt.lab.analysis.matrices import MixingMatrix, TextBand

PNG = b"\x89PNG"


def mixings(layers=2, heads=1, length=9):
    torch.manual_seed(0)
    encoder, decoder = torch.randn(2, layers, heads, length, length)
    sides = ("encoder", encoder), ("decoder", decoder.tril())
    return [MixingMatrix(side, number, "", each) for side, layer in sides for number, each in enumerate(layer, 1)]


@pytest.mark.parametrize(("layers", "heads", "length"), [(1, 1, 2), (12, 1, 200), (3, 16, 30)])
def test_any_number_of_layers_heads_and_positions_is_drawn(layers, heads, length):
    found = mixings(layers, heads, length)
    for figure in pictures.overview(found), pictures.profile(found), pictures.layer(found[-1]):
        assert drawing.png(figure).startswith(PNG)
    series = found[-1:] * min(layers + 1, 5)
    figure = pictures.change(series, [f"checkpoint{epoch}\n{1000 * epoch:,} updates" for epoch, _ in enumerate(series)])
    assert drawing.png(figure).startswith(PNG)
    assert sum("changed by" in axis.get_title() for axis in figure.axes) == len(series) - 1


def test_bands_are_drawn():
    torch.manual_seed(0)
    offsets, heads, length = [-1, 0, 1], 16, 5
    mean, spread = torch.randn(heads, 3), torch.rand(heads, 3)
    sentence, tokens = torch.randn(length, heads, 3), ["$a", "b$", *["Donaudampfschifffahrtsgesellschaft@@"] * 3]
    found = [TextBand("encoder", number, offsets, mean, spread, sentence, tokens) for number in (1, 2)]
    figure = pictures.band(found)
    assert drawing.png(figure).startswith(PNG)
    (image,) = figure.axes[1].get_images()
    assert torch.equal(torch.as_tensor(image.get_array().data), spread)
    figure = pictures.band_of_a_sentence(found)
    assert drawing.png(figure).startswith(PNG)
    (image,) = figure.axes[0].get_images()
    torch.testing.assert_close(torch.as_tensor(image.get_array().data), sentence.pow(2).sum(1).div(heads).sqrt())
