"""The shell scripts of the recipes and the demo, with commands that only record how they were called."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from fairseq import options

from resmlp_mt.cli import COMMANDS
from scripts import ROOT, options_of, stub

WMT14 = ["wmt14_en_de", "wmt14_en_fr"]
WITH_WORK = {
    # script: the arguments before WORK
    "multi30k/train.sh": ["resmlp"],
    "multi30k/evaluate.sh": ["resmlp"],
    "distillation/translate.sh": [],
    "distillation/train.sh": ["both"],
    "distillation/evaluate.sh": ["both"],
    **{f"{pair}/{script}.sh": ["resmlp6"] for pair in WMT14 for script in ("train", "evaluate")},
}
RECORD = '(printf "%s|" "$(basename "$0")" "$@"; echo) >> "$CALLS"'


@pytest.fixture
def run(tmp_path):
    """A function that runs a script from another folder; commands that it starts only record how they were called."""
    here, commands = tmp_path / "here", tmp_path / "bin"
    here.mkdir()
    for name in "python", "resmlp-mt", "fairseq-train", "fairseq-generate", "fairseq-interactive":
        stub(commands / name, RECORD)

    def call(script, *arguments, environment=True, root=ROOT, **variables):
        path = f"{commands}:/usr/bin:/bin" if environment else "/usr/bin:/bin"
        variables = {**os.environ, "CALLS": str(tmp_path / "calls"), "PATH": path, **variables}
        command = ["bash", str(root / script), *map(str, arguments)]
        return subprocess.run(command, cwd=here, env=variables, capture_output=True, text=True)

    return call


@pytest.fixture
def calls(tmp_path):
    """A function that returns the recorded calls, each a list of words."""
    return lambda: [line.split("|")[:-1] for line in (tmp_path / "calls").read_text().splitlines()]


def prepare(work):
    """Make empty files, which the scripts look for before they start anything; return their folder."""
    for path in (
        *(f"data-bin/dict.{language}.txt" for language in ("en", "de", "fr")), "distillation/data-bin.both/dict.de.txt",
        "transformer/average5.pt", "test_2016_flickr.de", "newstest2014.de", "newstest2014.fr",
        *(f"tokenized/{split}.1.{language}" for split in ("test", "valid") for language in ("de", "fr")),
        *(f"{run}/checkpoint_last.pt" for run in ("resmlp", "resmlp6", "distillation/both")),
    ):  # fmt: skip
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).touch()
    return work


@pytest.mark.parametrize("script", WITH_WORK)
def test_a_recipe_works_from_any_folder_and_in_any_other(run, calls, tmp_path, script):
    prepare(tmp_path / "here" / "my work")
    done = run(f"examples/{script}", *WITH_WORK[script], "my work", CDPATH=".")
    assert (done.returncode, done.stderr) == (0, "")
    made = calls()
    assert made
    for name, *words in made:
        if name == "python":
            assert Path(words[0]).is_file() and Path(words[0]).is_relative_to(ROOT / "scripts")
        elif name == "resmlp-mt":
            assert words[0] in COMMANDS
        else:
            assert words[0].startswith("my work/")
            assert words[words.index("--user-dir") + 1] == str(ROOT / "resmlp_mt")


@pytest.mark.parametrize("script", WITH_WORK)
def test_what_is_missing_or_cannot_be_is_told_before_anything_is_made(run, tmp_path, script):
    def refused(work, message, **more):
        done = run(f"examples/{script}", *WITH_WORK[script], work, **more)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert message in done.stderr

    work = prepare(tmp_path / "here" / "work")
    prepare(tmp_path / "here" / "a:b")
    refused("a:b", "a:b: fairseq takes a colon for the end of a folder's name")
    refused("work", ".venv/bin/activate first", environment=False)
    data = "distillation/data-bin.both" if script == "distillation/train.sh" else "data-bin"
    shutil.rmtree(work / data)
    before = sorted(work.glob("**/*"))
    refused("work", f"work/{data}")
    assert sorted(work.glob("**/*")) == before


@pytest.mark.parametrize("script", [*(f"examples/{script}" for script in WITH_WORK), "scripts/demo.sh"])
def test_help_is_the_head_of_the_script(run, script):
    done = run(script, "--help", environment=False)
    assert (done.returncode, done.stderr) == (0, "")
    head = (ROOT / re.sub("wmt14_en_..", "wmt14", script)).read_text().split("\nset ")[0].splitlines()[1:]
    assert done.stdout.splitlines() == [line.removeprefix("#").removeprefix(" ") for line in head]


@pytest.mark.parametrize(
    ("command", "variables", "message"),
    [
        ("multi30k/train.sh", {}, "no system : give resmlp, heads, gated or transformer"),
        ("multi30k/train.sh heads work --lr 1", {}, "--lr where -- should stand"),
        ("multi30k/train.sh heads ${HOME}", {}, "${HOME}: fairseq takes ${ for a variable"),
        ("multi30k/evaluate.sh heads work", {}, "no checkpoint in work/heads: run"),
        ("multi30k/evaluate.sh resmlp work", {"LENPEN": "../x"}, "LENPEN is a number such as 0.6, not ../x"),
        ("distillation/translate.sh work", {"TEACHER": "nowhere.pt"}, "no teacher nowhere.pt: run"),
        ("wmt14_en_fr/train.sh resmlp6 work", {"GPUS": "3"}, "a batch of 28672 cannot be dealt out to 3 GPUs in equal"),
        ("wmt14_en_fr/train.sh resmlp6 work", {"GPUS": "128"}, "224 tokens at once cannot hold the longest sentence"),
        ("wmt14_en_de/train.sh resmlp6 work", {"NODES": "$(touch x)"}, "NODES is a whole number from 1"),
        ("wmt14_en_de/evaluate.sh lstm work valid", {}, "no work/newstest2013.de, the official text: run"),
        ("wmt14_en_de/train.sh resmlp6 work", {"NODES": "2"}, "give RENDEZVOUS=host:port of one of the 2 nodes"),
        ("../scripts/demo.sh Can you", {}, "you: give one sentence, in quotes"),
    ],
)
def test_a_mistake_is_told_in_one_line(run, tmp_path, command, variables, message):
    prepare(tmp_path / "here" / "work")
    script, *arguments = command.split()
    done = run(f"examples/{script}", *arguments, **variables)
    assert done.returncode == 2
    assert done.stderr.startswith(f"{Path(script).name}: {message}")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "here" / "x").exists()


def test_another_teacher_s_translations_are_not_taken_for_this_one_s(run, tmp_path):
    work = prepare(tmp_path / "here" / "work")
    translate = "examples/distillation/translate.sh", "work"
    for _ in range(2):  # the second time it keeps what is there
        done = run(*translate)
        assert (done.returncode, done.stderr) == (0, "")
    (work / "other.pt").write_text("another teacher")
    for variables in {"BEAM": "4"}, {"TEACHER": "work/other.pt"}:
        done = run(*translate, **variables)
        assert done.returncode == 2
        assert "work/distillation/train.txt: is of another teacher or beam: choose another WORK" in done.stderr


@pytest.mark.parametrize(("language", "sets"), [("de", ["13"]), ("fr", ["12", "13"])])
def test_each_pair_has_its_validation_set_and_german_compounds_alone_are_split(run, calls, tmp_path, language, sets):
    work = prepare(tmp_path / "here" / "work")
    for number in "12", "13":
        (work / f"newstest20{number}.{language}").write_text(f"{number}\n")
    done = run(f"examples/wmt14_en_{language}/evaluate.sh", "resmlp6", "work", "valid")
    assert done.returncode == 0, done.stderr
    assert (work / "resmlp6" / "valid.reference").read_text().split() == sets
    average, generate, score = calls()
    assert options_of(average)["--num-update-checkpoints"] == "10"
    assert options_of(generate).items() >= {"--beam": "4", "--lenpen": "0.6"}.items()
    assert ("--split-compounds" in score) == (language == "de")


@pytest.mark.parametrize(
    ("script", "shared"),
    [
        ("wmt14_en_de/evaluate.sh resmlp6", "resmlp6/test.reference resmlp6/test.tokens"),
        ("distillation/marian.sh tiny", "distillation/marian/train.de distillation/marian/vocab.yml"),
    ],
)
def test_what_another_run_reads_is_never_cut_short(run, tmp_path, script, shared):
    work = tmp_path / "here" / "work"
    prepare(work)
    files = [work / name for name in ["distillation/train.txt", *shared.split()]]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text("whole\n")
    reading = [file.open() for file in files[1:]]
    assert run(*f"examples/{script} work".split()).returncode == 0
    assert [file.read() for file in reading] == ["whole\n"] * 2
    assert "whole\n" not in [file.read_text() for file in files[1:]]
    assert not [path for path in work.rglob("*") if path.suffix[1:].isdigit()]


def test_the_demo_takes_its_folder_from_where_it_is_started(run, calls, tmp_path):
    checkout = tmp_path / "checkout"
    for name in "scripts/demo.sh", "examples/recipe.sh":
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text((ROOT / name).read_text())
    (checkout / "scripts" / "setup.sh").write_text("pwd >> where\n")  # VENV and PYTHON may be relative to it, too
    (tmp_path / "here/my work").mkdir()  # which the first command would make
    assert run(checkout / "scripts" / "demo.sh", WORK="my work").returncode == 0
    assert calls()[0] == ["python", "examples/toy_en_de/make_corpus.py", "--out", str(tmp_path / "here/my work/raw")]
    made = {Path(words[words[0] == "python"]).stem: words for words in calls()}
    averaged = options_of(made["average_checkpoints"])["--output"]
    assert [options_of(made[f"fairseq-{kind}"])["--path"] for kind in ("generate", "interactive")] == [averaged] * 2
    training = [*made["fairseq-train"][1:], "--user-dir", str(ROOT / "resmlp_mt")]
    trained = options.parse_args_and_arch(options.get_training_parser(), training)
    assert trained.save_dir == options_of(made["average_checkpoints"])["--inputs"]
    run(checkout / "scripts" / "demo.sh")  # fails, as the stubs make no folders
    assert (tmp_path / "here" / "where").read_text().split() == [str(tmp_path / "here")] * 2
    assert ["python", "examples/toy_en_de/make_corpus.py", "--out", f"{checkout}/work/toy_en_de/raw"] in calls()
