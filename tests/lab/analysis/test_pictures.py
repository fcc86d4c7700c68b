"""Pictures: what is on them."""

import pytest
import torch

pytest.importorskip("matplotlib")

from resmlp_mt.lab import drawing
from resmlp_mt.lab.analysis import pictures
from resmlp_mt.lab.analysis.matrices import MixingMatrix, TextBand

PNG = b"\x89PNG"


def mixings(layers=2, heads=1, length=9):
    torch.manual_seed(0)
    found = []
    for side in "encoder", "decoder":
        for number in range(layers):
            weights = torch.randn(heads, length, length)
            found.append(MixingMatrix(side, number + 1, "", weights.tril() if side == "decoder" else weights))
    return found


@pytest.mark.parametrize(("layers", "heads", "length"), [(1, 1, 2), (12, 1, 200), (3, 16, 30)])
def test_any_number_of_layers_heads_and_positions_is_drawn(layers, heads, length):
    found = mixings(layers, heads, length)
    assert drawing.png(pictures.overview(found)).startswith(PNG)
    assert drawing.png(pictures.profile(found)).startswith(PNG)
    assert drawing.png(pictures.layer(found[-1])).startswith(PNG)
    series = found[-1:] * min(layers + 1, 5)
    figure = pictures.change(series, [f"checkpoint{epoch}\n{1000 * epoch:,} updates" for epoch, _ in enumerate(series)])
    assert drawing.png(figure).startswith(PNG)
    assert sum("changed by" in axis.get_title() for axis in figure.axes) == len(series) - 1


@pytest.mark.parametrize(("layers", "heads", "reach", "length"), [(1, 1, 1, 2), (3, 16, 3, 30)])
def test_bands_are_drawn(layers, heads, reach, length):
    torch.manual_seed(0)
    found = []
    for side, last in ("encoder", reach), ("decoder", 0):
        offsets = list(range(-reach, last + 1))
        for number in range(1, layers + 1):
            mean, spread = torch.randn(heads, len(offsets)), torch.rand(heads, len(offsets))
            sentence = torch.randn(length, heads, len(offsets))
            tokens = ["$a", "b$", *["Donaudampfschifffahrtsgesellschaft@@"] * (length - 2)]
            found.append(TextBand(side, number, offsets, mean, spread, sentence, tokens))
    figure = pictures.band(found)
    assert drawing.png(figure).startswith(PNG)
    (image,) = figure.axes[1].get_images()
    assert torch.equal(torch.as_tensor(image.get_array().data), found[0].spread)
    figure = pictures.band_of_a_sentence(found)
    assert drawing.png(figure).startswith(PNG)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()][:2] == ["$a", "b$"]
    (image,) = figure.axes[layers].get_images()  # the decoder's first
    size = found[layers].sentence.pow(2).sum(1).div(heads).sqrt()
    torch.testing.assert_close(torch.as_tensor(image.get_array().data), size)


def test_zero_is_white_what_is_not_read_grey_and_the_rest_red_or_blue():
    weights = torch.tensor([[[0.0, 7.0], [2.0, -2.0]]])
    figure = pictures.layer(MixingMatrix("decoder", 1, "", weights))
    axis, _ = figure.axes
    (image,) = axis.get_images()
    colours = image.to_rgba(image.get_array())
    assert colours[0, 0, :3].min() > 0.95
    assert colours[0, 1] == pytest.approx([0.85, 0.85, 0.85, 1])
    assert colours[1, 0, 0] > 2 * colours[1, 0, 2]
    assert colours[1, 1, 2] > 2 * colours[1, 1, 0]
    assert (image.norm.vmin, image.norm.vmax) == pytest.approx((-2, 2))
