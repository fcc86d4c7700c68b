"""Recipe files of studies; their cells, and what these cost, before any training."""

from dataclasses import replace
from itertools import pairwise

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.models import training_args
from resmlp_mt.lab.scaling.grid import Cell, cells_of, plan, read_scaling_recipe
from scripts import SCRIPTS

STUDIES = [path for path in sorted(SCRIPTS.parent.glob("examples/scaling/*.yaml")) if "title:" in path.read_text()]
D = 16  # channels and MLP of the size m, and positions of all; 16 is also the size of the dictionary
MLP, ATTENTION, NORM = 2 * (D * D + D), 4 * (D * D + D), 2 * D  # an Aff or a LayerNorm has 2 D


@pytest.fixture
def plans(write_study, work):
    return {each.cell: each for each in plan(read_scaling_recipe(write_study()), work / "data-bin")}


def test_every_cell_is_there_once_and_the_repeated_ones_once_a_seed(write_study, plans):
    more = ("}]", "}, {families: [heads], sizes: [s], pairs: [5], seeds: [3]}]")
    *cells, last = cells_of(read_scaling_recipe(write_study(more)))
    assert [cell for cell in cells if cell.seed == 2] == [Cell("transformer", "m", 10, 2), Cell("none", "m", 10, 2)]
    assert last == Cell("heads", "s", 5, 3) and set(plans) == set(cells) and len(cells) == len(set(cells)) == 3 * 9 + 2


def test_parameters_are_told_apart_as_they_are_counted_by_hand(plans):
    of = {family: plans[Cell(family, "m", 5, 1)].parameters for family in ("transformer", "heads", "none")}
    assert of["transformer"].encoder == ATTENTION + MLP + 2 * NORM
    assert of["transformer"].decoder == 2 * ATTENTION + MLP + 3 * NORM
    assert of["transformer"].mixing == of["none"].mixing == 0
    encoder, decoder = (2 * (D**2 + D + terms) for terms in (2 * D - 1, D))  # A, b and the relative term, two heads
    assert of["heads"].mixing == encoder + decoder
    assert of["heads"].encoder - of["none"].encoder - encoder == 2 * NORM  # the branch's two Aff
    assert len({each.embedding for each in of.values()}) == 1


def test_a_number_may_depend_on_the_amount_of_data_and_on_the_family(write_study, work, plans):
    wider = plan(read_scaling_recipe(write_study(("width: 8,", "width: {5: 8, 10: 16, 20: 16},"))), work / "data-bin")
    for each in (each for each in wider if each.cell.size == "s"):
        same = replace(each.cell, size="s" if each.cell.pairs == 5 else "m")  # but for dropout
        assert each.parameters == plans[same].parameters
    recipe = read_scaling_recipe(write_study())
    dropout = {Cell("heads", "l", 5, 1): "0.3", Cell("heads", "s", 5, 1): "0.2", Cell("heads", "s", 20, 1): "0.1"}
    for cell in dropout:
        options, updates = dict(pairwise(recipe.training_options(cell))), {5: "20", 20: "40"}[cell.pairs]
        found = [options[name] for name in ("--dropout", "--max-update", "--total-num-update")]
        assert found == [dropout[cell], updates, updates]
        assert options["--validate-interval-updates"] == str(int(updates) // 4) and plans[cell].updates == int(updates)


def test_the_last_update_of_an_epoch_may_have_fewer_batches(write_study, work):
    arguments = (write_study(("--max-tokens 64", f"--batch-size 1 --update-freq {freq}")) for freq in (1, 2))
    for path, updates in zip(arguments, (5, 3), strict=True):
        found = plan(read_scaling_recipe(path), work / "data-bin")
        assert {each.updates_an_epoch for each in found if each.cell.pairs == 5} == {updates}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("pairs: [5, 10, 20]", "pairs: [5, 20, 10]", "pairs: [5, 20, 10]: must rise from each to the next"),
        ("pairs: [5, 10, 20]", "pairs: []", "pairs: is empty"),
        ("--token-mixing none", "--dropout {width.x}", "none-s-5-seed1: not read: 'int' object has no attribute 'x'"),
        ("--token-mixing none", "--dropout {wdth}", "none-s-5-seed1: not read: unknown name 'wdth'"),
        ("updates: {5: 20, ", "updates: {", "not read: updates has no value for 5 and none for transformer"),
        ("pairs: [10], seeds", "pairs: [7], seeds", "repeated: 7 pairs are not in pairs: [5, 10, 20]"),
        ("sizes: [m], pairs: [10]", "sizes: [x], pairs: [10]", "transformer-x-10-seed2: not read: unknown name 'x'"),
        ("--token-mixing none", "--max-update 9", "families: none: --max-update: is the same for every training"),
        ("10, 20]\nupdates: {", "10, 50]\nupdates: {50: 9, ", "has 40 training pairs, a sample of 50 is asked for"),
        ("--max-source-positions 16", "--max-source-positions 4", "positions, the model 4: --max-source-positions"),
    ],
)
def test_what_no_study_can_be_is_told_in_one_line(write_study, work, old, new, message):
    with pytest.raises(UserError) as caught:
        plan(read_scaling_recipe(write_study((old, new))), work / "data-bin")
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_fairseq_understands_every_family_and_size(path):
    recipe = read_scaling_recipe(path)
    for cell in {(each.family, each.size): each for each in cells_of(recipe)}.values():
        training_args(["data", *recipe.training_options(cell)], str(path))
