import pytest
import torch
from small_models import untrained

from resmlp_mt.analysis.matrices import dense_matrices, mixing_matrices
from resmlp_mt.errors import UserError


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("relative", [False, True])
def test_a_is_what_the_mixing_does_to_unit_vectors(side, heads, relative):
    model = untrained(encoder_layers=3, mixing_heads=heads, mixing_relative=relative)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".mixing.mixing." in name:
                parameter.normal_()  # above the diagonal of a causal A too
    found = {mixing.name: mixing for mixing in mixing_matrices(model.state_dict())}
    assert list(found) == ["encoder 1", "encoder 2", "encoder 3", "decoder 1", "decoder 2"]
    for number, layer in enumerate(getattr(model, side).layers):
        mixing = layer.mixing.mixing
        unit = torch.eye(64)[:, :, None].repeat(1, 1, heads)  # the sentence k has ones at position k, for each head
        expected = (mixing(unit) - mixing(torch.zeros_like(unit))).permute(2, 0, 1)
        assert torch.allclose(found[f"{side} {number + 1}"].weights, expected, atol=1e-5)


def test_heads_come_first_and_the_first_positions_are_cut_out():
    weight = torch.randn(3, 5, 5)
    encoder, decoder = mixing_matrices(
        {"decoder.layers.0.mixing.mixing.weight": weight, "encoder.layers.10.mixing.mixing.weight": weight.half()}
    )
    assert (encoder.name, decoder.name) == ("encoder 11", "decoder 1")
    assert torch.equal(decoder.up_to(4).weights, weight[:, :4, :4].tril())
    assert encoder.weights.dtype == torch.float32
    assert decoder.up_to(4).counts.sum() == 10 and encoder.counts.all()


def test_other_models_have_none():
    convolution = {"encoder.layers.0.mixing.mixing.weight": torch.randn(8, 8, 3)}
    attention = {"encoder.layers.0.self_attn.q_proj.weight": torch.randn(8, 8)}
    assert mixing_matrices(convolution) == mixing_matrices(attention) == []


def test_what_is_not_understood_is_not_shown():
    key = "encoder.layers.0.mixing.mixing.weight"
    with pytest.raises(UserError, match=r"mixing\.mixing\.other: a parameter of the mixing that is not understood"):
        mixing_matrices({key: torch.randn(8, 8), key.replace("weight", "other"): torch.randn(8)})


def test_dense_matrices_are_the_linear_layers_of_mlp_and_cross_attention():
    model = untrained()
    found = {(each.side, each.layer, each.matrix): each.weight for each in dense_matrices(model.state_dict())}
    mlp = {(side, layer, name) for side in ("encoder", "decoder") for layer in (1, 2) for name in ("W1", "W2")}
    assert found.keys() == mlp | {("decoder", layer, name) for layer in (1, 2) for name in ("q", "k", "v", "out")}
    layer = model.decoder.layers[1]
    assert torch.equal(found["decoder", 2, "W2"], layer.mlp.fc2.weight)
    assert torch.equal(found["decoder", 2, "k"], layer.cross_attention.attention.k_proj.weight)
