"""Recipe files of tables, and the folders of rows, without a training."""

import json
import tarfile
from pathlib import Path
from threading import Event

import pytest
from fairseq import options

import resmlp_mt.fairseq_plugin  # registers the models
from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.ablations.recipe import RowFolder, read_recipe

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "ablations"
TABLES = [path for path in sorted(EXAMPLES.glob("*.yaml")) if path.stem != "multi30k"]
# these choose the dropout of each row
DROPOUT_OF_EACH = {"gated", "gated-tuning", *(path.stem for path in TABLES if path.stem.startswith("budget-"))}


def parsed(recipe, row):
    own = [word for word in recipe.training_options(row, recipe.seed) if word != "--fp16"]  # only with a GPU
    arguments = ["data", "--user-dir", str(Path(resmlp_mt.__file__).parent), *own]
    return options.parse_args_and_arch(options.get_training_parser(), arguments)


def test_a_table_s_own_settings_win_over_those_of_its_base(write_recipe, tmp_path):
    write_recipe(tmp_path / "first.yaml")
    (tmp_path / "second.yaml").write_text("base: first.yaml\nmax_epoch: 7\nrows: {deep: --encoder-layers 3}\n")
    own = "rows: {relu: '--lr ${updates}'}\nepochs: {relu: 30}\n"
    (tmp_path / "third.yaml").write_text(f"base: second.yaml\n{own}")
    recipe = read_recipe(tmp_path / "third.yaml")
    assert (recipe.max_epoch, recipe.langs) == (7, ("de", "en"))
    assert (recipe.own_options("relu"), recipe.own_options("paper")) == (["--lr", "150"], [])
    for row, epochs in ("deep", 7), ("relu", 30):  # a row can have a budget of its own
        words = recipe.training_options(row, 7)
        assert words[words.index("--max-epoch") + 1] == str(epochs)
        assert words[words.index("--total-num-update") + 1] == str(5 * epochs)
    assert recipe.training_options("deep", 7)[-2:] == ["--encoder-layers", "3"]
    assert recipe.budget == "7 epochs of 5 updates for every row, but 30 for relu"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("--batch-size 24", '--batch-size "24', "batches: not read: No closing quotation"),
        ("title: A table", "titel: A table", "not read: Key 'titel' not in 'Recipe'"),
        ("seed: 1", "seed: 9999999999", "seed: 9999999999: give a whole number from 1 to 1,000,000,000"),
        ("title: A table", "base: recipe.yaml", "base: recipe.yaml has this file as a base: name another"),
        ("title: A table", "title: !!python/object/apply:os.getcwd []", "not read: "),
        ("seed: 1", "tune: {}\nseeds: [1, 2]", "tune: has one seed: give seeds: [] and seed: NUMBER"),
        ("seed: 1", "subset: ../../victim", "subset: '../../victim': is also a folder"),
        ("baseline: paper", "baseline: nobody", "nobody: no such row; there are: paper, relu, broken"),
        ("--dropout 2", "--max-tokens=9", "rows: broken: --max-tokens=9: is the same for every training"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(write_recipe, tmp_path, old, new, message):
    path = write_recipe(tmp_path / "recipe.yaml")
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(UserError) as caught:
        read_recipe(path)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_the_archives_of_logs_are_of_the_recipes_as_they_stand():
    trained = []
    for path in EXAMPLES.glob("*-runs.tar.xz"):
        with tarfile.open(path) as archive:
            records = (archive.extractfile(each) for each in archive if each.name.endswith("row.json"))
            trained += [json.load(record)["training"]["options"] for record in records]
    for name in "budget-1", "budget-1-more", "budget-2", "budget-3", "gated", "tatoeba-long", "tatoeba-30m":
        recipe = read_recipe(EXAMPLES / f"{name}.yaml")
        for row in json.loads((EXAMPLES / f"{name}.json").read_text())["figures"]:
            assert recipe.training_options(row["name"], row["seed"]) in trained, (name, row["name"])


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_fairseq_understands_every_row_and_all_have_the_same_batches_and_budget(path):
    recipe = read_recipe(path)
    rows = {row: parsed(recipe, row) for row in recipe.rows}
    equal = ["max_tokens", "batch_size", "update_freq", "max_update", "seed"]
    equal += [] if recipe.epochs else ["max_epoch"]
    equal += [] if path.stem in DROPOUT_OF_EACH else ["dropout"]
    for name in equal:
        assert len({str(getattr(args, name)) for args in rows.values()}) == 1, name
    assert {row: args.max_epoch for row, args in rows.items()} == {row: recipe.epochs_of(row) for row in rows}


@pytest.mark.parametrize("retrain", [False, True])
@pytest.mark.parametrize("record", [None, '{"training": {"opt', '{"processor_seconds": [1.5]}'])
def test_a_folder_without_a_record_of_its_files_is_neither_resumed_nor_emptied(write_recipe, tmp_path, record, retrain):
    recipe = read_recipe(write_recipe(tmp_path / "recipe.yaml"))
    row = RowFolder("paper", 1, tmp_path / "data-bin", {"dict.en.txt": "0"}, tmp_path / "out" / "paper", recipe)
    row.folder.mkdir(parents=True)
    (row.folder / "checkpoint_last.pt").write_text("somebody's")
    if record is not None:
        (row.folder / "row.json").write_text(record)
    before = sorted(path.name for path in row.folder.iterdir())
    with pytest.raises(UserError, match=r"out/paper: its row\.json does not tell what is in it: remove the folder"):
        row.empty() if retrain else row.finish(Event(), {})
    assert sorted(path.name for path in row.folder.iterdir() if path.name != ".lock") == before
    assert not row.finished
