"""A study of scaling as a small file: families of models, sizes, amounts of data, and the budget of a training."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import MISSING

from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.trainings.settings import (
    SharedSettings,
    check_folder_names,
    check_numbers,
    check_own,
    read_settings,
)


@dataclass
class Repeated:
    """Cells that are trained again with other seeds: those of one size and one amount of data, of every family."""

    size: str = MISSING
    pairs: int = MISSING
    seeds: list[int] = MISSING


@dataclass
class ScalingRecipe(SharedSettings):
    """One study; ``reference`` is the text of the validation set's target side: for the loss a character.

    Attributes:
        families: name, options of fairseq-train; ``{number}`` stands for a number of the size, in ``options`` too
        sizes: name, numbers by name
        pairs: amounts of training data, from small to large
        updates: the budget of every training
        validate_every: updates from one validation, a point of the curve, to the next
        patience: a training ends after so many validations without a lower loss; after a break they are counted anew
        sample_seed: of the permutation of which samples are the beginning
        repeated: a ``Repeated``, the cells with more seeds, if any
    """

    families: dict[str, str] = MISSING
    sizes: dict[str, Any] = MISSING
    pairs: list[int] = MISSING
    updates: int = MISSING
    validate_every: int = MISSING
    patience: int = MISSING
    sample_seed: int = 1
    repeated: Any = None

    def model_options(self, family: str, size: str) -> list[str]:
        """The options of fairseq-train that are a family's and a size's."""
        return shlex.split(f"{self.options} {self.families[family]}".format(**self.sizes[size]))

    def training_options(self, family: str, size: str, seed: int) -> list[str]:
        """The options of fairseq-train for a cell, those apart that name files; later ones win."""
        source, target = self.langs
        every = str(self.validate_every)
        never = str(10**9)  # an epoch's end is no point of its own: epochs of small samples are short
        return [
            *("--source-lang", source, "--target-lang", target, *shlex.split(self.batches)),
            *("--max-update", str(self.updates), "--patience", str(self.patience)),
            *("--validate-interval", never, "--validate-interval-updates", every),
            *("--save-interval", never, "--save-interval-updates", every, "--keep-interval-updates", "1"),
            *("--seed", str(seed), "--num-workers", "0"),
            *("--update-epoch-batch-itr", "True"),  # broken off and run again, it goes on with the same batches
            *("--log-format", "json", "--log-interval", "10"),
            *self.model_options(family, size),
        ]


def read_scaling_recipe(path: Path) -> ScalingRecipe:
    """Read the file of a study."""
    recipe = read_settings(path, ScalingRecipe)
    for name in "families", "sizes":
        check_folder_names(path, name, getattr(recipe, name))
    check_numbers(path, "pairs", recipe.pairs)
    if sorted(set(recipe.pairs)) != recipe.pairs:
        raise UserError(f"{path}: pairs: {recipe.pairs}: must rise from each to the next")
    for family in recipe.families:
        for size, numbers in recipe.sizes.items():
            try:
                options = recipe.model_options(family, size)
            except (LookupError, ValueError, AttributeError, TypeError) as error:
                raise UserError(
                    f"{path}: families: {family}: {error}: with the numbers of the size {size}: {numbers}"
                ) from error
            check_own(path, f"families: {family}", options)
    if recipe.repeated is not None:
        recipe.repeated = _repeated(path, recipe)
    return recipe


def _repeated(path: Path, recipe: ScalingRecipe) -> Repeated:
    try:
        again = Repeated(**recipe.repeated)
        check_numbers(path, "repeated: seeds", again.seeds)
    except TypeError as error:
        raise UserError(f"{path}: repeated: give {{size: small, pairs: 5000, seeds: [2, 3]}}") from error
    if again.size not in recipe.sizes or again.pairs not in recipe.pairs:
        raise UserError(f"{path}: repeated: {again.size}, {again.pairs}: no such size, or no such pairs")
    if recipe.seed in again.seeds:
        raise UserError(f"{path}: repeated: seed {recipe.seed} is that of every cell: give others")
    return again
