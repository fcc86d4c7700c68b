"""Options of fairseq's commands that no model can have: refused before any work."""

import sys
from argparse import Namespace

import fairseq_cli.validate
import pytest
from fairseq import options
from fairseq.checkpoint_utils import load_model_ensemble
from fairseq.dataclass.configs import GenerationConfig
from fairseq.models import FairseqDecoder, FairseqLanguageModel
from in_this_process import run

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.patches.options import check_search


@pytest.fixture
def parse(small, monkeypatch):
    """The options of one of fairseq's commands, as it parses them; later ones win."""

    def parsed(command, *arguments):
        words = {
            "training": ["--arch", "resmlp_transformer_tiny", "--optimizer", "adam", "--max-tokens", "100"],
            "validation": ["--path", "x.pt"],
        }.get(command, ["--path", "x.pt"])
        monkeypatch.setattr(sys, "argv", ["fairseq", str(small / "bin"), *words, *map(str, arguments)])
        return options.parse_args_and_arch(getattr(options, f"get_{command}_parser")())

    return parsed


@pytest.mark.parametrize("command", ["training", "generation", "interactive_generation", "validation"])
def test_what_fairseq_takes_where_nothing_is_said_is_possible(parse, command):
    assert parse(command).task == "translation"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--update-freq", 0], "--update-freq is 0: give 1 or more"),
        (["--update-freq", ""], "--update-freq is empty: give 1 or more"),
        (["--lr", -1], "--lr is -1.0: give a number above 0"),
        (["--lr", 0], "--lr is 0.0: give a number above 0"),
        (["--lr", "0.1,-1"], "--lr is 0.1,-1.0: give a number above 0"),
        (["--seed", -1], "--seed is -1: give a number from 0"),
        (["--seed", 2**32], "--seed is 4294967296: give a number from 0"),
        (["--max-epoch", -1], "--max-epoch is -1: give 0 or more"),
        (["--max-update", -1], "--max-update is -1: give 0 or more"),
        (["--warmup-updates", -5], "--warmup-updates is -5: give 0 or more"),
        (["--clip-norm", -1], "--clip-norm is -1.0: give 0 or more"),
        (["--clip-norm", "nan"], "--clip-norm is nan: give 0 or more"),
        (
            ["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", 2],
            "--label-smoothing is 2.0: give a share from 0 to below 1",
        ),
        (["--batch-size", 0], "--batch-size is 0: give 1 or more"),
        (["--batch-size-valid", "many"], "--batch-size-valid is many: give 1 or more"),
        (["--max-tokens", 0], "--max-tokens is 0: give 1 or more"),
        (["--num-workers", -1], "--num-workers is -1: give 0 or more"),
        (["--log-interval", 0], "--log-interval is 0: give 1 or more"),
        (["--save-interval", 0], "--save-interval is 0: give 1 or more"),
        (["--weight-decay", -1], "--weight-decay is -1.0: give 0 or more"),
        (["--adam-betas", "(1.5, 0.9)"], "--adam-betas .* give two numbers from 0 to below 1"),
        (["--adam-betas", "(0.9,)"], "--adam-betas .* give two numbers from 0 to below 1"),
        (["--bf16"], "--bf16: fairseq trains so on TPUs alone: leave it out"),
        (["--tpu"], "--tpu: fairseq trains so on TPUs alone: leave it out"),
        (["--profile"], "--profile with no GPU that PyTorch sees"),
        (["--optimizer", "composite"], "--optimizer composite: takes its groups from a file"),
        (["--quant-noise-pq", 5], "--quant-noise-pq is 5.0: give a share from 0 to below 1"),
        (
            ["--distributed-world-size", 2, "--distributed-init-method", "tcp://localhost:1"],
            "--distributed-init-method with no GPU that PyTorch sees: .* would do nothing",
        ),
        (["--fp16", "--cpu"], "--fp16 with --cpu: fairseq trains in 16 bits on a GPU alone"),
        (["--lr-scheduler", "inverse_sqrt", "--warmup-updates", 0], "inverse_sqrt: give --warmup-updates, 1 or more"),
        (["--lr-scheduler", "polynomial_decay"], "polynomial_decay: give --total-num-update, 1 or more"),
        (["--update-epoch-batch-itr", "yes"], "--update-epoch-batch-itr yes: give True or False"),
        (["--best-checkpoint-metric", "bleu"], r"--best-checkpoint-metric bleu: .*\(bleu with --eval-bleu"),
        (["--eval-bleu", "--eval-bleu-args", "{'beam': 4}"], "--eval-bleu-args .*: not JSON"),
        (["--eval-bleu", "--eval-bleu-args", "[4]"], r"--eval-bleu-args \[4\]: give a JSON object"),
        (["--eval-bleu", "--eval-bleu-args", '{"len_pen": 1}'], "--eval-bleu-args: len_pen: no option of fairseq-gen"),
        (["--eval-bleu", "--eval-bleu-detok", "none"], "--eval-bleu-detok none: give one of .*moses"),
    ],
)
def test_a_training_is_refused(parse, given, message):
    with pytest.raises(UserError, match=message):
        parse("training", *given)


