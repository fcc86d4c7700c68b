"""fairseq's commands: their options, the text that they read, and how they end."""

import io
import os
import re
import subprocess
import sys
from argparse import Namespace
from functools import partial
from types import SimpleNamespace

import fairseq_cli.validate
import numpy as np
import pytest
import torch
import torch.multiprocessing
from fairseq import models, options
from fairseq.data import LanguagePairDataset, TokenBlockDataset
from fairseq.data.iterators import EpochBatchIterator
from fairseq.modules.quant_noise import quant_noise
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Dataset

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.raw_text import NAME
from resmlp_mt.fairseq_plugin import raw_text
from resmlp_mt.fairseq_plugin.checkpoints import DoesNotFit
from resmlp_mt.fairseq_plugin.raw_text import Lines
from resmlp_mt.fairseq_plugin.resmlp_transformer import ResMLPTransformerModel
from resmlp_mt.fairseq_plugin.uncaught import explanation

SMOOTHED = "--criterion", "label_smoothed_cross_entropy"
PLAIN = "--arch", "transformer_tiny"


@pytest.fixture
def data(tmp_path):
    """A data-bin with empty files, as far as the options need them."""
    for name in "dict.en.txt", "dict.de.txt", "train.en-de.en.bin", raw_text.RECORD:
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture
def parse(monkeypatch):
    """A function that parses the options of one of fairseq's commands; later options win."""

    def parsed(command, data, *arguments):
        training = ["--arch", "resmlp_transformer_tiny", "--optimizer", "adam", "--max-tokens", "100"]
        words = training if command == "training" else ["--path", "x.pt"]
        monkeypatch.setattr(sys, "argv", ["fairseq", str(data), *words, *map(str, arguments)])
        return options.parse_args_and_arch(getattr(options, f"get_{command}_parser")())

    return parsed


# Options are completed from the data, and refused where fairseq would do something else than they say.


@pytest.mark.parametrize("command", ["training", "generation", "interactive_generation", "validation"])
def test_what_fairseq_takes_where_nothing_is_said_is_possible(parse, small, command):
    assert parse(command, small / "bin").task == "translation"
    if command == "generation":  # these models have other options
        assert parse(command, small / "bin", "--task", "translation_lev", "--print-step").print_step


@pytest.mark.parametrize(
    ("command", "given", "message"),
    [
        ("training", ["--lr", "0.1,-1"], "--lr is -1.0: give 0 or more"),
        ("generation", ["--beam", 0], "--beam is 0: give 1 or more"),
        ("training", ["--save-interval", 0], "--save-interval is 0: give 1 or more"),
        ("training", ["--bf16"], "--bf16: fairseq trains in bf16 on TPUs only"),
        ("training", ["--fp16", "--cpu"], "--fp16 .*: fairseq trains in 16 bits on a GPU only"),
        ("training", ["--lr-scheduler", "inverse_sqrt", "--warmup-updates", 0], "inverse_sqrt: give --warmup-updates"),
        ("training", ["--lr-scheduler", "polynomial_decay"], "polynomial_decay: give --total-num-update"),
        ("training", ["--best-checkpoint-metric", "bleu"], "--best-checkpoint-metric bleu: give --eval-bleu"),
        ("training", [*SMOOTHED, "--best-checkpoint-metric", "accuracy"], "accuracy: give --report-accuracy too"),
        ("validation", ["--model-overrides", "{'a': f()}"], "--model-overrides .*: give a dictionary"),
        ("generation", ["--model-overrides", "{'mixing-heads': 2}"], "--model-overrides .*: give a dictionary"),
        ("training", ["--eval-bleu-args", "{beam: 4}"], "--eval-bleu-args .*: give a dictionary"),
        ("generation", ["--path", ""], "--path is missing: give a checkpoint"),
        ("generation", ["--constraints"], "--constraints: this command ignores it: use fairseq-interactive"),
        ("generation", ["--num-shards", 2], "--num-shards 2: fairseq ignores it and would translate all"),
        ("generation", ["--replace-unk"], "--replace-unk: fairseq would end with an error"),
        ("interactive_generation", ["--replace-unk", ""], "--replace-unk: fairseq would end with an error"),
        ("generation", ["--no-repeat-ngram-size", 3], "--no-repeat-ngram-size .*: does nothing"),
        ("generation", ["--lm-weight", 0.1], "--lm-weight: give --lm-path too"),
        ("generation", ["--lm-path", "lm.pt", "--score-reference"], "--lm-path: --score-reference ignores it"),
        ("generation", ["--print-step"], "--print-step: fairseq would end with an error"),
        ("interactive_generation", ["--truncate-source"], "--truncate-source: this command ignores it"),
        ("generation", ["--left-pad-target", "--score-reference"], "--left-pad-target: fairseq would take padding"),
        ("generation", ["--retain-dropout-modules", "DecoderLayer"], "-modules: give --retain-dropout too"),
        ("training", ["--distributed-init-method", "tcp://x"], "-init-method without a GPU would start no process"),
        ("training", ["--quant-noise-pq", 0.1], "--quant-noise-pq: fairseq would zero the weights for good"),
        ("training", ["--eval-bleu", "--best-checkpoint-metric", "bleu"], "give --maximize-best-checkpoint-metric too"),
        ("training", ["--maximize-best-checkpoint-metric"], "the highest loss is the worst: give --best-checkpoi"),
        ("interactive_generation", ["--print-alignment", "soft"], "prints hard alignments only: give hard"),
        ("training", ["-s", "xx"], "--source-lang xx: .* is data of de and en"),
    ],
)
def test_what_fairseq_would_not_do_is_refused(parse, data, command, given, message):
    with pytest.raises(UserError, match=message):
        parse(command, data, *given)


