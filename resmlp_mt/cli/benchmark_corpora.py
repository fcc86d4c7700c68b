"""Speed and memory of preparing a corpus, beside the plain sequence of command-line tools.

Both chains run in turn on the same text (Multi30k's training set, repeated) with the same number of processes, and
their results are compared byte by byte (of subword text, all but blanks at line ends, which subword-nmt passes on). The
plain sequence is what people write into a shell script:

    sacremoses normalize -c tokenize -a   per language; then sed undoes the escapes, which sacremoses' command
                                          cannot leave out (its -x changes nothing)
    subword-nmt learn-bpe                 of both languages together
    subword-nmt apply-bpe                 per language
    fairseq-preprocess --joined-dictionary

It does the training text alone, while ours does validation and test text as well. Neither drops a pair here.

With --learners N, BPE is learned instead by each library from N different words, with one thread: Multi30k's, and as
many compounds of two or three of them as that takes, with counts as Zipf's law has them (exponent 1.15).
"""

import argparse
import contextlib
import filecmp
import json
import os
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any

import psutil

from resmlp_mt.cli import named
from resmlp_mt.cli.arguments import command_parser, positive
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import (
    atomic_write,
    check_can_be_written,
    check_outputs,
    read_lines,
    read_parallel,
    write_json,
)
from resmlp_mt.common.tables import text_table
from resmlp_mt.data.cluster import Cluster
from resmlp_mt.data.learning import write_counts
from resmlp_mt.data.parallel import Jobs
from resmlp_mt.data.pipeline import Corpus, CorpusRecipe, prepare
from resmlp_mt.data.sources import PlainText
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.lab import machine
from resmlp_mt.text.words import Words

ROOT = Path(__file__).resolve().parents[2]
LANGS = ("en", "de")
SETS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}  # our names and Multi30k's
MIB = 1 << 20
TOOLS = ("sacremoses", "subword-nmt", "fairseq-preprocess")
THREADS = 1  # of each process
UNESCAPE = r"s/&#91;/[/g; s/&#93;/]/g; s/&quot;/\"/g; s/&apos;/'/g; s/&gt;/>/g; s/&lt;/</g; s/&#124;/|/g; s/&amp;/\&/g"
# What each part of a chain is called in the table: the names of our steps begin so.
PARTS = ("tokenize", "learn", "split", "binarize")
LEARNERS = ("subword-nmt", "tokenizers")
LEARN = """
import sys
from pathlib import Path
from resmlp_mt.data.learning import learn_bpe
from resmlp_mt.data.subwords import Subwords
learn_bpe(Path(sys.argv[1]), sys.argv[2], Subwords("bpe", int(sys.argv[3]), sys.argv[4]))
"""


@dataclass
class Measured:
    """One run of one chain.

    Attributes:
        seconds: wall time of each part
        cpu: seconds of all processes together, on all cores
        memory: the most that all processes held at a time, in bytes, shared pages counted once
    """

    seconds: dict[str, float] = field(default_factory=dict)
    cpu: float = 0.0
    memory: int = 0

    @property
    def total(self) -> float:
        """Wall time of all parts, in seconds."""
        return sum(self.seconds.values())


class MemoryWatch(threading.Thread):
    """Looks at the memory of a process and of all that descend from it, until the process ends."""

    PAUSE = 0.05  # seconds between looks

    def __init__(self, pid: int):
        super().__init__(daemon=True)
        self._pid = pid
        self._ended = threading.Event()
        self.peak = 0

    def run(self) -> None:
        while not self._ended.wait(self.PAUSE):
            self.peak = max(self.peak, _held(self._pid))

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()
        self.join()


def _held(pid: int) -> int:
    held = 0
    with contextlib.suppress(psutil.Error):  # it has just ended
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                held += each.memory_full_info().pss
    return held


