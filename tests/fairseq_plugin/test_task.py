"""The task: data that is broken, does not fit together, or has no sentence left."""

import json
import shutil

import fairseq_cli.validate
import pytest
from fairseq.checkpoint_utils import load_model_ensemble
from fairseq.tasks.translation import TranslationConfig

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.binarized import check_binarized
from resmlp_mt.fairseq_plugin.checkpoints import load_checkpoint
from resmlp_mt.fairseq_plugin.task import Task

AGAIN = "make the data again by resmlp-mt prepare-text or fairseq-preprocess"


@pytest.fixture
def data(small, tmp_path):
    return shutil.copytree(small / "bin", tmp_path / "bin")


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("bin", lambda old: old[: len(old) // 2], r"train\.de-en\.de\.bin: has \d+ bytes, .*\.idx asks for \d+"),
        ("bin", lambda old: b"\xff" * len(old), r"\.bin: symbol 65535 is not in the dictionary of 16 entries"),
        ("idx", lambda old: old[: len(old) // 2], r"train\.de-en\.de\.idx: cut short or damaged"),
        ("idx", lambda old: old[:17] + b"\x4d" + old[18:], r"\.idx: cut short or damaged"),  # the type of its numbers
        ("idx", lambda old: old[:-8] + b"\0" * 8, r"\.idx: damaged"),  # where the last sentence starts
        ("idx", lambda old: old[:18] + bytes(8), r"\.idx: has no sentences"),
    ],
)
def test_a_broken_file_is_named(data, file, change, message):
    path = data / f"train.de-en.de.{file}"
    check_binarized(str(path.with_suffix("")), 16)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UserError, match=f"{message}.*: {AGAIN}"):
        check_binarized(str(path.with_suffix("")), 16)


def test_a_split_without_a_side_or_with_a_broken_one(train, generate, data, tmp_path):
    (data / "valid.de-en.en.bin").unlink()
    with pytest.raises(UserError, match=f"bin: valid has no .bin and .idx of en, the target side: {AGAIN}"):
        generate(data=data, command=fairseq_cli.validate)
    with pytest.raises(UserError, match=r"valid has no .bin and .idx of en"):  # before the first epoch
        train(tmp_path / "save", data=data, validate=True)
    with pytest.raises(UserError, match=r"--load-alignments: .*bin has no train.align.de-en"):
        train(tmp_path / "save", "--load-alignments")
    for option in ["--score-reference"], ["--prefix-size", 1]:
        with pytest.raises(UserError, match="--score-reference, --prefix-size: valid has no target side"):
            generate(*option, "--gen-subset", "valid", data=data)
    (data / "test.de-en.en.bin").write_bytes(b"")
    with pytest.raises(UserError, match=r"test\.de-en\.en\.bin: has 0 bytes"):
        generate(data=data)


def test_repeated_ngrams_are_refused_without_cuda_but_not_if_a_checkpoint_has_them(task, checkpoint, monkeypatch):
    made = task()
    for works, size in (True, 2), (False, 0):  # with fairseq's CUDA extension it had an effect in training
        monkeypatch.setattr("resmlp_mt.fairseq_plugin.task.is_cuda_extension_usable", lambda works=works: works)
        made.cfg.eval_bleu, made.cfg.eval_bleu_args = True, '{"no_repeat_ngram_size": 2}'
        _, config = load_model_ensemble([str(checkpoint)], task=made)
        assert json.loads(made.cfg.eval_bleu_args) == {"no_repeat_ngram_size": size}
    made.cfg.eval_bleu_args = '{"no_repeat_ngram_size": 2}'
    with pytest.raises(UserError, match=r"^--no-repeat-ngram-size .*: does nothing"):
        made.build_model(config.model)


def test_bleu_of_prepared_text_is_that_of_the_task_s_data_whatever_a_checkpoint_names(task, checkpoint):
    _, config = load_model_ensemble([str(checkpoint)], task=(made := task()))
    made.cfg.eval_bleu, made.cfg.eval_bleu_detok, made.cfg.eval_bleu_detok_args = True, "prepared", '{"data": "/other"}'
    with pytest.raises(UserError, match=r"small/bin/text\.json: cannot be read"):
        made.build_model(config.model, from_checkpoint=True)


def test_a_set_in_two_parts_is_trained_on_as_one(train, data, tmp_path):
    for path in data.glob("train.*"):
        shutil.copy(path, data / path.name.replace("train", "train1"))
    train(tmp_path / "save", "--max-epoch", 1, "--max-update", 0, data=data)
    assert load_checkpoint(tmp_path / "save/checkpoint_last.pt")["optimizer_history"][-1]["num_updates"] == 4


def test_sentences_that_are_too_long_are_told_with_the_option(train, generate, tmp_path):
    with pytest.raises(UserError, match=r"all of 16 .* than \(2, 64\): raise --max-source-positions"):
        train(tmp_path, "--max-source-positions", 2)
    with pytest.raises(UserError, match=r"^sentence \d+ has 4 and 4 .*\(3, 64\): raise --max-source-positions"):
        generate("--max-source-positions", 3)


def test_a_model_translates_as_many_positions_as_it_has(train, generate, small, tmp_path):
    train(tmp_path, "--max-source-positions", 1500)
    task = Task.setup_task(TranslationConfig(data=str(small / "bin")))  # 1024 positions, fairseq's default
    load_model_ensemble([str(tmp_path / "checkpoint_last.pt")], task=task)
    assert task.max_positions() == (1500, 1024)
    train(tmp_path / "short", "--max-source-positions", 3, "--truncate-source")
    with pytest.raises(UserError, match=r"more than \(3, 64\)"):
        generate(path=tmp_path / "short/checkpoint_last.pt")
    generate("--truncate-source", path=tmp_path / "short/checkpoint_last.pt")
