"""The promises of the model, for every preset (narrowed, for speed) and more variants.

The oracle shares no code with the model. Outputs and gradients in training are compared with the oracle's; inference
(steps, folding) is compared with training.
"""

from argparse import Namespace
from collections import Counter
from copy import deepcopy
from functools import partial
from unittest import mock

import pytest
import torch
from builders import GATED, GENERATING, PAD, VARIANTS, batch, build, decode_in_steps, dictionary, logits, pairs, shifted
from fairseq.models.lightconv import LightConvModel
from oracle import EQUATIONS, encode, parameters_of, translate_scores
from torch import nn

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.dynamicconv import DynamicConvModel
from resmlp_mt.fairseq_plugin.options import BASE, PRESETS
from resmlp_mt.nn.config import BUILT_IN, OF_HEADS
from resmlp_mt.nn.elementwise import Dropout
from resmlp_mt.nn.encoder_decoder import fold_

# All is float64 except the softmax of cross-attention, in float32. This compares tensors, lists or dictionaries.
assert_same = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-5)


def options_of(variant):
    """Return all options of a variant: those that it gives to ``build``, and its preset's, without dropout."""
    preset = PRESETS[variant.get("preset", "resmlp_transformer_tiny")]
    return {**BASE, **preset, "dropout": 0.0, "mixing_dropout": 0.0, **variant}


@pytest.fixture(scope="module", params=VARIANTS.values(), ids=[name.replace(" ", "-") for name in VARIANTS])
def variant(request):
    return build(**request.param), options_of(request.param)


@pytest.fixture(scope="module")
def folded(variant):
    return fold_copy(variant[0])


@pytest.fixture(scope="module")
def tiny():
    return build()


def fold_copy(model):
    """Return a folded copy of the model; fairseq's hook folds in place, and folding once more changes nothing."""
    copy = deepcopy(model).eval()
    for _ in range(2):
        copy.prepare_for_inference_(GENERATING)
    fold_(copy)
    return copy


def test_dropout_is_retained_in_modules_that_are_there_alone(tiny):
    with pytest.raises(UserError, match="--retain-dropout-modules: this model has no TransformerEncoder: give "):
        deepcopy(tiny).make_generation_fast_(retain_dropout=True, retain_dropout_modules="['TransformerEncoder']")
    for classes, owner in (None, tiny), ("['EncoderLayer']", tiny.encoder.layers):
        expected = [each in set(owner.modules()) for each in tiny.modules() if isinstance(each, Dropout)]
        copy = deepcopy(tiny)
        copy.make_generation_fast_(retain_dropout=True, retain_dropout_modules=classes)
        assert [each.always for each in copy.modules() if isinstance(each, Dropout)] == expected and any(expected)


def gradients(parameters, rows, weights):
    """Return the gradients, by parameter name, of the weighted sum of the rows' logits."""
    for parameter in parameters.values():
        parameter.grad = None
    sum((row * weight).sum() for row, weight in zip(rows, weights, strict=True)).backward()
    return {name: torch.zeros_like(p) if p.grad is None else p.grad.clone() for name, p in parameters.items()}


def random_like(rows):
    generator = torch.Generator(torch.get_default_device()).manual_seed(1)
    return [torch.randn(row.shape, generator=generator, dtype=row.dtype) for row in rows]


def test_training_is_the_paper_s_equations(variant):
    """Outputs, and the gradient of every parameter, are those of the equations."""
    model, options = variant
    sources, targets = pairs((5, 4), (3, 6))
    p = parameters_of(model)
    lines = zip(sources, shifted(targets), strict=True)
    expected = [translate_scores(p, source, previous, options) for source, previous in lines]
    weights = random_like(expected)
    reference = gradients(p, expected, weights)
    checkpointed = build(**options, checkpoint_activations=True)
    for each, left_pad in (model, False), (model, True), (checkpointed, False), (checkpointed, True):
        assert each.training and torch.is_grad_enabled()
        got = logits(each, sources, targets, left_pad)
        assert_same(got, expected)
        found = gradients(dict(each.named_parameters()), got, weights)
        for name in found:
            if "embed_tokens" in name and "output_projection" not in name:
                found[name][PAD] = reference[name][PAD]  # PyTorch gives padding's row no gradient
        assert_same(found, {name: reference[name] for name in found})


def test_every_mixing_has_its_equation():
    assert BUILT_IN - EQUATIONS.keys() == set(), "tests/oracle.py has no equation of these"
    assert {options_of(each)["token_mixing"] for each in VARIANTS.values()} >= BUILT_IN, "no variant has these"


