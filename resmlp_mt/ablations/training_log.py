"""What fairseq-train tells in its log with ``--log-format json``, over all runs that went on from one another."""

import json
import re
import statistics
from dataclasses import dataclass

from resmlp_mt.errors import UserError
from resmlp_mt.files import PathLike, read_lines

_STATISTICS = re.compile(r"\| INFO \| (train_inner|train|valid) \| (\{.*\})$")
_PARAMETERS = re.compile(r"\| num\. shared model params: [0-9,]+ \(num\. trained: ([0-9,]+)\)")


@dataclass(frozen=True)
class Training:
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
    for line in read_lines(path):
        match = _STATISTICS.search(line)
        if match and match[1] == "train":
            values = json.loads(match[2])
            epoch, updates = int(values["epoch"]), int(values["train_num_updates"])
            if updates != epoch * per_epoch:
                raise UserError(
                    f"{path}: {updates} updates after epoch {epoch}, not {epoch * per_epoch}: not the batches of the "
                    "table's other rows; or set its updates_per_epoch right"
                )


def read_training(path: PathLike, last_epoch: int) -> Training:
    """Read a training's log.

    What was done twice, because the training was broken off after it, counts once: as it was the last time.

    Raises:
        UserError: the log does not reach the end of ``last_epoch``
    """
    parameters = None
    speeds: dict[str, float] = {}
    perplexities: dict[int, float] = {}
    for line in read_lines(path):
        if match := _PARAMETERS.search(line):
            parameters = int(match[1].replace(",", ""))
        elif match := _STATISTICS.search(line):
            values = json.loads(match[2])
            if match[1] == "train_inner":
                speeds[values["num_updates"]] = float(values["wps"])
            elif match[1] == "valid":
                perplexities[int(values["epoch"])] = float(values["valid_ppl"])
    if parameters is None or not speeds or last_epoch not in perplexities:
        raise UserError(f"{path}: not the log of a whole training of {last_epoch} epochs: train again")
    return Training(
        perplexity=perplexities[last_epoch],
        parameters=parameters,
        words_per_second=statistics.median(speeds.values()),
    )
