"""Every engine writes translations of the length that it is told, alone in its process."""

import sys
from functools import partial
from unittest.mock import MagicMock

import pytest
import torch
from lab.analysis.test_flops import UNKNOWN_TO_TORCH
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.benchmarks import engines, workloads
from resmlp_mt.lab.benchmarks.engines import CTranslate2Engine, EngineProcess
from resmlp_mt.lab.benchmarks.systems import Comparison, Conditions, Shape, Size, Source, System
from resmlp_mt.lab.benchmarks.workloads import (
    FairseqEngine,
    Training,
    builder,
    flops_per_token,
    random_piece,
    real_pieces,
)

SIZE = Size(width=16, mlp=16, layers=2, heads=2, vocabulary=40)
NAMES = ["transformer", "resmlp_transformer", "lightconv", "fconv", "lstm"]
MEGABYTE = 1_000_000


def source(name, **others):
    return Source(System(name), SIZE, **others)


def lengths(translations):
    return [len(each) for each in translations]


def random_of(engine, shape, padding=0.2):
    """Random sentences in the words of an engine's dictionary."""
    return random_piece(shape, padding, engine.task.source_dictionary)[0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [1, 3])
def test_outputs_are_as_long_as_told(name, count):
    engine = FairseqEngine(source(name))
    for length in 2, 9, 5:
        translations = engine.translate(random_of(engine, Shape(length, count)), length)
        assert [(len(each), each.index("</s>")) for each in translations] == [(length, length - 1)] * count


def test_batches_do_not_change_order_or_translations():
    engine = FairseqEngine(source("resmlp_transformer", conditions=Conditions(beam=2)))
    engine.generator.max_len_b = 6
    sentences = random_of(engine, Shape(9, 5), 0.4)[::-1]
    alone = [engine.translate([each])[0] for each in sentences]
    engine._batch_size = 2
    assert engine.translate(sentences[2:] + sentences[:2]) == alone[2:] + alone[:2]


