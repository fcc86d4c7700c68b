import pytest
import torch
from small_models import untrained

from resmlp_mt.lab.analysis.matrices import MixingMatrix, dense_matrices, mixing_matrices
from resmlp_mt.nn import TokenMixing
from resmlp_mt.nn.mixing_kinds import MLPTokenMixing


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("relative", [False, True])
def test_a_is_what_the_mixing_does_to_unit_vectors(side, heads, relative):
    model = untrained(encoder_layers=3, mixing_heads=heads, mixing_relative=relative)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".mixing.mixing." in name:
                parameter.normal_()  # above the diagonal of a causal A too
    found = {mixing.name: mixing for mixing in mixing_matrices(model)}
    assert list(found) == ["encoder 1", "encoder 2", "encoder 3", "decoder 1", "decoder 2"]
    for number, layer in enumerate(getattr(model, side).layers):
        mixing = layer.mixing.mixing
        unit = torch.eye(64)[:, :, None].repeat(1, 1, heads)  # the sentence k has ones at position k, for each head
        expected = (mixing(unit) - mixing(torch.zeros_like(unit))).permute(2, 0, 1)
        assert torch.allclose(found[f"{side} {number + 1}"].weights, expected, atol=1e-5)


def test_the_first_positions_are_cut_out():
    weights = torch.randn(3, 5, 5)
    encoder, decoder = MixingMatrix("encoder", 11, "", weights), MixingMatrix("decoder", 1, "", weights.tril())
    assert (encoder.name, decoder.name) == ("encoder 11", "decoder 1")
    assert torch.equal(decoder.up_to(4).weights, weights[:, :4, :4].tril())
    assert decoder.up_to(4).counts.sum() == 10 and encoder.counts.all()


class Halved(TokenMixing):
    """A of its own without a parameter of its own."""

    def rows(self, start, end):
        return super().rows(start, end) / 2


def test_a_mixing_of_its_own_is_asked_for_its_rows():
    model = untrained()
    decoder = model.decoder.layers[1].mixing
    decoder.mixing = Halved(64, causal=True)
    model.encoder.layers[0].mixing.mixing = MLPTokenMixing(64, 2)
    found = {mixing.name: mixing for mixing in mixing_matrices(model)}
    assert list(found) == ["encoder 2", "decoder 1", "decoder 2"]
    assert torch.equal(found["decoder 2"].weights[0], decoder.mixing.weight.tril() / 2)


def test_dense_matrices_are_the_linear_layers_of_mlp_and_cross_attention():
    model = untrained()
    found = {(each.side, each.layer, each.matrix): each.weight for each in dense_matrices(model)}
    mlp = {(side, layer, name) for side in ("encoder", "decoder") for layer in (1, 2) for name in ("W1", "W2")}
    assert found.keys() == mlp | {("decoder", layer, name) for layer in (1, 2) for name in ("q", "k", "v", "out")}
    layer = model.decoder.layers[1]
    assert torch.equal(found["decoder", 2, "W2"], layer.mlp.fc2.weight)
    assert torch.equal(found["decoder", 2, "k"], layer.cross_attention.attention.k_proj.weight)
