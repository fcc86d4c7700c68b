"""Every system writes translations of the length that it is told, and no other."""

import importlib.util
from dataclasses import replace
from unittest.mock import MagicMock

import pytest
import torch
from lab.analysis.test_flops import UNKNOWN_TO_TORCH
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.analysis.flops import ResMLP, Transformer
from resmlp_mt.lab.benchmarks.batches import Shape
from resmlp_mt.lab.benchmarks.comparison import Comparison
from resmlp_mt.lab.benchmarks.generation import (
    Piece,
    RealText,
    build,
    checked,
    flops_per_token,
    make_task,
    random_piece,
    step_by_step,
)
from resmlp_mt.lab.benchmarks.systems import Conditions, Size, System
from resmlp_mt.lab.benchmarks.training import Training

SIZE = Size(width=16, mlp=16, layers=2, heads=2, vocabulary=40)
NAMES = ["transformer", "resmlp_transformer", "lightconv", "fconv", "lstm"]


def comparison(*names):
    return Comparison(tuple(map(System, names)), baseline=names[0], size=SIZE, memory=False)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sentences", [1, 3])
def test_outputs_are_as_long_as_told(name, sentences):
    one = comparison(name)
    task = make_task(one, None)
    translator = build(one, System(name), task)
    for length in 2, 9, 5:
        piece = random_piece(Shape(length, sentences), 0.2, task.source_dictionary)
        assert translator.prepare(piece)() == [length] * sentences
    best = translator.generator.generate([], collated(piece, task))[0]
    assert all(len(beam["tokens"]) == 5 and beam["tokens"][-1] == task.target_dictionary.eos() for beam in best)
    assert len(best) == 4


def collated(piece, task):
    from resmlp_mt.lab.benchmarks.batches import batch

    return batch(piece.sources, piece.sources, task.source_dictionary)


@pytest.mark.parametrize("kind", ["float32", "int8"])
def test_ctranslate2_writes_as_much(kind):
    pytest.importorskip("ctranslate2")
    one = comparison("transformer", f"ctranslate2:compute_type={kind}")
    task = make_task(one, None)
    translator = build(one, one.systems[1], task)
    for length in 2, 9:
        assert translator.prepare(random_piece(Shape(length, 3), 0.2, task.source_dictionary))() == [length] * 3


def test_ctranslate2_is_the_same_transformer():
    pytest.importorskip("ctranslate2")
    one = comparison("transformer", "ctranslate2:compute_type=float32")
    task = make_task(one, None)
    ours, theirs = (build(one, system, task) for system in one.systems)
    piece = random_piece(Shape(6, 4), 0.2, task.source_dictionary)
    ours.prepare(piece)()
    best = [beams[0]["tokens"] for beams in ours.generator.generate([], collated(piece, task))]
    words = [[task.source_dictionary[index] for index in source[:-1]] for source in piece.sources]
    results = theirs.translate(words, 6)
    # the last word aside, which is </s> for fairseq
    same = [
        [task.target_dictionary[index] for index in tokens[:4]] == hypothesis[:4]
        for tokens, hypothesis in zip(best, results, strict=True)
    ]
    assert sum(same) >= 3  # the last step can still change which beam wins


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ctranslate2:compute_type=int3", "Invalid compute type"),
        ("ctranslate2:nonsense=1", "nonsense"),
    ],
)
def test_a_bad_option_of_ctranslate2_is_one_line(name, message):
    pytest.importorskip("ctranslate2")
    one = comparison("transformer", name)
    with pytest.raises(UserError, match=message) as error:
        build(one, one.systems[1], make_task(one, None))
    assert "\n" not in str(error.value)


def test_only_a_transformer_can_be_converted():
    pytest.importorskip("ctranslate2")
    one = comparison("resmlp_transformer", "ctranslate2:compute_type=float32")
    with pytest.raises(UserError, match=r"of resmlp_transformer: .*not supported"):
        build(one, one.systems[1], make_task(one, None))


def test_too_long_is_one_line():
    one = comparison("resmlp_transformer:max_source_positions=8,max_target_positions=8")
    translator = build(one, one.systems[0], make_task(one, None))
    sources = [torch.tensor([5, 2])]
    assert translator.prepare(Piece(sources, 8))() == [8]
    with pytest.raises(UserError, match="9 subwords, but the model has 8 positions"):
        translator.prepare(Piece(sources, 9))()


