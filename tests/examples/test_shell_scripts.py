"""The shell scripts of the recipes and the demo, with commands that only tell how they were called."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from resmlp_mt.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
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
STUB = '#!/bin/bash\n(printf "%s|" "$(basename "$0")" "$@"; echo) >> "$CALLS"\n'


@pytest.fixture
def commands(tmp_path):
    """A folder of commands that write down how they were called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in "python", "resmlp-mt", "fairseq-train", "fairseq-generate":
        (folder / name).write_text(STUB)
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def run(tmp_path, commands):
    """Run a script from a folder of the reader's; without the environment on the PATH on demand."""
    here = tmp_path / "here"
    here.mkdir()

    def call(script, *arguments, environment=True, root=ROOT, **variables):
        path = f"{commands}:/usr/bin:/bin" if environment else "/usr/bin:/bin"
        variables = {**os.environ, "CALLS": str(tmp_path / "calls"), "PATH": path, **variables}
        command = ["bash", str(root / script), *map(str, arguments)]
        return subprocess.run(command, cwd=here, env=variables, capture_output=True, text=True)

    return call


@pytest.fixture
def calls(tmp_path):
    """What the commands wrote down, a list of words each."""
    return lambda: [line.split("|")[:-1] for line in (tmp_path / "calls").read_text().splitlines()]


def prepare(work):
    """What the scripts look for before they start anything."""
    for path in (
        *(f"data-bin/dict.{language}.txt" for language in ("en", "de", "fr")), "distillation/data-bin.both/dict.de.txt",
        "transformer/average5.pt", "test_2016_flickr.de", "newstest2014.de", "newstest2014.fr",
        *(f"{run}/checkpoint_last.pt" for run in ("resmlp", "resmlp6", "distillation/both")),
    ):  # fmt: skip
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).touch()


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
    for path in tmp_path.iterdir():
        assert path.name in ("here", "bin", "calls")


def test_variables_that_happen_to_be_set_are_not_the_recipe_s(run, calls, tmp_path):
    prepare(tmp_path / "here" / "work")
    done = run("examples/wmt14_en_de/train.sh", "transformer", "work", adagrad="1", FP16="1")
    assert done.returncode == 0, done.stderr
    assert "--fp16" in calls()[0] and "--fp16-no-flatten-grads" not in calls()[0]
    done = run("examples/wmt14_en_de/train.sh", "transformer", "work", FP16="0", DRY_RUN="0")
    assert (done.returncode, done.stdout) == (0, "")
    assert "--fp16" not in calls()[1]
    for name in "checkpoint_best.pt", "checkpoint_last.pt":
        (tmp_path / "here" / "work" / "convs2s").mkdir(exist_ok=True)
        (tmp_path / "here" / "work" / "convs2s" / name).touch()
    done = run("examples/wmt14_en_de/evaluate.sh", "convs2s", "work", average="3")
    assert done.returncode == 0, done.stderr
    assert "work/convs2s/checkpoint_best.pt" in calls()[2]


@pytest.mark.parametrize("script", WITH_WORK)
@pytest.mark.parametrize(
    ("work", "message"),
    [
        ("a:b", "a:b: fairseq takes a colon for the end of a folder's name: choose a name without"),
        ("-work", "-work begins with a dash: more options stand behind --, and a folder of that name is ./-work"),
        ("", "give a folder's name, not nothing"),
        ("${HOME}", "${HOME}: fairseq takes ${ for a variable: choose a name without"),
    ],
)
def test_a_folder_that_fairseq_takes_for_something_else_is_refused(run, tmp_path, script, work, message):
    prepare(tmp_path / "here" / work)
    done = run(f"examples/{script}", *WITH_WORK[script], work)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{Path(script).name}: {message}\n")


@pytest.mark.parametrize("script", WITH_WORK)
def test_without_the_environment_it_is_named(run, tmp_path, script):
    prepare(tmp_path / "here" / "work")
    done = run(f"examples/{script}", *WITH_WORK[script], "work", environment=False)
    assert done.returncode == 2
    assert "on the PATH: source" in done.stderr and ".venv/bin/activate first" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("script", "missing"),
    [
        *((script, "data-bin") for script in WITH_WORK if script != "distillation/train.sh"),
        *((script, "dict.*") for script in WITH_WORK if script != "distillation/train.sh"),
        ("distillation/train.sh", "distillation/data-bin.both"),
    ],
)
def test_data_that_is_missing_is_named_before_anything_is_made(run, tmp_path, script, missing):
    work = tmp_path / "here" / "work"
    prepare(work)
    if missing == "dict.*":
        shutil.rmtree(work / "data-bin")
        (work / "data-bin").mkdir()
    else:
        shutil.rmtree(work / missing)
    before = sorted(work.glob("**/*"))
    done = run(f"examples/{script}", *WITH_WORK[script], "work")
    assert done.returncode == 2
    assert f"work/{missing.replace('dict.*', 'data-bin')}" in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(work.glob("**/*")) == before


@pytest.mark.parametrize("script", [*(f"examples/{script}" for script in WITH_WORK), "scripts/demo.sh"])
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_is_the_head_of_the_script(run, script, option):
    done = run(script, option, environment=False)
    assert (done.returncode, done.stderr) == (0, "")
    head = (ROOT / re.sub("wmt14_en_..", "wmt14", script)).read_text().split("\nset ")[0].splitlines()[1:]
    assert done.stdout.splitlines() == [line.removeprefix("#").removeprefix(" ") for line in head]


