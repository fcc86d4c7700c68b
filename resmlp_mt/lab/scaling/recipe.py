"""A study of scaling as a small file: families of models, sizes, amounts of data, and the budget of a training."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike
from resmlp_mt.lab.ablations.recipe import ONE_FOR_ALL, check_own
from resmlp_mt.lab.ablations.settings import (
    check_folder_names,
    check_languages,
    check_names,
    check_number,
    check_texts,
    load,
    seeds_of,
    words_of,
)

NUMBERS = "updates", "validate_every", "patience", "seed", "sample_seed"
REPEATED = "size", "pairs", "seeds"
SHARED = ONE_FOR_ALL | {f"--{what}-interval-updates" for what in ("validate", "save", "keep")}
"""Options of fairseq-train that are one for all cells; fairseq also validates where it saves."""


@dataclass(frozen=True)
class Repeated:
    """Cells that are trained again with other seeds: those of one size and one amount of data, of every family."""

    size: str
    pairs: int
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class ScalingRecipe:
    """One study.

    Attributes:
        title: the page's
        languages: source and target, ``en-de``
        reference: running text of the validation set's target side, in the folder of the data: for the loss a character
        batches: options of fairseq-train that make the batches
        families: name, options of fairseq-train; ``{number}`` stands for a number of the size
        sizes: name, numbers by name; from small to large
        pairs: amounts of training data, from small to large
        updates: the budget of every training
        validate_every: updates from one validation, a point of the curve, to the next
        patience: a training ends after so many validations without a lower loss; after a break they are counted anew
        options: of fairseq-train for every cell, with ``{number}`` as well
        data: the binarized data, in the folder of the data
        seed: of every training
        sample_seed: of the permutation of which samples are the beginning
        repeated: the cells with more seeds, if any
    """

    title: str
    languages: str
    reference: str
    batches: list[str]
    families: dict[str, str]
    sizes: dict[str, dict[str, float]]
    pairs: tuple[int, ...]
    updates: int
    validate_every: int
    patience: int
    options: str = ""
    data: str = "data-bin"
    seed: int = 1
    sample_seed: int = 1
    repeated: Repeated | None = None

    @property
    def langs(self) -> tuple[str, str]:
        """Source and target language."""
        source, _, target = self.languages.partition("-")
        return source, target

    def model_options(self, family: str, size: str) -> list[str]:
        """The options of fairseq-train that are a family's and a size's."""
        return shlex.split(f"{self.options} {self.families[family]}".format(**self.sizes[size]))

    def training_options(self, family: str, size: str, seed: int) -> list[str]:
        """The options of fairseq-train for a cell, those apart that name files; later ones win."""
        source, target = self.langs
        every = str(self.validate_every)
        never = str(10**9)  # an epoch's end is no point of its own: epochs of small samples are short
        return [
            *("--source-lang", source, "--target-lang", target, *self.batches),
            *("--max-update", str(self.updates), "--patience", str(self.patience)),
            *("--validate-interval", never, "--validate-interval-updates", every),
            *("--save-interval", never, "--save-interval-updates", every, "--keep-interval-updates", "1"),
            *("--seed", str(seed), "--num-workers", "0"),
            *("--update-epoch-batch-itr", "True"),  # broken off and run again, it goes on with the same batches
            *("--log-format", "json", "--log-interval", "10"),
            *self.model_options(family, size),
        ]


def read_scaling_recipe(path: PathLike) -> ScalingRecipe:
    """Read the file of a study.

    Raises:
        UserError: it cannot be read, lacks a setting or has one that it should not, with its name
    """
    settings = load(Path(path))
    check_names(path, settings, ScalingRecipe)
    for name in NUMBERS:
        if name in settings:
            check_number(path, name, settings[name])
    check_texts(path, settings, ("title", "languages", "reference", "data"))
    check_languages(path, settings["languages"])
    settings["batches"] = words_of(path, "batches", settings["batches"])
    settings["sizes"] = _sizes(path, settings["sizes"])
    settings["families"] = {
        name: shlex.join(words_of(path, f"families: {name}", options))
        for name, options in _mapping(path, "families", settings["families"]).items()
    }
    if "options" in settings:
        settings["options"] = shlex.join(words_of(path, "options", settings["options"]))
    settings["pairs"] = _rising(path, settings["pairs"])
    if settings.get("repeated") is not None:
        settings["repeated"] = _repeated(path, settings["repeated"], settings)
    recipe = ScalingRecipe(**settings)
    for family in recipe.families:
        for size in recipe.sizes:
            try:
                options = recipe.model_options(family, size)
            except (LookupError, ValueError, AttributeError, TypeError) as error:
                name = f"{{{error.args[0]}}}" if isinstance(error, KeyError) else str(error)
                raise UserError(
                    f"{path}: families: {family}: {name}: not a number of the size {size}, which has "
                    f"{', '.join(recipe.sizes[size])}"
                ) from error
            check_own(path, {f"families: {family}": options}, SHARED)
    return recipe


def _mapping(path: PathLike, name: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, dict) or not given:
        raise UserError(f"{path}: {name}: give at least one, as name: ...")
    check_folder_names(path, name, given)
    return given


def _sizes(path: PathLike, given: Any) -> dict[str, dict[str, float]]:
    for name, numbers in _mapping(path, "sizes", given).items():
        if not isinstance(numbers, dict) or not all(type(each) in (int, float) for each in numbers.values()):
            raise UserError(f"{path}: sizes: {name}: give numbers by name, such as {{width: 64, layers: 2}}")
    return given


def _rising(path: PathLike, given: Any) -> tuple[int, ...]:
    if not isinstance(given, list) or not given:
        raise UserError(f"{path}: pairs: give a list of whole numbers, such as [5000, 10000, 20000]")
    for number in given:
        check_number(path, "one of pairs", number)
    if sorted(set(given)) != given:
        raise UserError(f"{path}: pairs: {given}: must rise from each to the next")
    return tuple(given)


def _repeated(path: PathLike, given: Any, settings: dict[str, Any]) -> Repeated:
    if not isinstance(given, dict) or set(given) != set(REPEATED):
        raise UserError(f"{path}: repeated: give {', '.join(REPEATED)}, as {{size: small, pairs: 5000, seeds: [2, 3]}}")
    for name, known in ("size", settings["sizes"]), ("pairs", settings["pairs"]):
        if given[name] not in known:
            raise UserError(f"{path}: repeated: {given[name]}: no such {name}; there are: {', '.join(map(str, known))}")
    seeds = seeds_of(path, given["seeds"])
    if settings.get("seed", 1) in seeds:
        raise UserError(f"{path}: repeated: seed {settings.get('seed', 1)} is that of every cell: give others")
    return Repeated(given["size"], given["pairs"], seeds)