@pytest.fixture
def ctranslate2(monkeypatch, tmp_path):
    """Stands in for the package; translates by what its process has loaded."""
    (tmp_path / "ctranslate2.py").write_text(
        "import sys\n"
        "class Result:\n"
        "    hypotheses = [[name for name in ('torch', 'fairseq') if name in sys.modules]]\n"
        "class Translator:\n"
        "    def __init__(self, folder, device, intra_threads, compute_type):\n"
        "        self.options = [folder, device, intra_threads, compute_type]\n"
        "    def translate_batch(self, sentences, **options):\n"
        "        self.options.append(options)\n"
        "        return [Result() for _ in sentences]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)  # what is imported now is forgotten afterwards
    del sys.modules["ctranslate2"]


def test_the_process_of_ctranslate2_loads_nothing_else(ctranslate2):
    build = partial(CTranslate2Engine, "folder", "cpu", 1, 4, {"compute_type": "int8"})
    assert workloads.start_of(build) == "spawn"
    process = EngineProcess(build)
    assert process.translate([["a", "b"], []])[0] == [[], []]
    assert process.operations([([["a"]], None)]).keys() == {"outside of operations"}
    assert process.translate([["a"]])[0] == [[]] and 0 < process.peak() < 60 * MEGABYTE
    with pytest.raises(RuntimeError, match=r"translations of \[0\] subwords, not 3"):
        process.translate([["a"]], 3)  # work that is not done is no measurement
    process.close()
    engine = CTranslate2Engine("folder", "cpu", 2, 4, {"compute_type": "int8", "max_batch_size": 7, "vmap": "words"})
    engine.translate([["a"]])
    engine.translate([["a"]], 5)
    *built, usual, forced = engine._translator.options
    assert built == ["folder", "cpu", 2, "int8"]
    assert usual == {"beam_size": 4, "use_vmap": True, "max_batch_size": 7}
    assert forced == {**usual, "max_batch_size": 0, "min_decoding_length": 5, "max_decoding_length": 5}


@pytest.mark.parametrize("kind", ["float32", "int8"])
def test_ctranslate2_is_the_same_transformer(kind, tmp_path):
    pytest.importorskip("ctranslate2")
    ours = FairseqEngine(source("transformer"))
    theirs = EngineProcess(builder(source(f"ctranslate2:compute_type={kind}"), str(tmp_path), "transformer"))
    sentences = random_of(ours, Shape(6, 4))
    expected, found = ours.translate(sentences, 6), theirs.translate(sentences, 6)[0]
    assert lengths(found) == [6] * 4
    if kind == "float32":  # the last word is </s> for fairseq; before it, that can still change which beam wins
        assert sum(a[:4] == b[:4] for a, b in zip(expected, found, strict=True)) >= 3


def test_only_a_transformer_can_be_converted(tmp_path):
    pytest.importorskip("ctranslate2")
    with pytest.raises(UserError, match=r"of resmlp_transformer: .*not supported"):
        builder(source("ctranslate2:compute_type=float32"), str(tmp_path), "resmlp_transformer")


def test_a_checkpoint_is_a_system(tmp_path):
    checkpoint = tmp_path / "trained.pt"
    trainer = Training(System("transformer"), Comparison((System("transformer"),), size=SIZE)).trainer
    trainer.consolidate_optimizer()
    trainer.save_checkpoint(str(checkpoint), {"train_iterator": {"epoch": 1}})
    same = FairseqEngine(source(str(checkpoint)))
    sentences = random_of(same, Shape(6, 3))
    assert lengths(same.translate(sentences, 6)) == [6] * 3
    assert same.formula.kept(1) == 2 * 4 * 16**2  # keys and values of two layers of width 16
    with pytest.raises(UserError, match="6 subwords, but the model has 5 positions"):
        FairseqEngine(source(f"{checkpoint}:max_target_positions=5")).translate(sentences, 6)


def test_real_sentences_are_batched_by_length(data_bin):
    task = source("resmlp_transformer", data=str(data_bin)).task()
    pieces = real_pieces(task, "test", count=5, batch_size=2)
    assert [lengths(sentences) for sentences, _ in pieces] == [[3, 4], [5, 6], [7]]
    assert [length for _, length in pieces] == [6, 8, 9]  # the references' means with </s>, 5.5, 7.5 and 9
    assert lengths(sentences for sentences, _ in real_pieces(task, "test", count=3, batch_size=4)) == [3]


def test_dictionaries_that_are_not_joined_are_one_line(data_bin):
    (data_bin / "dict.de.txt").write_text("another 1\n")
    with pytest.raises(UserError, match=r"^resmlp_transformer: .*joined dictionary") as error:
        FairseqEngine(source("resmlp_transformer", data=str(data_bin)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", [NAMES[0], f"{NAMES[1]}:token_mixing=none", *NAMES[3:]])
@pytest.mark.parametrize("beam", [1, 3])
def test_flops_of_the_search_are_what_torch_counts(name, beam, monkeypatch):
    monkeypatch.setattr("torch.utils.module_tracker.register_multi_grad_hook", MagicMock())  # no gradients here
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    engine = FairseqEngine(source(name, conditions=Conditions(beam=beam)))
    sentences = random_of(engine, Shape(7, 2), 0.0)
    with FlopCounterMode(display=False, custom_mapping=UNKNOWN_TO_TORCH) as counter, sdpa_kernel(SDPBackend.MATH):
        engine.translate(sentences, 7)
    one = Comparison((System(name),), baseline=name, conditions=Conditions(beam=beam))
    assert counter.get_total_flops() == pytest.approx(flops_per_token(one, engine.formula, [(sentences, 7)]) * 14)


def fill(*megabytes):
    """Take these amounts, one after the other."""
    for amount in megabytes:
        torch.ones(amount * MEGABYTE, dtype=torch.uint8)


def test_the_peak_of_a_process_of_its_own():
    fill(300)  # is this process's, not the other's
    assert engines.peak(partial(fill, 40, 100, 20), fill, "cpu") == pytest.approx(100 * MEGABYTE, rel=0.1)


def test_every_system_has_a_peak(monkeypatch):
    peaks = iter([100, 50, 30, 20])

    def peak(work, rehearsal, device, start="forkserver"):
        work()
        return next(peaks)

    monkeypatch.setattr(workloads, "peak", peak)
    systems = System("resmlp_transformer"), System("transformer")
    comparison = Comparison(systems, (Shape(4, 2),), size=SIZE, rounds=1, sentences=2)
    assert [row.memory for row in workloads.train(comparison)] == [100, 50]
    assert [row.memory for row in workloads.generate(comparison)] == [30, 20]