@pytest.mark.parametrize("mixing", OF_HEADS)
@torch.no_grad()
def test_every_dropout_is_where_the_equations_have_it_and_takes_part(mixing):
    rates = {"dropout": 0.1, "attention_dropout": 0.2, "activation_dropout": 0.3, "mixing_dropout": 0.4}
    model, rates_found = build(token_mixing=mixing, **rates).eval(), []
    plain = logits(model, *pairs((5, 4), (3, 6)))
    for dropout in (each for each in model.modules() if isinstance(each, Dropout)):
        rates_found.append(dropout.p)
        with mock.patch.object(dropout, "forward", lambda x: 2 * x):
            assert not torch.allclose(logits(model, *pairs((5, 4), (3, 6)))[0], plain[0]), dropout
    # 2 embeddings, 4 branches of 2 encoder layers and 6 of 2 decoder layers; cross-attention, MLPs, mixings
    assert Counter(rates_found) == {0.1: 12, 0.2: 2, 0.3: 4, 0.4: 4}


# Promise 1: a sentence is alone


@pytest.mark.parametrize("is_folded", [False, True])
@torch.no_grad()
def test_batch_and_padding_do_not_matter(variant, folded, is_folded):
    """Padding does not count: with it, batches may be longer than the model's positions."""
    model = folded if is_folded else variant[0]
    sources, targets = pairs((5, 4), (1, 6), (7, 1), (1, 1))
    alone = [logits(model, [s], [t])[0] for s, t in zip(sources, targets, strict=True)]
    for left_pad in False, True:
        for left_pad_target in False, True:
            assert_same(logits(model, sources, targets, left_pad, left_pad_target, extra=60), alone)


def test_a_batch_trains_as_its_sentences_alone_do(variant):
    """The gradients of a batch are the sums of those of its sentences."""
    model, _ = variant
    sources, targets = pairs((5, 4), (2, 6), (7, 1))
    parameters = dict(model.named_parameters())
    rows = logits(model, sources, targets, left_pad=True, extra=3)
    weights = random_like(rows)
    got = gradients(parameters, rows, weights)
    alone = [
        gradients(parameters, logits(model, [source], [target]), [weight])
        for source, target, weight in zip(sources, targets, weights, strict=True)
    ]
    assert_same(got, {name: sum(each[name] for each in alone) for name in got})


def test_the_encoder_gives_back_positions_where_the_tokens_are(tiny):
    (sources, _) = pairs((5, 1), (2, 1))
    parameters = parameters_of(tiny)
    for left_pad in False, True:
        tokens = batch(sources, left_pad, extra=2)
        out = tiny.encoder(tokens)
        encoded = out["encoder_out"][0]
        assert torch.equal(out["encoder_padding_mask"][0], tokens.eq(PAD))
        assert encoded.shape == (*tokens.t().shape, 64)
        for b, source in enumerate(sources):
            assert_same(encoded[tokens[b].ne(PAD), b], torch.stack(encode(parameters, source, options_of({}))))


# Promise 2: no look ahead


@torch.no_grad()
def test_no_position_sees_a_later_one(variant):
    model, _ = variant
    (sources, targets) = pairs((5, 8))
    prev = batch(shifted(targets))
    full = model(batch(sources), None, prev)[0]
    for t in range(1, 8):
        changed = prev.clone()
        changed[:, t:] = 4 + (changed[:, t:] + 1) % 40
        scores = model(batch(sources), None, changed)[0]
        assert_same(scores[:, :t], full[:, :t])
        assert not torch.allclose(scores[:, t:], full[:, t:])


def test_gradients_stay_in_the_triangle_and_in_the_batch(variant):
    # N differs from every other size: it identifies A below
    model = build(**{**variant[1], "max_source_positions": 21, "max_target_positions": 23})
    sources, targets = pairs((5, 4), (3, 6))
    model(batch(sources, left_pad=True), None, batch(shifted(targets)))[0].square().sum().backward()
    for stack, positions, length in (model.encoder, 21, 5), (model.decoder, 23, 6):
        if stack is model.encoder and "no_cross_attention" in variant[1]:
            continue  # nothing reads it
        reached = torch.zeros(positions, positions, dtype=torch.bool)
        reached[:length, :length] = True
        reached = reached.tril() if stack is model.decoder else reached
        # the decoder's first position reads only itself: the softmax of one score is 1, without a gradient
        reached[0, 0] = not (stack is model.decoder and variant[1]["token_mixing"] == "synthesizer")
        found = {n: p for n, p in stack.layers.named_parameters() if p.shape[-2:] == (positions, positions)}
        for name, parameter in found.items():
            grad = parameter.grad.reshape(-1, positions, positions)
            assert torch.equal(grad != 0, reached.expand_as(grad)), name
        side = model.sizes.decoder if stack is model.decoder else model.sizes.encoder
        kinds = {side.of_layer(number).token_mixing for number in range(len(stack.layers))}
        assert bool(found) == bool(kinds & {"linear", "gated", "mlp", "synthesizer"})