def _measured(command: Sequence[object], measured: Measured) -> float:
    """Run a command, add to what was measured, and return its seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(THREADS), "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               env=environment)  # fmt: skip
    watch = MemoryWatch(process.pid)
    watch.start()
    _, errors = process.communicate()
    watch.end()
    if process.returncode:
        raise UserError(f"{command[0]} failed: {(errors.strip() or 'no message').splitlines()[-1]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    measured.cpu += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    measured.memory = max(measured.memory, watch.peak)
    return time.monotonic() - begun


def run_plain(text: Path, out: Path, symbols: int, jobs: int) -> Measured:
    """The sequence of command-line tools."""
    tools = Path(sys.executable).parent
    shell = ["bash", "-euo", "pipefail", "-c"]
    names = {name: shlex.quote(str(tools / name)) for name in TOOLS}
    quoted = shlex.quote(str(out))
    measured = Measured()
    parts: dict[str, list[str]] = {
        "tokenize": [
            f"{names['sacremoses']} -q -l {lang} -j {jobs} normalize -c tokenize -a"
            f" < {shlex.quote(str(text))}/train.{lang} | sed {shlex.quote(UNESCAPE)} > {quoted}/tokenized.{lang}"
            for lang in LANGS
        ],
        "learn": [
            f"cat {quoted}/tokenized.* > {quoted}/both; {names['subword-nmt']} learn-bpe -s {symbols}"
            f" --num-workers {jobs} --input {quoted}/both --output {quoted}/codes; rm {quoted}/both"
        ],
        "split": [
            f"{names['subword-nmt']} apply-bpe -c {quoted}/codes --num-workers {jobs} --input {quoted}/tokenized.{lang}"
            f" --output {quoted}/train.{lang}"
            for lang in LANGS
        ],
        "binarize": [
            f"{names['fairseq-preprocess']} -s {LANGS[0]} -t {LANGS[1]} --joined-dictionary --trainpref {quoted}/train"
            f" --destdir {quoted}/data-bin --workers {jobs}"
        ],
    }
    out.mkdir()
    for part, commands in parts.items():
        measured.seconds[part] = sum(_measured([*shell, command], measured) for command in commands)
    return measured


def run_ours(text: Path, out: Path, symbols: int, jobs: int) -> Measured:
    """`resmlp-mt prepare-text` on this text; time outside of its steps counts with the first part."""
    command = [sys.executable, ROOT / "scripts/prepare_text.py", "--source-lang", LANGS[0], "--target-lang", LANGS[1]]
    for name in SETS:
        command += [f"--{name}", *(text / f"{name}.{lang}" for lang in LANGS)]
    measured = Measured()
    total = _measured([*command, "--out", out, "--dash-splits", "--symbols", symbols, "--jobs", jobs], measured)
    times = json.loads((out / "times.json").read_text())
    times["learn words"] = times.pop("count words")
    for part in PARTS:
        measured.seconds[part] = sum(taken["seconds"] for name, taken in times.items() if name.startswith(part))
    measured.seconds[PARTS[0]] += total - measured.total
    return measured


def run_cluster(text: Path, out: Path, symbols: int) -> dict[str, float]:
    """CPU seconds of all steps but learning: those of one process, and those that a cluster has but once.

    Returns:
        ``"one process"``; ``"main and scheduler"``: what reads, sends, receives and writes, with two workers beside it
    """
    from distributed import LocalCluster

    train, valid, test = ([PlainText(*(text / f"{name}.{lang}" for lang in LANGS))] for name in SETS)
    corpus = Corpus(LANGS, train, valid, test)
    recipe = CorpusRecipe(Words(dash_splits=True), Subwords("bpe", symbols))

    def seconds(jobs: Jobs) -> float:
        for folder in ("tokenized", "subwords", "data-bin"):
            shutil.rmtree(out / folder)
        begun = time.process_time()
        prepare(corpus, recipe, out, jobs)
        return time.process_time() - begun

    with contextlib.redirect_stdout(sys.stderr):
        if not out.exists():
            prepare(corpus, recipe, out)  # the learned subwords are reused below
        taken = {"one process": seconds(1)}
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as dask,
            Cluster(dask.scheduler_address, out) as cluster,
        ):
            begun, idle = time.monotonic(), time.process_time()
            time.sleep(5)
            idle = (time.process_time() - idle) / (time.monotonic() - begun)  # heartbeats, with no work to do
            begun = time.monotonic()
            taken["main and scheduler"] = seconds(cluster)
            taken["main and scheduler"] -= idle * (time.monotonic() - begun)
    return {name: round(value, 2) for name, value in taken.items()}


def differing(plain: Path, ours: Path) -> list[str]:
    """The files in which the results of the chains differ."""
    pair = "-".join(LANGS)
    names = {"codes": "bpe.codes"}
    for lang in LANGS:
        names[f"tokenized.{lang}"] = f"tokenized/train.1.{lang}"
        names[f"data-bin/dict.{lang}.txt"] = f"data-bin/dict.{lang}.txt"
        names |= {
            f"data-bin/train.{pair}.{lang}.{kind}": f"data-bin/train.{pair}.{lang}.{kind}" for kind in ("bin", "idx")
        }
    wrong = [name for name, same in names.items() if not filecmp.cmp(plain / name, ours / same, shallow=False)]
    for lang in LANGS:
        lines = read_parallel([plain / f"train.{lang}", ours / "subwords" / f"train.{lang}"])
        if any(theirs.rstrip(" ") != line for theirs, line in lines):
            wrong.append(f"train.{lang}")
    return wrong


def make_text(folder: Path, multi30k: Path, pairs: int) -> Path:
    """Write the training set, repeated until there are so many pairs, with the validation and the test set."""
    for name, theirs in SETS.items():
        lines = list(read_parallel([multi30k / f"{theirs}.{lang}.gz" for lang in LANGS]))
        repeated = list(islice(cycle(lines), pairs)) if name == "train" else lines
        for side, lang in enumerate(LANGS):
            with atomic_write(folder / f"{name}.{lang}") as file:
                file.writelines(f"{pair[side]}\n" for pair in repeated)
    return folder


def make_words(multi30k: Path, different: int) -> dict[str, int]:
    """Words and their counts, the most frequent first: Multi30k's, then compounds of them."""
    text = (line for lang in LANGS for line in read_lines(multi30k / f"train.{lang}.gz"))
    known = [word for word, _ in Counter(word for line in text for word in line.split()).most_common(different)]
    words = dict.fromkeys(known, 0)
    chance = Random(1)
    while len(words) < different:
        words["".join(chance.choices(known, k=chance.choice((2, 2, 3)))).capitalize()] = 0
    return {word: int((different / rank) ** 1.15) for rank, word in enumerate(words, start=1)}