@pytest.mark.parametrize(
    ("script", "variables", "message"),
    [
        ("multi30k/evaluate.sh", {"AVERAGE": "0"}, "AVERAGE is a whole number from 1, not 0"),
        ("multi30k/evaluate.sh", {"LENPEN": "../x"}, "LENPEN is a number such as 0.6, not ../x"),
        ("distillation/evaluate.sh", {"LENPEN": "."}, "LENPEN is a number such as 0.6, not ."),
        ("distillation/translate.sh", {"BEAM": "-1"}, "BEAM is a whole number from 1, not -1"),
        ("distillation/translate.sh", {"TEACHER": "nowhere.pt"}, "no teacher nowhere.pt: run"),
        *(
            ("wmt14_en_de/train.sh", {"GPUS": value}, f"GPUS, NODES and AT_ONCE are whole numbers from 1, not {value}")
            for value in ("0", "-1", "08", "0x2", "1.5", "2 ", "99999999999999999999", "$(touch x)")
        ),
        ("wmt14_en_fr/train.sh", {"AT_ONCE": "a[0]"}, "GPUS, NODES and AT_ONCE are whole numbers from 1, not a[0]"),
    ],
)
def test_numbers_that_are_none_are_refused(run, tmp_path, script, variables, message):
    prepare(tmp_path / "here" / "work")
    done = run(f"examples/{script}", *WITH_WORK[script], "work", **variables)
    assert done.returncode == 2
    assert done.stderr.startswith(f"{Path(script).name}: {message}")
    assert done.stderr.count("\n") == 1


def test_another_teacher_s_translations_are_not_taken_for_this_one_s(run, tmp_path):
    work = tmp_path / "here" / "work"
    prepare(work)
    translate = "examples/distillation/translate.sh", "work"
    for _ in range(2):  # the second time it keeps what is there
        done = run(*translate)
        assert (done.returncode, done.stderr) == (0, "")
    (work / "other.pt").write_text("another teacher")
    for variables in {"BEAM": "4"}, {"TEACHER": "work/other.pt"}:
        done = run(*translate, **variables)
        assert done.returncode == 2
        assert done.stderr.startswith(
            "translate.sh: work/distillation/train.txt: of another teacher or beam: remove it"
        )
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("script", "arguments", "variables", "message"),
    [
        ("examples/multi30k/train.sh", [], {}, "no system : give resmlp, heads, gated or transformer"),
        ("examples/multi30k/evaluate.sh", [], {}, "give a system: resmlp, heads, gated or transformer"),
        ("examples/multi30k/evaluate.sh", ["resmlp", "work", "test", "more"], {}, "more: one argument too many"),
        ("examples/multi30k/evaluate.sh", ["resmlp", "work", "train"], {}, "no subset train: give test or valid"),
        ("examples/distillation/translate.sh", ["work", "more"], {}, "more: one argument too many"),
        ("examples/distillation/train.sh", [], {}, "no student : give distilled, both, shallow or shallow-transformer"),
        ("examples/wmt14_en_de/train.sh", [], {}, "no system : give resmlp6"),
        ("examples/wmt14_en_de/evaluate.sh", [], {}, "no system : give resmlp6"),
        ("scripts/demo.sh", ["Can", "you"], {}, "you: give one sentence, in quotes"),
        ("scripts/demo.sh", [], {"WORK": "a:b"}, "a:b: fairseq takes a colon"),
        ("scripts/demo.sh", [], {"WORK": "-x"}, "-x begins with a dash"),
    ],
)
def test_arguments_that_are_none_are_refused(run, script, arguments, variables, message):
    done = run(script, *arguments, **variables)
    assert done.returncode == 2
    assert done.stderr.startswith(f"{Path(script).name}: {message}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("language", "sets"), [("de", ["13"]), ("fr", ["12", "13"])])
def test_each_pair_has_its_validation_set_and_german_compounds_alone_are_split(run, calls, tmp_path, language, sets):
    work = tmp_path / "here" / "work"
    prepare(work)
    for number in "12", "13":
        (work / f"newstest20{number}.{language}").write_text(f"{number}\n")
    done = run(f"examples/wmt14_en_{language}/evaluate.sh", "resmlp6", "work", "valid")
    assert done.returncode == 0, done.stderr
    assert (work / "resmlp6" / "valid.reference").read_text().split() == sets
    assert ("--split-compounds" in calls()[-1]) == (language == "de")


@pytest.mark.parametrize("script", ["train", "evaluate"])
def test_the_recipe_of_both_pairs_wants_one_of_them(run, script):
    done = run(f"examples/wmt14/{script}.sh", "resmlp6")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{script}.sh: no pair resmlp6: start {script}.sh of examples/wmt14_en_de or ")


def test_the_demo_takes_its_folder_from_where_it_is_started(run, calls, tmp_path):
    checkout = tmp_path / "checkout"
    for name in "scripts/demo.sh", "examples/recipe.sh":
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text((ROOT / name).read_text())
    (checkout / "scripts" / "setup.sh").write_text("pwd >> where\n")  # VENV and PYTHON are the reader's names, too
    run(checkout / "scripts" / "demo.sh", WORK="my work")  # ends where the first commands have made nothing
    assert calls()[0] == ["python", "examples/toy_en_de/make_corpus.py", "--out", str(tmp_path / "here/my work/raw")]
    run(checkout / "scripts" / "demo.sh")
    assert (tmp_path / "here" / "where").read_text().split() == [str(tmp_path / "here")] * 2
    assert ["python", "examples/toy_en_de/make_corpus.py", "--out", f"{checkout}/work/toy_en_de/raw"] in calls()