# Promise 3: one step at a time equals all at once


@pytest.mark.parametrize("is_folded", [False, True])
@pytest.mark.parametrize("left_pad", [False, True])
@torch.no_grad()
def test_steps_equal_teacher_forcing(variant, folded, is_folded, left_pad):
    model = folded if is_folded else variant[0]
    sources, targets = pairs((5, 9), (3, 9), (4, 9))
    stepped, beams = decode_in_steps(model, sources, targets, left_pad, drop_at=4)
    for (i, j), rows in stepped.items():
        expected = logits(model, [sources[i]], [beams[i][j]])[0]
        assert len(rows) == (4 if i == 0 else 9)
        assert_same(rows, expected[: len(rows)])


@torch.no_grad()
def test_the_encoder_s_output_follows_its_beams(tiny):
    out = tiny.encoder(batch(pairs((5, 1), (3, 1))[0]))
    for order in [0, 0, 1, 1], [1, 0, 3, 3], [0, 1, 2, 2, 3], [2, 3, 0, 1], [1, 2]:
        before, out = out, tiny.encoder.reorder_encoder_out(out, torch.tensor(order))
        on_cpu = before["encoder_out"][0].is_cpu  # on a GPU, looking costs more than copying
        assert (out is before) == (order == [1, 0, 3, 3] and on_cpu)
        assert out["encoder_out"][0].equal(before["encoder_out"][0][:, order])
        assert out["encoder_padding_mask"][0].equal(before["encoder_padding_mask"][0][order])


# Promise 4: folding changes nothing


@torch.no_grad()
def test_folding_moves_scores_by_rounding_only(variant, folded):
    model, _ = variant
    sources, targets = pairs((5, 4), (3, 6))
    for left_pad in False, True:
        assert_same(logits(folded, sources, targets, left_pad), logits(model, sources, targets, left_pad))


@pytest.mark.parametrize("options", [{"mixing_heads": 4, "mixing_relative": True}, GATED])
def test_folding_a_half_precision_model_rounds_once(options):
    """The fold is computed in float64, so that only the rounding of each folded weight is lost."""
    model = build(scatter=0.05, **options).half()
    exact, got = fold_copy(deepcopy(model).double()).half(), fold_copy(model)
    for tensors in nn.Module.named_parameters, nn.Module.named_buffers:
        torch.testing.assert_close(dict(tensors(got)), dict(tensors(exact)), rtol=0, atol=0)
    assert not [name for name, _ in got.named_parameters() if "affine" in name]  # none is left


# Promise 5: too long is an error


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ((11, 3), "source sentence has 11 positions.*has 10.*--max-source-positions 11"),
        ((3, 13), "target sentence has 13 positions.*has 12.*--max-target-positions 13"),
    ],
)
@pytest.mark.parametrize("left_pad", [False, True])
@pytest.mark.parametrize("mixing", sorted(BUILT_IN))
def test_too_long_is_refused_with_length_limit_and_option(lengths, message, left_pad, mixing):
    model = build(max_source_positions=10, max_target_positions=12, token_mixing=mixing)
    assert model.max_positions() == (10, 12)
    logits(model, *pairs((10, 12), (2, 2)), left_pad, left_pad)
    for parameter in (model.encoder if lengths[0] > 10 else model.decoder).parameters():
        parameter.data = parameter.data.new_empty(0)  # any use of it fails otherwise: it is refused before
    with pytest.raises(UserError, match=message):
        logits(model, *pairs(lengths, (2, 2)), left_pad, left_pad)
    with pytest.raises(UserError, match="max-target-positions 13"):
        model.decoder(torch.full((1, 13), 5), encoder_out=None, incremental_state={})


@pytest.mark.parametrize(("kind", "keeps"), [(DynamicConvModel, True), (LightConvModel, False)])
def test_dynamicconv_keeps_promises_1_and_3_in_batches_shorter_than_a_kernel_and_fairseq_s_does_not(kind, keeps):
    numbers = {"embed_dim": 8, "ffn_embed_dim": 8, "layers": 2, "kernel_size_list": [3, 15], "conv_type": "dynamic"}
    sides = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in numbers.items()}
    task = Namespace(source_dictionary=dictionary(), target_dictionary=dictionary())
    model = kind.build_model(Namespace(**sides, weight_softmax=True, weight_dropout=0.0), task).double().eval()
    sources, targets = pairs((5, 4), (20, 20))
    (alone,) = logits(model, sources[:1], targets[:1])
    in_steps, _ = decode_in_steps(model, sources, targets, False, 20)
    for other in logits(model, sources, targets)[0], in_steps[0, 0][:4]:
        assert torch.allclose(other, alone, rtol=1e-5, atol=1e-5) is keeps
