"""What fairseq-train tells in its log, over all runs that went on from one another.

Tables read ``--log-format json``, which their trainings have; curves ``simple``, too.
"""

import json
import math
import re
import statistics
from dataclasses import dataclass

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike, read_lines

_STATISTICS = re.compile(r"\| INFO \| (train_inner|train|valid) \| (\{.*\})$")
_FIGURES: dict[str, dict[str, type[int] | type[float]]] = {
    "train_inner": {"num_updates": int, "wps": float},
    "train": {"epoch": int, "train_num_updates": int},
    "valid": {"epoch": int, "valid_ppl": float},
}
"""What is read of each kind of line."""

CURVES = "loss", "ppl", "lr", "wps"
"""What is drawn of a training, by fairseq's names."""

_TOLD = {"train_inner": (*CURVES, "update"), "valid": (*CURVES[:2], "nll_loss")}
"""What a curve keeps of each kind of line."""

_CURVE = re.compile(r"\| INFO \| (train_inner|valid) \| (.*)$")
_SIMPLE = re.compile(r"(\w+)[ =]([^\s,|=]+)(?=,| \||$)")

_PARAMETERS = re.compile(r"\| num\. shared model params: [0-9,]+ \(num\. trained: ([0-9,]+)\)")


@dataclass(frozen=True)
class TrainingFigures:
    """What a finished training's log tells.

    Attributes:
        perplexity: on the validation set after the last epoch
        parameters: how many are trained
        words_per_second: target subwords with ``</s>`` a second of the clock, the median over the log
    """

    perplexity: float
    parameters: int
    words_per_second: float


@dataclass(frozen=True)
class Curves:
    """A training from update to update.

    Attributes:
        training: figures of CURVES by the number of updates: ``loss`` in bits a subword (that of the criterion),
            ``ppl``, ``lr`` and ``wps``, target subwords with ``</s>`` a second of the clock; ``update``, the epochs so
            far, in ``json`` alone
        validation: ``loss`` and ``ppl``, after an epoch or wherever there was a validation; ``nll_loss``, in bits a
            subword without label smoothing, where the criterion tells it beside its loss
    """

    training: dict[float, dict[str, float]]
    validation: dict[float, dict[str, float]]


def read_curves(path: PathLike) -> Curves:
    """Read a training's log, finished or not, of ``--log-format simple`` or ``json``.

    What was done twice, because the training was broken off after it, counts once: as it was the last time.
    """
    found: dict[str, dict[float, dict[str, float]]] = {"train_inner": {}, "valid": {}}
    for line in read_lines(path):
        if match := _CURVE.search(line):
            figures = {name.removeprefix("valid_"): value for name, value in _numbers(match[2]).items()}
            updates = figures.get("num_updates")
            if updates is not None:
                found[match[1]][updates] = {name: figures[name] for name in _TOLD[match[1]] if name in figures}
    if not found["train_inner"]:
        raise UserError(
            f"{path}: no update is told in it: give what fairseq-train printed with --log-format simple or json and a "
            "--log-interval that is shorter than the training"
        )
    return Curves(*(dict(sorted(each.items())) for each in found.values()))


def check_updates(path: PathLike, per_epoch: int) -> int:
    """See that every epoch so far had so many updates.

    Returns:
        the last epoch that is finished, 0 before the first
    """
    last = 0
    for kind, figures in map(_figures, read_lines(path)):
        if kind == "train":
            epoch, updates = figures
            last = int(epoch)
            if updates != epoch * per_epoch:
                raise UserError(
                    f"{path}: {updates} updates after epoch {epoch}, not {epoch * per_epoch}: not the batches of the "
                    "table's other rows; or set its updates_per_epoch right"
                )
    return last


def read_training(path: PathLike, last_epoch: int) -> TrainingFigures:
    """Read a training's log.

    What was done twice, because the training was broken off after it, counts once: as it was the last time.
    """
    parameters = None
    speeds: dict[float, float] = {}
    perplexities: dict[float, float] = {}
    for line in read_lines(path):
        if match := _PARAMETERS.search(line):
            parameters = int(match[1].replace(",", ""))
        kind, figures = _figures(line)
        if kind == "train_inner":
            speeds[figures[0]] = figures[1]
        elif kind == "valid":
            perplexities[figures[0]] = figures[1]
    if parameters is None or not speeds or last_epoch not in perplexities:
        raise UserError(f"{path}: not the log of a whole training of {last_epoch} epochs: train again")
    return TrainingFigures(
        perplexity=perplexities[last_epoch],
        parameters=parameters,
        words_per_second=statistics.median(speeds.values()),
    )


def _figures(line: str) -> tuple[str, list[float]]:
    """The kind of a line and its figures; no kind where it has none, or where a kill has cut it."""
    if match := _STATISTICS.search(line):
        try:
            values = json.loads(match[2])
            return match[1], [number(values[name]) for name, number in _FIGURES[match[1]].items()]
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
            pass
    return "", []


def _numbers(told: str) -> dict[str, float]:
    """The finite numbers in a line of either format, by name; none where a kill has cut it."""
    try:
        values = json.loads(told) if told.startswith("{") else dict(_SIMPLE.findall(told))
    except (ValueError, RecursionError):
        return {}
    found = {}
    for name, value in values.items():
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            continue
        if math.isfinite(number):
            found[name] = number
    return found
