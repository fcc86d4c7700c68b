"""Options of fairseq's commands: completed from the data, and refused where fairseq would do something else."""

import sys

import fairseq_cli.validate
import pytest
import torch
from fairseq import options
from in_this_process import run

from resmlp_mt.common.errors import UserError


@pytest.mark.parametrize("command", ["training", "generation", "interactive_generation", "validation"])
def test_what_fairseq_takes_where_nothing_is_said_is_possible(parse, small, command):
    assert parse(command, small / "bin").task == "translation"


@pytest.mark.parametrize(
    ("command", "given", "message"),
    [
        ("training", ["--lr", "0.1,-1"], "--lr is -1.0: give 0 or more"),
        ("generation", ["--beam", 0], "--beam is 0: give 1 or more"),
        ("training", ["--bf16"], "--bf16: fairseq trains so on TPUs alone"),
        ("training", ["--fp16", "--cpu"], "--fp16 .*: fairseq trains in 16 bits on a GPU alone"),
        ("training", ["--lr-scheduler", "inverse_sqrt", "--warmup-updates", 0], "inverse_sqrt: give --warmup-updates"),
        ("training", ["--best-checkpoint-metric", "bleu"], "--best-checkpoint-metric bleu: give --eval-bleu"),
        ("training", ["--optimizer-overrides", "[1]"], r"--optimizer-overrides \[1\]: give a dictionary"),
        ("validation", ["--model-overrides", "{'a': f()}"], "--model-overrides .*: give a dictionary"),
        ("generation", ["--path", ""], "--path is missing: give a checkpoint"),
        ("generation", ["--constraints"], "--constraints: this command takes no notice of it: use fairseq-interactive"),
        ("interactive_generation", ["--lm-path", "x.pt"], "--lm-path: .* use fairseq-generate"),
        ("generation", ["--num-shards", 2], "--num-shards 2: fairseq would translate all"),
        ("training", ["-s", "xx"], "--source-lang xx: .* is data of de and en"),
        ("training", ["-s", "de", "-t", "de"], "--source-lang de and --target-lang de: give two languages"),
    ],
)
def test_what_fairseq_would_not_do_is_refused(parse, data, command, given, message):
    with pytest.raises(UserError, match=message):
        parse(command, data, *given)


@pytest.mark.skipif(torch.cuda.is_available(), reason="fairseq starts a process for each GPU")
def test_processes_that_would_not_be_started(parse, data):
    two = ["--distributed-world-size", 2, "--distributed-init-method", "tcp://localhost:1"]
    with pytest.raises(UserError, match="--distributed-init-method without a GPU would start no process"):
        parse("training", data, *two)
    parse("training", data, *two, "--distributed-no-spawn")


def test_an_architecture_is_asked_for_but_no_task(monkeypatch, small, checkpoint):
    monkeypatch.setattr(sys, "argv", ["fairseq", str(small / "bin"), "--optimizer", "adam"])
    with pytest.raises(UserError, match="--arch is missing: give one"):
        options.parse_args_and_arch(options.get_training_parser())
    run(fairseq_cli.validate, small / "bin", "--path", checkpoint, "--batch-size", 8, "--cpu", "--num-workers", 0)


@pytest.mark.parametrize("command", ["generation", "interactive_generation", "training"])
@pytest.mark.parametrize(
    ("given", "completed"), [([], ("en", "de")), (["-s", "de"], ("de", "en")), (["-t", "en"], ("de", "en"))]
)
def test_missing_languages_are_those_of_the_data(data, parse, command, given, completed):
    args = parse(command, data, *given)
    assert (args.source_lang, args.target_lang) == completed
