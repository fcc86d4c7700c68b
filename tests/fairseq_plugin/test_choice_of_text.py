"""What fairseq's commands are given where the data tells its languages and how its text was treated."""

import sys

import pytest
from fairseq import options

import resmlp_mt.fairseq_plugin  # noqa: F401  (installs what is tested)
from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.patches import raw_text


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A data-bin as far as options concern it."""
    monkeypatch.setattr(sys, "argv", ["fairseq"])
    for name in "dict.en.txt", "dict.de.txt", "train.en-de.en.bin", raw_text.RECORD:
        (tmp_path / name).touch()
    return tmp_path


def interactive(data, *more):
    return options.parse_args_and_arch(options.get_interactive_generation_parser(), [str(data), "--path", "x", *more])


def generate(data, *more):
    return options.parse_args_and_arch(options.get_generation_parser(), [str(data), "--path", "x", *more])


def train(data, *more):
    model = ["--arch", "resmlp_transformer_tiny"]
    return options.parse_args_and_arch(
        options.get_training_parser(), [str(data), *model, "--optimizer", "adagrad", *more]
    )


def text_of(args):
    return args.tokenizer, args.bpe


def test_the_name_is_that_of_the_file():
    from resmlp_mt.data import raw_text as written

    assert raw_text.RECORD == written.NAME


@pytest.mark.parametrize("parse", [interactive, generate])
def test_the_preparation_is_chosen_where_no_option_says_otherwise(data, parse):
    assert text_of(parse(data)) == ("prepared", "prepared")
    assert text_of(parse(f"{data}:other")) == ("prepared", "prepared")
    assert text_of(parse(data, "--tokenizer", "space")) == ("space", None)
    assert text_of(parse(data, "--bpe", "characters")) == (None, "characters")
    (data / raw_text.RECORD).unlink()
    assert text_of(parse(data)) == (None, None)


def test_generation_that_joins_subwords_its_own_way_is_left_alone(data):
    assert text_of(generate(data, "--remove-bpe")) == (None, None)
    assert text_of(interactive(data, "--remove-bpe")) == ("prepared", "prepared")


def test_training_needs_no_text(data):
    args = train(data, "--eval-bleu", "--eval-bleu-detok", "moses")
    assert text_of(args) == (None, None)


@pytest.mark.parametrize("parse", [interactive, generate, train])
@pytest.mark.parametrize(
    ("given", "completed"),
    [
        ([], ("en", "de")),
        (["-s", "en"], ("en", "de")),
        (["-s", "de"], ("de", "en")),
        (["-t", "en"], ("de", "en")),
        (["-s", "de", "-t", "en"], ("de", "en")),
    ],
)
def test_missing_languages_are_those_of_the_data(data, parse, given, completed):
    args = parse(data, *given)
    assert (args.source_lang, args.target_lang) == completed


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["-s", "xx"], "--source-lang xx: .* is data of de and en"),
        (["-t", "fr"], "--target-lang fr: .* is data of de and en"),
        (["-s", "de", "-t", "de"], "--source-lang de and --target-lang de: give two languages"),
    ],
)
def test_languages_that_the_data_is_not_of(data, given, message):
    with pytest.raises(UserError, match=message):
        train(data, *given)


def test_what_is_no_data_is_left_to_the_task(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["fairseq"])
    args = train(tmp_path / "nowhere", "-s", "xx")
    assert (args.source_lang, args.target_lang) == ("xx", None)


def test_generation_does_without_the_libraries_of_text(data, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert text_of(generate(data)) == (None, None)
    assert text_of(interactive(data)) == ("prepared", "prepared")  # which then says what is missing


@pytest.mark.parametrize("name", ["nope", 5, ["moses"]])
def test_a_choice_that_there_is_not_is_refused(name):
    with pytest.raises(UserError, match=r"--tokenizer .*: give one of moses"):
        raw_text.check_files("tokenizer", name, {})