def test_a_checkpoint_is_a_system(tmp_path):
    one = comparison("transformer")
    task = make_task(one, None)
    checkpoint = tmp_path / "trained.pt"
    trainer = Training(one.systems[0], SIZE, one.conditions).trainer
    trainer.consolidate_optimizer()
    trainer.save_checkpoint(str(checkpoint), {"train_iterator": {"epoch": 1}})
    piece = random_piece(Shape(6, 3), 0.2, task.source_dictionary)
    names = [str(checkpoint), f"{checkpoint}:max_target_positions=5"]
    two = comparison(*names)
    same, shorter = (build(two, system, task) for system in two.systems)
    assert same.prepare(piece)() == [6] * 3
    assert same.formula == Transformer(40, 16, 16, 2, 2)
    with pytest.raises(UserError, match="6 subwords, but the model has 5"):
        shorter.prepare(piece)()
    if importlib.util.find_spec("ctranslate2"):
        converted = build(two, System("ctranslate2:compute_type=float32"), task)
        assert converted.prepare(piece)() == [6] * 3


def test_work_that_is_not_done_is_no_measurement():
    pieces = [Piece([torch.tensor([2])] * 2, length) for length in (3, 4)]
    work = checked("lazy", [lambda: [3, 3], lambda: [4, 3]], pieces)
    work(0)
    with pytest.raises(RuntimeError, match=r"lazy: translations of \[4, 3\] subwords, not 4"):
        work(1)


def test_real_sentences_are_batched_by_length(data_bin):
    one, text = comparison("resmlp_transformer"), RealText(str(data_bin))
    task = text.task(one)
    pieces = text.pieces(task, count=5, batch_size=2)
    assert [[len(source) for source in piece.sources] for piece in pieces] == [[4, 5], [6, 7], [8]]
    assert [piece.length for piece in pieces] == [6, 8, 9]  # the references' means, 5.5, 7.5 and 9
    translator = build(one, one.systems[0], task)
    assert [translator.prepare(piece)() for piece in pieces] == [[6, 6], [8, 8], [9]]
    assert [len(piece.sources) for piece in text.pieces(task, count=3, batch_size=4)] == [3]


def test_bad_data_is_one_line(data_bin, tmp_path):
    one = comparison("transformer")
    with pytest.raises(UserError, match="no folder of fairseq-preprocess") as error:
        RealText(str(tmp_path / "nowhere")).task(one)
    assert "\n" not in str(error.value)
    text = RealText(str(data_bin), "valid")
    with pytest.raises(UserError, match="Dataset not found: valid"):
        text.pieces(text.task(one), 4, 2)


@pytest.mark.parametrize("name", NAMES[:3])
def test_dictionaries_that_are_not_joined_are_one_line(data_bin, name):
    (data_bin / "dict.de.txt").write_text("another 1\n")
    one = comparison(name)
    with pytest.raises(UserError, match=rf"^{name}: .*joined dictionary") as error:
        build(one, one.systems[0], RealText(str(data_bin)).task(one))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", [NAMES[0], f"{NAMES[1]}:token_mixing=none", *NAMES[3:]])
@pytest.mark.parametrize("beam", [1, 3])
def test_flops_of_the_search_are_what_torch_counts(name, beam, monkeypatch):
    monkeypatch.setattr("torch.utils.module_tracker.register_multi_grad_hook", MagicMock())  # no gradients here
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    one = replace(comparison(name), conditions=Conditions(beam=beam))
    task = make_task(one, None)
    translator = build(one, System(name), task)
    piece = random_piece(Shape(7, 2), 0.0, task.source_dictionary)
    work = translator.prepare(piece)
    with FlopCounterMode(display=False, custom_mapping=UNKNOWN_TO_TORCH) as counter, sdpa_kernel(SDPBackend.MATH):
        work()
    assert counter.get_total_flops() == pytest.approx(flops_per_token(one, translator.formula, [piece]) * piece.tokens)


def test_flops_of_decoding_step_by_step():
    s, t, d, m, v = 7, 5, 16, 24, 40
    cross = 4 * d * d + 4 * s * d
    for model, own in (ResMLP, lambda n: 2 * n * d), (Transformer, lambda n: 8 * d * d + 4 * n * d):
        steps = sum(2 * (own(n) + 4 * d * m + cross) + 2 * d * v for n in range(1, t + 1))
        assert step_by_step(model(v, d, m, 2, 2), s, t) == steps + 2 * s * 4 * d * d
    formula = Transformer(v, d, m, 2, 2)
    pieces = [Piece([torch.ones(s), torch.ones(s - 2)], t)]
    expected = 2 * (formula.encoder(s) + 3 * step_by_step(formula, s, t)) / (2 * t)
    one = Comparison((System("transformer"),), conditions=Conditions(beam=3))
    assert flops_per_token(one, formula, pieces) == expected
    assert flops_per_token(one, None, pieces) is None