def compare_learners(words: dict[str, int], work: Path, symbols: int) -> dict[str, Any]:
    """What each library takes to learn BPE, with all of its processes, and into how many subwords its merges split."""
    write_counts(words, work / "words.txt")
    result = {}
    for learner in LEARNERS:
        measured = Measured()
        command = [sys.executable, "-c", LEARN, work / "words.txt", work / learner, symbols, learner]
        seconds = _measured(command, measured)
        split = Subwords("bpe").load(work / learner)
        subwords = sum(count * len(split(word).split()) for word, count in words.items())
        result[learner] = {
            "seconds": round(seconds, 1),
            "cpu_seconds": round(measured.cpu, 1),
            "peak_mib": round(measured.memory / MIB),
            "merges": len(list(read_lines(work / learner))) - 1,
            "subwords_per_word": round(subwords / sum(words.values()), 4),
        }
        print(learner, *(f"{name} {value}" for name, value in result[learner].items()), sep=", ", flush=True)
    return result


def _table(plain: list[Measured], ours: list[Measured], pairs: int) -> str:
    rows: list[tuple[str, ...]] = [("", "plain tools", "ours", "ratio (each round)")]
    for part in PARTS:
        a, b = ([run.seconds[part] for run in runs] for runs in (plain, ours))
        rows.append((part, f"{statistics.median(a):.1f} s", f"{statistics.median(b):.1f} s", _ratios(a, b)))
    a, b = ([run.total for run in runs] for runs in (plain, ours))
    rows.append(("whole chain", f"{statistics.median(a):.1f} s", f"{statistics.median(b):.1f} s", _ratios(a, b)))
    rates = [f"{pairs / statistics.median(total):,.0f} pairs/s" for total in (a, b)]
    rows.append(("", *rates, ""))
    a, b = ([run.cpu for run in runs] for runs in (plain, ours))
    rows.append(("CPU time", f"{statistics.median(a):.1f} s", f"{statistics.median(b):.1f} s", _ratios(a, b)))
    a, b = ([run.memory / MIB for run in runs] for runs in (plain, ours))
    rows.append(("peak memory", f"{max(a):,.0f} MiB", f"{max(b):,.0f} MiB", _ratios(a, b)))
    return text_table(rows)


def _ratios(plain: list[float], ours: list[float]) -> str:
    ratios = [a / b for a, b in zip(plain, ours, strict=True)]
    return f"{statistics.median(ratios):.2f} ({', '.join(f'{ratio:.2f}' for ratio in ratios)})"


