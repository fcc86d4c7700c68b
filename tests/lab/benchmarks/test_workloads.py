"""Engines make translations of the given length; FLOPs of a search, and the peak memory of a process."""

from functools import partial
from unittest.mock import MagicMock

import pytest
import torch
from lab.analysis.test_flops import UNKNOWN_TO_TORCH
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.benchmarks import engines
from resmlp_mt.lab.benchmarks.systems import Comparison, Conditions, Shape, Size, Source, System
from resmlp_mt.lab.benchmarks.workloads import FairseqEngine, Training, flops_per_token, random_piece

SIZE = Size(width=16, mlp=16, layers=2, heads=2, vocabulary=40)
NAMES = ["transformer", "resmlp_transformer", "lightconv", "fconv", "lstm"]
MEGABYTE = 1_000_000


def source(name, **others):
    return Source(System(name), SIZE, **others)


def random_of(engine, shape, padding=0.2):
    """Return random sentences in the words of an engine's dictionary."""
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


@pytest.mark.parametrize(("name", "dtype"), [("transformer", torch.float32), ("transformer:amp", torch.bfloat16)])
def test_amp_multiplies_in_bfloat16(name, dtype, monkeypatch):
    monkeypatch.setattr("resmlp_mt.fairseq_plugin.trainer.has_bfloat16", lambda: True)
    training, found = Training(System(name), Comparison((System(name),), baseline=name, size=SIZE)), []
    fc1 = training.trainer.get_model().encoder.layers[0].fc1
    fc1.register_forward_hook(lambda *given: found.append(given[2].dtype))
    training.step(Shape(4, 2).random_batch(0.0, training.dictionary))
    assert found == [dtype]


def test_a_checkpoint_is_a_system(tmp_path):
    checkpoint = tmp_path / "trained.pt"
    trainer = Training(System("transformer"), Comparison((System("transformer"),), size=SIZE)).trainer
    trainer.consolidate_optimizer()
    trainer.save_checkpoint(str(checkpoint), {"train_iterator": {"epoch": 1}})
    same = FairseqEngine(source(str(checkpoint)))
    assert [*map(len, same.translate(random_of(same, Shape(6, 3)), 6))] == [6] * 3
    assert same.formula.keys_and_values == 2 * 4 * 16**2  # keys and values of two layers of width 16
    assert (same.generator.beam_size, FairseqEngine(source(f"{checkpoint}:beam=1")).generator.beam_size) == (4, 1)
    for wrong in "inference_precision", "best":  # an option of another model, and one of rivals
        with pytest.raises(UserError, match=f"pt:lenpen=2,{wrong}: {wrong}: no option of fairseq-generate"):
            FairseqEngine(source(f"{checkpoint}:lenpen=2,{wrong}"))


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
    assert counter.get_total_flops() == pytest.approx(flops_per_token(one, engine.formula, (sentences, 7)) * 14)


def fill(*megabytes):
    """Allocate and free these amounts, one after the other."""
    for amount in megabytes:
        torch.ones(amount * MEGABYTE, dtype=torch.uint8)


def test_the_peak_of_a_process_of_its_own():
    fill(300)  # this process's memory does not count
    assert engines.peak(partial(fill, 40, 100, 20), fill, "cpu") == pytest.approx(100 * MEGABYTE, rel=0.1)
