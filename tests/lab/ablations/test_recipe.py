"""The files of tables."""

from pathlib import Path

import pytest
from fairseq import options

import resmlp_mt.fairseq_plugin  # registers the models
from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.ablations.recipe import read_recipe

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "ablations"
TABLES = [path for path in sorted(EXAMPLES.glob("*.yaml")) if path.stem != "multi30k"]
DROPOUT_OF_EACH = {"gated", "gated-tuning"}  # where it is chosen for each row


def parsed(recipe, row):
    arguments = ["data", "--user-dir", str(Path(resmlp_mt.__file__).parent), *recipe.training_options(row, recipe.seed)]
    return options.parse_args_and_arch(options.get_training_parser(), arguments)


def test_a_table_s_own_settings_win_over_those_of_its_base(write_recipe, tmp_path):
    write_recipe(tmp_path / "base.yaml")
    (tmp_path / "own.yaml").write_text("base: base.yaml\nmax_epoch: 7\nrows: {deep: --encoder-layers 3}\n")
    recipe = read_recipe(tmp_path / "own.yaml")
    assert (recipe.max_epoch, recipe.langs) == (7, ("de", "en"))
    assert recipe.own_options("deep") == ["--encoder-layers", "3"]
    assert recipe.own_options("paper") == []
    words = recipe.training_options("deep", 7)
    assert words[words.index("--total-num-update") + 1] == "35"
    assert words[-2:] == ["--encoder-layers", "3"]


def test_a_row_can_have_a_budget_of_its_own(write_recipe, tmp_path):
    write_recipe(tmp_path / "base.yaml")
    own = "rows: {relu: '--lr ${updates}'}\nepochs: {relu: 30}\n"
    (tmp_path / "own.yaml").write_text(f"base: base.yaml\n{own}")
    recipe = read_recipe(tmp_path / "own.yaml")
    assert recipe.own_options("relu") == ["--lr", "150"]
    for row, epochs in ("relu", "30"), ("paper", "24"):
        words = recipe.training_options(row, 1)
        assert words[words.index("--max-epoch") + 1] == epochs
        assert words[words.index("--total-num-update") + 1] == str(5 * int(epochs))
    assert recipe.budget == "24 epochs of 5 updates for every row, but 30 for relu"
    assert read_recipe(tmp_path / "base.yaml").budget == "24 epochs of 5 updates for every row"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title: A table", "titel: A table", "Key 'titel' not in 'Recipe'"),
        ("languages: de-en", "", "languages is missing"),
        ("max_epoch: 24", "max_epoch: 0", "max_epoch: 0: give a whole number from 1"),
        ("seed: 1", "seed: 9999999999", "seed: 9999999999: give a whole number from 1 to 1,000,000,000"),
        ("seed: 1", "seeds: [2, 1, 2]", "seeds: [2, 1, 2]: give each seed once"),
        ("seed: 1", "seeds: [1, 0]", "seeds: 0: give a whole number from 1"),
        ("title: A table", "title: !!python/object/apply:os.getcwd []", "not read: "),
        ("title: A table", "base: none.yaml", "not read: [Errno 2] No such file or directory"),
        ("seed: 1", "subset: ../../victim", "subset: '../../victim': is also a folder"),
        ("languages: de-en", "languages: de-xx", "languages: 'xx': not a code of ISO 639"),
        ("  relu:", "  a/b:", "'a/b': is also a folder"),
        ("  relu:", "  paper:", "not read: "),  # twice
        ("max_epoch: 24", "max_epoch: 24\nepochs: {none: 3}", "none: no such row; there are: "),
        ("max_epoch: 24", "max_epoch: 24\nepochs: {broken: 1}", "average is 2, but there are only 1 epochs"),
        ("baseline: paper", "baseline: nobody", "nobody: no such row; there are: paper, relu, broken"),
        ("--dropout 2", "-s de", "rows: broken: -s: one for all rows"),
        ("--dropout 2", "--max-tokens=9", "rows: broken: --max-tokens=9: one for all rows"),
        ("--dropout 2", "--adam-betas '(", "rows: broken: No closing quotation"),
        ("${updates}", "${nothing}", "not read: "),
    ],
)
def test_what_is_wrong_is_told_in_one_line(write_recipe, tmp_path, old, new, message):
    path = write_recipe(tmp_path / "recipe.yaml")
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(UserError) as caught:
        read_recipe(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"[a, b]", "title: \u00e4".encode("utf-16")])
def test_a_file_of_another_kind_is_told_in_one_line(tmp_path, content):
    path = tmp_path / "recipe.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"^\S*recipe\.yaml: [^\n]+$"):
        read_recipe(path)


def test_a_base_may_have_a_base_but_not_itself(write_recipe, tmp_path):
    write_recipe(tmp_path / "first.yaml")
    (tmp_path / "second.yaml").write_text("base: first.yaml\nmax_epoch: 7\nseed: 5\n")
    (tmp_path / "third.yaml").write_text("base: second.yaml\nseed: 6\n")
    recipe = read_recipe(tmp_path / "third.yaml")
    assert (recipe.max_epoch, recipe.seed, recipe.langs) == (7, 6, ("de", "en"))

    (tmp_path / "first.yaml").write_text("base: ./third.yaml\n")
    with pytest.raises(UserError, match=r"first\.yaml: base: \./third\.yaml has this file as a base: name another"):
        read_recipe(tmp_path / "third.yaml")


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