def get_parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = command_parser(__doc__)
    parser.add_argument("--from", dest="multi30k", type=named, required=True, help="folder with Multi30k's .gz files")
    parser.add_argument("--pairs", type=positive(10**8), default=300_000, help="training pairs (default: %(default)s)")
    parser.add_argument("--symbols", type=positive(10**6), default=4000, help="BPE merges (default: %(default)s)")
    parser.add_argument(
        "--jobs", type=positive(1000), default=2, help="processes of each tool and of ours (default: %(default)s)"
    )
    parser.add_argument(
        "--rounds", type=positive(1000), default=3, help="runs of each chain, in turn (default: %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="29,000 pairs, one round")
    parser.add_argument(
        "--flatness", action="store_true", help="instead: our peak memory at a tenth of the pairs and at all"
    )
    parser.add_argument(
        "--learners",
        type=positive(10**8),
        metavar="N",
        help="instead: both learners of BPE, from so many different words",
    )
    parser.add_argument(
        "--cluster", action="store_true", help="instead: CPU time of one process, and of what a cluster has but once"
    )
    parser.add_argument("--json", type=named, help="also write what was measured to this file")
    parser.add_argument("--work", type=named, help="folder for all the texts (default: where temporary files go)")
    return parser


def check(args: argparse.Namespace) -> None:
    """See that the text and the tools are there, before anything is measured.

    Raises:
        UserError: they are not, or a file would be written over the text
    """
    sets = ["train"] if args.learners else SETS.values()
    texts = [args.multi30k / f"{name}.{lang}.gz" for name in sets for lang in LANGS]
    for path in texts:
        if not path.is_file():
            raise UserError(f"{path}: no such file: --from is the folder of Multi30k's .gz files")
    for path in [Path(sys.executable).with_name(name) for name in TOOLS]:
        if not path.is_file():
            raise UserError(f"{path}: no such command: pip install what this is compared with, in this environment")
    if args.work and not args.work.is_dir():
        raise UserError(f"--work {args.work}: no such folder")
    if not (ROOT / "scripts").is_dir():
        raise UserError("this runs scripts/prepare_text.py: install the toolkit from a checkout (pip install -e .)")
    if args.json:
        check_outputs([args.json], texts)
        check_can_be_written(args.json)


def main() -> None:
    """Run the command."""
    args = get_parser().parse_args()
    if args.quick:
        args.pairs, args.rounds = 29_000, 1
    check(args)
    described = machine.describe(threads=THREADS, packages=("sacremoses", "subword-nmt", "tokenizers", "numpy"))
    result: dict[str, object] = {"machine": described, "symbols": args.symbols}
    if not args.learners:
        result |= {"pairs": args.pairs, "jobs": args.jobs}
    print(", ".join(f"{name} {value}" for name, value in described.items()))
    with tempfile.TemporaryDirectory(dir=args.work) as temporary:
        work = Path(temporary)
        if args.learners:
            words = make_words(args.multi30k, args.learners)
            result |= {
                "command": f"benchmark-corpora --from MULTI30K --learners {args.learners} --symbols {args.symbols}",
                "commit": machine.commit(),
                "date": datetime.now(timezone.utc).date().isoformat(),
                "different_words": len(words),
                "running_words": sum(words.values()),
                "learners": compare_learners(words, work, args.symbols),
            }
        elif args.cluster:
            text = make_text(work / "text", args.multi30k, args.pairs)
            rounds = [run_cluster(text, work / "out", args.symbols) for _ in range(args.rounds)]
            rates = {name: round(args.pairs / statistics.median(run[name] for run in rounds)) for name in rounds[0]}
            print("pairs a second of CPU time:", ", ".join(f"{rate:,} {name}" for name, rate in rates.items()))
            result |= {
                "command": f"resmlp-mt benchmark-corpora --from MULTI30K --cluster --pairs {args.pairs}",
                "commit": machine.commit(),
                "date": datetime.now(timezone.utc).date().isoformat(),
                "cpu_seconds": rounds,
                "pairs_per_cpu_second": rates,
            }
        elif args.flatness:
            peaks = {}
            for pairs in (args.pairs // 10, args.pairs):
                text = make_text(work / f"text{pairs}", args.multi30k, pairs)
                peaks[pairs] = run_ours(text, work / f"ours{pairs}", args.symbols, args.jobs).memory
                print(f"{pairs:,} pairs: {peaks[pairs] / MIB:,.0f} MiB at most, with --jobs {args.jobs}", flush=True)
            result["memory"] = peaks
        else:
            text = make_text(work / "text", args.multi30k, args.pairs)
            plain, ours = [], []
            for number in range(1, args.rounds + 1):
                print(f"round {number} of {args.rounds}", file=sys.stderr, flush=True)
                plain.append(run_plain(text, work / "plain", args.symbols, args.jobs))
                ours.append(run_ours(text, work / "ours", args.symbols, args.jobs))
                if wrong := differing(work / "plain", work / "ours"):
                    raise UserError(f"the chains differ in {', '.join(wrong)}: their speed cannot be compared")
                shutil.rmtree(work / "plain")
                shutil.rmtree(work / "ours")
            print(f"{args.pairs:,} pairs, {args.jobs} processes, {args.rounds} rounds: the same bytes\n")
            print(_table(plain, ours, args.pairs))
            result |= {"plain": list(map(asdict, plain)), "ours": list(map(asdict, ours))}
    if args.json:
        write_json(args.json, result)