def test_processes_that_would_each_train_a_model_are_told(parse, small, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match="torchrun: each process would train a model of its own"):
        parse("training", small / "bin")
    parse("training", small / "bin", "--distributed-world-size", 2)


def test_an_architecture_is_asked_for_but_no_task(monkeypatch, small, generate):
    monkeypatch.setattr(sys, "argv", ["fairseq", str(small / "bin"), "--optimizer", "adam"])
    with pytest.raises(UserError, match="--arch is missing: give one"):
        options.parse_args_and_arch(options.get_training_parser())
    generate(command=fairseq_cli.validate)


@pytest.mark.parametrize("command", ["generation", "interactive_generation", "training"])
def test_missing_languages_are_those_of_the_data(data, parse, command):
    for given, completed in ([], ("en", "de")), (["-s", "de"], ("de", "en")), (["-t", "en"], ("de", "en")):
        args = parse(command, data, *given)
        assert (args.source_lang, args.target_lang) == completed
    parser, words = options.get_validation_parser(), [str(data), "--path", "x"]
    assert not hasattr(options.parse_args_and_arch(parser, words, suppress_defaults=True), "source_lang")


@pytest.mark.parametrize("command", ["generation", "interactive_generation"])
def test_the_preparation_of_the_text_is_chosen_where_no_option_says_otherwise(data, parse, command):
    def text_of(data, *given):
        args = parse(command, data, *given)
        return args.tokenizer, args.bpe

    assert raw_text.RECORD == NAME
    assert text_of(data) == text_of(f"{data}:other") == ("prepared", "prepared")
    assert text_of(data, "--tokenizer", "space") == ("space", None)
    assert text_of(data, "--bpe", "characters") == (None, "characters")
    joined_by_option = None if command == "generation" else "prepared"
    assert text_of(data, "--remove-bpe") == (joined_by_option, joined_by_option)
    (data / raw_text.RECORD).unlink()
    assert text_of(data) == (None, None)


def test_constraints_are_marked_as_the_target_s_and_several_languages_are_left_alone(monkeypatch, capsys):
    monkeypatch.setattr(raw_text, "_make_batches", lambda lines, *_: iter(lines))
    task = SimpleNamespace(source_dictionary=SimpleNamespace(encode_line=lambda *_, **__: torch.zeros(3)))
    limits = SimpleNamespace(max_tokens=None, skip_invalid_size_inputs_valid_test=False)
    cfg = SimpleNamespace(dataset=limits, generation=SimpleNamespace(constraints="ordered"))
    for tokenizer, positions, line in (
        (raw_text.PREPARED, (4, 4), "a\t\0l'homme\t\0b"),
        ("moses", (4, 4), "a\tl'homme\tb"),
        (raw_text.PREPARED, {"de-en": (4, 4)}, "a\tl'homme\tb"),
    ):
        cfg.tokenizer = SimpleNamespace(_name=tokenizer)
        assert list(Lines().batches(["a\tl'homme\tb"], cfg, task, positions, str)) == [line]
    limits.max_tokens = 2
    assert list(Lines().batches(["a b"], cfg, task, (4, 4), str)) == [""]
    assert "sentence 0 (line 1): 3 positions" in capsys.readouterr().err


def test_help_has_the_model_s_options_for_presets_of_one_s_own(parse, small, monkeypatch, capsys):
    monkeypatch.setitem(models.ARCH_MODEL_REGISTRY, "mine", ResMLPTransformerModel)
    with pytest.raises(SystemExit):
        parse("training", small, "--help", "--arch", "mine")
    assert "--mixing-heads" in capsys.readouterr().out


@pytest.mark.parametrize("by_stdin", [False, True])
def test_lines_end_at_lf_alone(tmp_path, monkeypatch, by_stdin):
    content = "a\rb\r\nc\u2028d\x85e\n\n \tf\x0c\nlast".encode()
    (tmp_path / "text").write_bytes(content)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    found = list(Lines().read("-" if by_stdin else str(tmp_path / "text"), 2))
    assert found == [["a\rb", "c\u2028d\x85e"], ["", "f"], ["last"]]


def test_a_line_that_is_not_utf_8_harms_no_other(tmp_path, capsys):
    (tmp_path / "text").write_bytes(b"a\nb\nc\nd\xff\ne\n")
    reading = Lines().read(str(tmp_path / "text"), 2)
    assert [next(reading) for _ in range(3)] == [["a", "b"], ["c", ""], ["e"]]
    with pytest.raises(UserError, match="lines without a translation, as told above: 1"):
        next(reading)
    told = "sentence 3 (line 4): not UTF-8 (invalid start byte): convert it, for example with iconv\n"
    assert capsys.readouterr().err == told


