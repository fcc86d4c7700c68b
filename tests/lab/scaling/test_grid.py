"""The files of studies; what their cells are and cost, before any training."""

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.binarized import drawn, lengths
from resmlp_mt.lab.scaling.grid import Cell, cells_of, plan, read_scaling_recipe
from scripts import SCRIPTS

D = 16  # channels and MLP of the size m, and positions of all; 16 is also the size of the dictionary
MLP, ATTENTION, NORM = 2 * (D * D + D), 4 * (D * D + D), 2 * D  # an Aff or a LayerNorm has 2 D


@pytest.fixture
def plans(write_study, work):
    return {each.cell: each for each in plan(read_scaling_recipe(write_study()), work / "data-bin")}


def test_every_cell_is_there_once_and_the_repeated_ones_once_a_seed(write_study, plans):
    cells = cells_of(read_scaling_recipe(write_study()))
    assert len(cells) == len(set(cells)) == 3 * 3 * 3 + 3
    assert [cell for cell in cells if cell.seed == 2] == [
        Cell(family, "m", 10, 2) for family in ("transformer", "heads", "none")
    ]
    assert set(plans) == set(cells)


def test_parameters_are_told_apart_as_they_are_counted_by_hand(plans):
    of = {family: plans[Cell(family, "m", 5, 1)].parameters for family in ("transformer", "heads", "none")}
    assert of["transformer"].mixing == 0
    assert of["transformer"].encoder == ATTENTION + MLP + 2 * NORM
    assert of["transformer"].decoder == 2 * ATTENTION + MLP + 3 * NORM
    assert of["none"].mixing == 0
    positions = 16
    encoder, decoder = (2 * (positions**2 + positions + terms) for terms in (2 * positions - 1, positions))
    assert of["heads"].mixing == encoder + decoder
    assert of["heads"].encoder - of["none"].encoder - encoder == 2 * NORM  # the branch's two Aff
    assert len({each.embedding for each in of.values()}) == 1


def test_compute_counts_each_pair_by_its_own_lengths_and_no_padding(plans, work):
    source, target = lengths(work / "data-bin", "train", ("en", "de"))
    chosen = drawn(work / "data-bin", ("en", "de"), 10, seed=1)
    pairs = [(int(source[each]), int(target[each])) for each in chosen]
    own = {"transformer": lambda length: 8 * D * D + 4 * length * D, "heads": lambda length: 2 * length * D}
    for family, mixing in own.items():
        cell = plans[Cell(family, "m", 10, 1)]
        assert cell.tokens == sum(length for _, length in pairs)
        encoder = sum(s * (mixing(s) + 4 * D * D) for s, _ in pairs)
        decoder = sum(t * (mixing(t) + 8 * D * D + 4 * s * D + 2 * D * 16) + s * 4 * D * D for s, t in pairs)
        assert cell.flops == pytest.approx(3 * (encoder + decoder) / cell.tokens)


def test_the_last_update_of_an_epoch_may_have_fewer_batches(write_study, work):
    arguments = (write_study(("--max-tokens 64", f"--batch-size 1 --update-freq {freq}")) for freq in (1, 2))
    for path, updates in zip(arguments, (5, 3), strict=True):
        found = plan(read_scaling_recipe(path), work / "data-bin")
        assert {each.updates_an_epoch for each in found if each.cell.pairs == 5} == {updates}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("pairs: [5, 10, 20]", "pairs: [5, 20, 10]", "pairs: [5, 20, 10]: must rise from each to the next"),
        (
            "--token-mixing none",
            "--dropout {width.most}",
            "families: none, size s: not read: 'int' object has no attribute 'most'",
        ),
        ("--token-mixing none", "--max-update 9", "families: none: --max-update: one for all families"),
        ("pairs: [5, 10, 20]", "pairs: [5, 10, 50]", "has 40 training pairs, a sample of 50 is asked for"),
        ("--max-source-positions 16", "--max-source-positions 4", "positions, the model 4: --max-source-positions"),
    ],
)
def test_what_no_study_can_be_is_told_in_one_line(write_study, work, old, new, message):
    with pytest.raises(UserError) as caught:
        plan(read_scaling_recipe(write_study((old, new))), work / "data-bin")
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["tatoeba", "small"])
def test_the_examples_are_read(name):
    recipe = read_scaling_recipe(SCRIPTS.parent / "examples" / "scaling" / f"{name}.yaml")
    assert set(recipe.families) == {"transformer", "resmlp", "heads", "none"}
    assert recipe.pairs[-1] / recipe.pairs[0] >= 16
