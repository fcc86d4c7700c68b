"""What fairseq-train tells in its log with ``--log-format json``, over all runs that went on from one another."""

import json
import re
import statistics
from dataclasses import dataclass

from resmlp_mt.errors import UserError
from resmlp_mt.files import PathLike, read_lines

_STATISTICS = re.compile(r"\| INFO \| (train_inner|train|valid) \| (\{.*\})$")
_FIGURES: dict[str, dict[str, type[int] | type[float]]] = {
    "train_inner": {"num_updates": int, "wps": float},
    "train": {"epoch": int, "train_num_updates": int},
    "valid": {"epoch": int, "valid_ppl": float},
}
"""What is read of each kind of line."""

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


def check_updates(path: PathLike, per_epoch: int) -> None:
    """See that every epoch so far had so many updates.

    Raises:
        UserError: one had not
    """
    for kind, figures in map(_figures, read_lines(path)):
        if kind == "train":
            epoch, updates = figures
            if updates != epoch * per_epoch:
                raise UserError(
                    f"{path}: {updates} updates after epoch {epoch}, not {epoch * per_epoch}: not the batches of the "
                    "table's other rows; or set its updates_per_epoch right"
                )


def read_training(path: PathLike, last_epoch: int) -> TrainingFigures:
    """Read a training's log.

    What was done twice, because the training was broken off after it, counts once: as it was the last time.

    Raises:
        UserError: the log does not reach the end of ``last_epoch``
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
