"""Read the output of fairseq-generate, and put its hypotheses back into the order of the test set.

The lines come in order of length, each with the number of its sentence: ``S-`` source, ``T-`` target, ``H-``
hypothesis, ``D-`` hypothesis after fairseq's own detokenization, ``P-`` scores of the positions; ``A-``, ``I-`` and
``E-`` by option. Log lines are between them. The H- lines are used: the D- lines depend on the options of the run.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike, Read, read_lines

_SENTENCE_LINE = re.compile(r"[STHDPAIE]-[0-9]+(?:_[0-9]+)?\t")
_HYPOTHESIS = re.compile(r"H-([0-9]{1,18})\t[^\t]+\t(.*)", re.DOTALL)
# The last line of a run; without a target side fairseq prints no score, and its log ends with the number of sentences.
_CLOSING_LINE = re.compile(r"Generate \S+ with beam=[0-9]+: |.* \| Translated [0-9,]+ sentences ")


@dataclass(frozen=True)
class Hypothesis:
    """A sentence's best translation as printed, and its place (``file:line``)."""

    text: str
    where: str


def is_sentence_line(line: str) -> bool:
    """Return whether fairseq-generate printed this line for one of its sentences."""
    return _SENTENCE_LINE.match(line) is not None


def read_generate_output(paths: Sequence[PathLike], nbest: int = 1, read: Read = read_lines) -> dict[int, Hypothesis]:
    """Read the hypotheses of a run by sentence number; for a run in shards, from one file per shard.

    Of the ``nbest`` hypotheses of a sentence, the first one is used: fairseq prints the best one first.
    """
    hypotheses: dict[int, Hypothesis] = {}
    for path in paths:
        finished = False
        previous, rank = -1, 0  # the sentence of the last H- line, and its H- lines so far
        for number, line in enumerate(read(path), start=1):
            if _CLOSING_LINE.match(line):
                finished = True
            elif is_sentence_line(line):
                finished = False  # a file may hold several runs: each must be complete
            if not line.startswith("H-"):
                continue
            where = f"{path}:{number}"
            match = _HYPOTHESIS.fullmatch(line)
            if match is None:
                raise UserError(f"{where}: not a whole H- line (id, score, text, with tabs): generate again")
            sentence = int(match[1])
            rank = rank + 1 if sentence == previous else 1
            previous = sentence
            if rank == 1 and sentence not in hypotheses:
                hypotheses[sentence] = Hypothesis(match[2], where)
            elif not 1 < rank <= nbest:
                raise UserError(
                    f"{where}: sentence {sentence} again, first seen at {hypotheses[sentence].where}: "
                    "give each run or shard once, and the --nbest it was run with"
                )
        if previous < 0:
            raise UserError(f"{path}: no H- lines: not what fairseq-generate prints (run it without --quiet)")
        if not finished:
            raise UserError(
                f"{path}: unfinished: the closing line ('Generate test with beam=...') is missing after the last "
                "sentence: run fairseq-generate to its end and keep all that it prints"
            )
    return hypotheses


def ordered_texts(hypotheses: Mapping[int, Hypothesis], count: int) -> list[str]:
    """Return the texts of sentences 0 to ``count`` - 1 in their order."""
    beyond = [sentence for sentence in hypotheses if sentence >= count]
    if beyond:
        raise UserError(
            f"{hypotheses[beyond[0]].where}: sentence {beyond[0]} (numbers begin at 0), but the reference has only "
            f"{count} lines: give the reference of the test set that was translated"
        )
    missing = [sentence for sentence in range(count) if sentence not in hypotheses]
    if missing:
        # By default fairseq silently drops a last batch whose size is not a multiple of 8 (its issue 5036).
        raise UserError(
            f"no hypothesis for sentence {missing[0]} (line {missing[0] + 1} of the reference), {len(missing)} of "
            f"{count} are missing: generate with --required-batch-size-multiple 1 and without skipping long sentences, "
            "and give the output of every shard"
        )
    return [hypotheses[sentence].text for sentence in range(count)]
