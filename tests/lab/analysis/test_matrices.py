"""A of a model, its profile, sparsity, used and pruned part, and bands, compared with the layers and plain formulas."""

import copy

import numpy as np
import oracle
import pytest
import torch
from builders import build, dictionary, pairs
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import checkpoint, train, untrained

from resmlp_mt.fairseq_plugin.trained import model_of
from resmlp_mt.lab.analysis import matrices
from resmlp_mt.lab.analysis.matrices import MixingMatrix, UsedPart, mixing_matrices, pruned, sparsity_of_mixing

SIDES = pytest.mark.parametrize("side", ["encoder", "decoder"])


@SIDES
@pytest.mark.parametrize(("heads", "relative"), [(1, False), (4, True)])
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


def mixing(side, weights):
    return MixingMatrix(side, 1, "", weights.tril() if side == "decoder" else weights)


def entries(side, length):
    return [(i, j) for i in range(length) for j in range(length) if side == "encoder" or j <= i]


@SIDES
@settings(max_examples=20)
@given(length=st.integers(2, 7), seed=st.integers(0, 1000))
def test_the_share_explained_is_that_of_a_regression_on_relative_position(side, length, seed):
    weights = torch.randn(1, length, length, generator=torch.Generator().manual_seed(seed))
    places = entries(side, length)
    offsets = sorted({j - i for i, j in places})
    design = np.array([[float(j - i == offset) for offset in offsets] for i, j in places])
    (profile,) = matrices.profiles(mixing(side, weights))
    values = np.array([weights[0, i, j].item() for i, j in places])
    coefficients, *_ = np.linalg.lstsq(design, values, rcond=None)
    left = values - design @ coefficients
    assert profile.offsets.tolist() == offsets
    assert profile.mean == pytest.approx(coefficients, abs=1e-6)
    assert profile.explained == pytest.approx(1 - left.var() / values.var(), abs=1e-5)
    assert profile.spread**2 == pytest.approx((design.T @ left**2) / design.sum(0), abs=1e-5)


@SIDES
def test_what_is_explained_by_chance_is_what_random_matrices_show(side):
    found = matrices.profiles(mixing(side, torch.randn(400, 9, 9, generator=torch.Generator().manual_seed(0))))
    assert np.mean([each.explained for each in found]) == pytest.approx(found[0].by_chance, rel=0.03)


def test_sparsity_counts_what_is_below_a_twentieth_of_the_largest():
    assert matrices.share_of_small(torch.tensor([[-20.0, 0.99], [1.0, -0.5]])) == 0.5
    weights = torch.tensor([[[10.0, 9.0], [0.1, 5.0]], [[0.1, 9.0], [1.0, 1.0]]])
    assert sparsity_of_mixing(mixing("encoder", weights)).share == pytest.approx((1 / 4 + 1 / 4) / 2)
    assert sparsity_of_mixing(mixing("decoder", weights)).share == pytest.approx((1 / 3 + 0) / 2)  # mean of both heads


def changed(before, after):
    """Return, for each side, up to which position the training changed any A."""
    lengths = {}
    for key in before:
        if key.endswith("mixing.mixing.weight"):
            entries = (before[key] != after[key]).nonzero()
            side = key.split(".")[0]
            lengths[side] = max(lengths.get(side, 0), int(entries.max()) + 1)
    return lengths


def used(saved):
    return matrices.used_part(saved, mixing_matrices(model_of("", saved)))


def test_gradients_tell_what_the_training_reached_often_and_biases_what_it_reached(before_training, trained):
    assert used(trained) == UsedPart({"encoder": 6, "decoder": 8}, matrices.BY_GRADIENT)
    reached = changed(before_training, trained["model"])
    assert reached == {"encoder": 11, "decoder": 13}
    no_state = torch.zeros(sum(parameter.numel() for parameter in untrained().parameters()))
    for record in {"momentum_buffer": torch.ones(3)}, {"sum": torch.ones(3)}, {"sum": no_state}, None:
        state = record and {"state": {0: record}}  # the second is of another model
        assert used({**trained, "last_optimizer_state": state}) == UsedPart(reached, matrices.BY_BIAS)
    assert used(checkpoint(before_training)) == UsedPart({"encoder": 64, "decoder": 64}, matrices.NOTHING_TELLS)


