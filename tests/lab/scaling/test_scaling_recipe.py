"""The files of studies."""

from pathlib import Path

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.scaling.grid import read_scaling_recipe

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "scaling"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("pairs: [5, 10, 20]", "pairs: [5, 20, 10]", "pairs: [5, 20, 10]: must rise from each to the next"),
        ("{width: 8, layers: 1}", "{width: 8}", "families: transformer: 'layers': with the numbers of the size s"),
        ("--token-mixing none", "--dropout {width.most}", "families: none: 'int' object has no attribute 'most'"),
        ("--token-mixing none", "--max-update 9", "families: none: --max-update: one for all families"),
        ("  none:", "  a/b:", "families: 'a/b': is also a folder"),
        ("size: m, pairs: 10", "size: x, pairs: 10", "repeated: x, 10: no such size, or no such pairs"),
        ("seeds: [2]", "seeds: [1]", "repeated: seed 1 is that of every cell"),
        (", seeds: [2]", ", seed: [2]", "repeated: give {size: small"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(write_study, old, new, message):
    path = write_study((old, new))
    with pytest.raises(UserError) as caught:
        read_scaling_recipe(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_numbers_of_a_size_stand_in_options_of_all_and_of_a_family(write_study):
    recipe = read_scaling_recipe(write_study(("heads: --arch", "heads: --lr 0.{width} --arch")))
    words = recipe.training_options("heads", "l", seed=7)
    assert words[words.index("--encoder-layers") + 1] == "2"
    assert words[words.index("--seed") + 1] == "7"
    assert "0.16" in words


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_are_read(path):
    recipe = read_scaling_recipe(path)
    assert set(recipe.families) == {"transformer", "resmlp", "heads", "none"}
    assert recipe.pairs[-1] / recipe.pairs[0] >= 16