def fail(_, error):
    raise error


CAUSES = [  # an error of the library itself for each row of MISTAKES (test_trainer.py: of the optimizer's state)
    (lambda run: bytearray(1 << 62), "not enough memory: "),
    (lambda run: torch.empty(1 << 60), r"not enough memory: .*allocate memory"),
    (lambda run: os.listdir("codes"), ".*No such file.*: 'codes': check the path"),
    (lambda run: run.train(data=run.folder / "gone"), ".*No such file or directory: .*gone.*: check the path"),
    (lambda run: run.generate(data=run.folder), "Could not infer language pair, .*: give a folder of binarized data"),
    (lambda run: LanguagePairDataset([], [], None, [1], [1], None), "one side of the data has more sentences"),
    (lambda run: models.build_model(Namespace(arch="gone"), None), "Could not infer model type .*: give the --user"),
    (lambda run: [run.train(*PLAIN, *more) for more in ((), ("--decoder-ffn-embed-dim", 9))], "Cannot load model para"),
    (lambda run: EpochBatchIterator(Dataset(), None, []).first_batch, "The dataset is empty.* Or give --required"),
    (lambda run: run.generate("--max-tokens", 2), "Sentences lengths should not exceed .*: raise --max-tokens"),
    (lambda run: run.generate("--min-len", 99), "min_len cannot be larger than max_len.*: lower --min-len"),
    (lambda run: quant_noise(torch.nn.Linear(3, 3), 0.1, 2), "Input features must .*: lower --quant-noise-pq-block-"),
    (lambda run: run.generate("--temperature", 1e-40), "no translation was found: the model's scores are nan"),
    (lambda run: DistributedDataParallel(torch.nn.Linear(2, 2), [0], process_group=1), "--ddp-backend pytorch_ddp ne"),
    (lambda run: [run.train(*more) for more in ((), ("--store-ema", "--max-update", 2))], "--store-ema: the"),
    (lambda run: run.generate("--bpe", "subword_nmt"), "Missing mandatory value: bpe_codes .*: give that option too"),
    (lambda run: run.generate("--tokenizer", "moses"), "Please install Moses tokenizer with: pip install sacremoses"),
    (lambda run: run.generate("--sampling"), "--sampling requires --nbest to be equal to --beam"),
    (lambda run: fail(run, torch.OutOfMemoryError("CUDA out of memory. 2.00 GiB")), "not enough memory.*2.00 GiB"),
    (lambda run: fail(run, RuntimeError("a mistake")), None),
]
if np.__version__[0] > "1":
    CAUSES += [
        (lambda run: run.train("--num-batch-buckets", 2), "--num-batch-buckets needs"),
        (lambda run: TokenBlockDataset([[5]], [1], 1, pad=1, eos=2, break_mode="eos"), "--num-batch-buckets or --sam"),
    ]


@pytest.mark.parametrize(("cause", "told"), CAUSES)
def test_what_is_the_user_s_is_told_in_one_line(cause, told, generate, train, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(Exception) as error:
        cause(SimpleNamespace(generate=generate, train=partial(train, tmp_path), folder=tmp_path))
    text = explanation(error.value)
    assert text is None if told is None else re.match(told, text) and "\n" not in text, text


def test_a_worker_s_line_is_told_without_its_traceback():
    memory, key = RuntimeError("CUDA out of memory: 2 GB"), KeyError("model")
    cases = (DoesNotFit("a.pt: small"), "a.pt: small"), (memory, explanation(memory)), (KeyError("a mistake"), None)
    for error, told in ((UserError("a.txt: no such file"), "a.txt: no such file"), (key, explanation(key)), *cases):
        with pytest.raises(torch.multiprocessing.ProcessRaisedException) as raised:
            torch.multiprocessing.start_processes(fail, (error,), start_method="fork")
        assert explanation(raised.value) == told


def test_ctrl_c_at_python_s_prompt_ends_one_statement():
    command = sys.executable, "-ic", "import resmlp_mt.fairseq_plugin"
    typed = "raise KeyboardInterrupt\nprint('alive')\n"
    assert subprocess.run(command, input=typed, capture_output=True, text=True, check=True).stdout == "alive\n"


def test_results_are_whole_or_as_they_were(generate, tmp_path):
    results = tmp_path / "a" / "results"
    generate("--results-path", results)
    whole = (results / "generate-test.txt").read_text()
    assert whole.count("\nH-") == 16 and "Generate test with beam=5" in whole
    with pytest.raises(UserError, match="--nbest 6 --beam 5"):
        generate("--results-path", results, "--nbest", 6)
    with pytest.raises(OSError, match="Model file not found"):
        generate("--results-path", results, path="nowhere.pt")
    assert os.listdir(results) == ["generate-test.txt"] and (results / "generate-test.txt").read_text() == whole