@pytest.mark.parametrize("optimizer", [torch.optim.Adagrad, torch.optim.Adam])
def test_the_optimizers_state_is_told_apart_by_parameter(optimizer):
    model = untrained()
    stepping = optimizer(model.parameters(), lr=0.01)
    train(model, stepping, [(5, 7)])
    scale = 1 if optimizer is torch.optim.Adagrad else 0.001  # Adam's 1 - beta2
    saved = checkpoint(model, stepping.state_dict())
    found = matrices.squared_gradients(saved)
    gradients = {name: scale * parameter.grad**2 for name, parameter in model.named_parameters()}
    assert found.keys() == gradients.keys()
    assert all(torch.allclose(found[name], gradients[name], rtol=1e-4) for name in gradients)

    # --fp16 makes one vector of all parameters
    record = "sum" if optimizer is torch.optim.Adagrad else "exp_avg_sq"
    flat = torch.cat([(scale * parameter.grad**2).flatten() for parameter in model.parameters()])
    as_one = matrices.squared_gradients({**saved, "last_optimizer_state": {"state": {0: {record: flat}}}})
    assert all(torch.allclose(as_one[name], found[name], rtol=1e-4) for name in found)


USED = UsedPart({"encoder": 10, "decoder": 12}, "")


@pytest.mark.parametrize("share", [0.29, 0.5, 1.0])
def test_exactly_the_smallest_weights_of_the_used_part_are_zero(trained, share):
    before = copy.deepcopy(trained["model"])
    after = pruned(trained, model_of("", trained), share, USED)["model"]
    assert all(torch.equal(trained["model"][key], before[key]) for key in before)
    assert after.keys() == before.keys()
    for key, expected in before.items():
        if not key.endswith("mixing.mixing.weight"):
            assert after[key] is trained["model"][key]
            continue
        side = key.split(".")[0]
        used = sorted(entries(side, USED.lengths[side]), key=lambda place: abs(expected[place].item()))
        number = {0.29: {100: 29, 78: 22}, 0.5: {100: 50, 78: 39}, 1.0: {100: 100, 78: 78}}[share][len(used)]
        for place in used[:number]:
            expected[place] = 0
        assert torch.equal(after[key], expected)


def test_with_a_relative_term_it_is_a_that_is_zero():
    model = untrained(mixing_heads=4, mixing_relative=True)
    for name, parameter in model.named_parameters():
        if name.endswith("relative"):
            torch.nn.init.normal_(parameter)
    saved = checkpoint(model, options={"mixing_heads": 4, "mixing_relative": True})
    before = mixing_matrices(model)
    for old, new in zip(before, mixing_matrices(model_of("", pruned(saved, model, 0.5, USED))), strict=True):
        gone = new.weights != old.weights
        assert gone.sum((1, 2)).tolist() == [USED.of(old).mask.sum() // 2] * 4
        assert (new.weights[gone] == 0).all()


def test_a_pruned_checkpoint_is_for_inference(trained):
    trained = {**trained, "extra_state": {"epoch": 3, "ema": {}, "ema_fp32_params": {}}}
    result = pruned(trained, model_of("", trained), 0.5, USED)
    assert result["last_optimizer_state"] == {}
    assert result["optimizer_history"][-1]["optimizer_name"] == "none (pruned checkpoint)"
    assert result["extra_state"] == {"epoch": 3}
    assert trained["optimizer_history"][-1]["optimizer_name"] == "Adagrad"
    assert result["cfg"] is trained["cfg"]


BANDED = {"token_mixing": "gated", "mixing_heads": 4, "mixing_band": 2}
TEXT = [tuple(map(torch.tensor, pair)) for pair in zip(*pairs((5, 4), (3, 6), (7, 2)), strict=True)]
SYMBOLS = dictionary()


def predicted(model, side, tokens):
    """Return the band weights that the first layer predicts, T x H x J."""
    p = {name: value.detach() for name, value in oracle.parameters_of(model).items()}
    name = f"{side}.layers.0.mixing"
    x = oracle.embed(p, side, tokens, vars(model.cfg))
    x = [oracle.linear(p, f"{name}.mixing.band.predict", oracle.norm(p, f"{name}.pre_affine", each)) for each in x]
    return torch.stack(x).view(len(tokens), 4, -1)


def test_means_and_spreads_are_over_all_positions_of_the_text():
    model = build(**BANDED).eval()
    found = matrices.read_bands(model, list(zip(*TEXT, strict=True)), sentence=2)
    assert [each.name for each in found] == ["encoder 1", "encoder 2", "decoder 1", "decoder 2"]
    encoder, decoder = found[0], found[2]
    assert (encoder.offsets, decoder.offsets) == ([-2, -1, 0, 1, 2], [-2, -1, 0])
    read = {"encoder": [one.tolist() for one, _ in TEXT], "decoder": [[2, *one[:-1].tolist()] for _, one in TEXT]}
    for each in encoder, decoder:
        weights = [predicted(model, each.side, tokens) for tokens in read[each.side]]
        torch.testing.assert_close(each.sentence, weights[1])
        torch.testing.assert_close(each.mean, torch.cat(weights).mean(0))
        torch.testing.assert_close(each.spread, torch.cat(weights).std(0))
        assert each.tokens == [SYMBOLS[symbol] for symbol in read[each.side][1]]
    assert not any(band.predict._forward_hooks for band in matrices.bands_of(model).values())