def test_an_architecture_is_asked_for(small, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["fairseq", str(small / "bin"), "--optimizer", "adam"])
    with pytest.raises(UserError, match="--arch is missing: give one"):
        options.parse_args_and_arch(options.get_training_parser())


@pytest.mark.parametrize("command", ["generation", "interactive_generation", "validation"])
def test_a_checkpoint_is_asked_for(parse, command):
    with pytest.raises(UserError, match="--path is missing: give a checkpoint"):
        parse(command, "--path", "")


def test_constraints_are_for_lines_that_are_put_in(parse):
    parse("interactive_generation", "--constraints")
    with pytest.raises(UserError, match=r"--constraints: .* use fairseq-interactive"):
        parse("generation", "--constraints")


@pytest.mark.parametrize(("option", "value"), [("--lm-path", "lm.pt"), ("--prefix-size", 3)])
def test_what_fairseq_would_take_no_notice_of_is_refused(parse, option, value):
    parse("generation", option, value)
    with pytest.raises(UserError, match=f"{option}: fairseq-interactive takes no notice of it"):
        parse("interactive_generation", option, value)


def test_shards_that_fairseq_does_not_make_are_refused(parse):
    with pytest.raises(UserError, match="--num-shards 2: fairseq takes no notice of it"):
        parse("generation", "--num-shards", 2)


def test_subwords_are_joined_in_a_way_that_there_is(parse):
    for command in "generation", "interactive_generation":
        parse(command, "--post-process")
        with pytest.raises(UserError, match="--post-process bpe: give subword_nmt, sentencepiece or none"):
            parse(command, "--post-process", "bpe")


def test_validation_needs_no_task(small, checkpoint):
    run(fairseq_cli.validate, small / "bin", "--path", checkpoint, "--batch-size", 8, "--cpu", "--num-workers", 0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"beam": 0}, "--beam is 0: give 1 or more"),
        ({"beam": "many"}, "--beam is many: give 1 or more"),
        ({"nbest": 0}, "--nbest is 0: give 1 or more"),
        ({"nbest": 6}, "--nbest is 6: give no more than --beam, which is 5"),
        ({"beam": 4, "diverse_beam_groups": 3}, "--beam 4 is not a multiple of --diverse-beam-groups 3"),
        ({"diverse_beam_groups": 0}, "--diverse-beam-groups is 0: give -1 for none, or 1 or more"),
        ({"temperature": 0}, "--temperature is 0: give a number above 0"),
        ({"temperature": float("nan")}, "--temperature is nan: give a number above 0"),
        ({"sampling": True, "sampling_topk": 0}, "--sampling-topk is 0: give -1 for all, or 1 or more"),
        ({"sampling": True, "sampling_topk": 99}, "--sampling-topk is 99: the dictionary has 30 entries"),
        ({"sampling": True, "sampling_topp": 1.5}, "--sampling-topp is 1.5: give -1 for all, or a probability"),
        ({"sampling_topp": 0.5}, "--sampling-topp needs --sampling"),
        ({"sampling": True, "diverse_beam_groups": 5}, "--sampling and --diverse-beam-groups do not go together"),
        ({"max_len_b": -1}, "--max-len-b is -1: give 0 or more"),
        ({"max_len_a": float("inf")}, "--max-len-a is inf: give 0 or more"),
        ({"lenpen": float("nan")}, "--lenpen is nan: give a number from -50 to 50"),
        ({"lenpen": 1e30}, r"--lenpen is 1e\+30: give a number from -50 to 50"),
        ({"unkpen": float("-inf")}, "--unkpen is -inf: give a number"),
        ({"no_repeat_ngram_size": -1}, "--no-repeat-ngram-size is -1: give 0 or more"),
    ],
)
def test_a_search_is_refused(given, message):
    with pytest.raises(UserError, match=message):
        check_search(Namespace(**{**vars(GenerationConfig()), **given}), 30)


def test_searches_that_are_possible():
    for given in {}, {"unkpen": float("inf")}, {"beam": 4, "diverse_beam_groups": 2, "nbest": 4}, {"sampling": True}:
        check_search(Namespace(**{**vars(GenerationConfig()), **given}), 30)
    check_search(Namespace(beam=2), 30)  # from Python, where the others may be missing


def test_a_language_model_is_one_of_the_target_s_dictionary(task, checkpoint):
    translation, args = task(), Namespace(**{**vars(GenerationConfig()), "lm_path": "lm.pt"})
    (model,), _ = load_model_ensemble([str(checkpoint)], task=translation)

    def generator(language_model):
        more = {"lm_model": language_model, "lm_weight": 0.1}
        return translation.build_generator([model], args, extra_gen_cls_kwargs=more)

    def language_model(dictionary):
        return FairseqLanguageModel(FairseqDecoder(dictionary))

    with pytest.raises(UserError, match=r"--lm-path lm\.pt: a translation model: give a language model"):
        generator(model)
    with pytest.raises(
        UserError, match=r"--lm-path lm\.pt: its dictionary, dict\.txt of the data, is not the target's"
    ):
        generator(language_model(task("other").target_dictionary))
    fitting = language_model(translation.target_dictionary)
    assert generator(fitting).lm_model is fitting
