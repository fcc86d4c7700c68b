#!/usr/bin/env python3
"""Compare speed and memory of preparing a corpus with plain command-line tools that make the same bytes.

python examples/benchmarks/corpora.py --from work/multi30k/raw --pairs 29000 --json corpora.json
"""

import argparse
import contextlib
import filecmp
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import psutil

from resmlp_mt.cli.arguments import number_within
from resmlp_mt.common.errors import UserError, one_line_errors
from resmlp_mt.common.files import atomic_write, read_parallel, write_json
from resmlp_mt.common.progress import text_table
from resmlp_mt.lab import machine
from resmlp_mt.lab.benchmarks.measuring import turns

SETS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}  # our names and Multi30k's
PAUSE = 0.05  # seconds between measurements of the memory
# sacremoses' command always escapes (its -x changes nothing).
UNESCAPE = r"s/&#91;/[/g; s/&#93;/]/g; s/&quot;/\"/g; s/&apos;/'/g; s/&gt;/>/g; s/&lt;/</g; s/&#124;/|/g; s/&amp;/\&/g"
# What people write into a shell script: the part's name, then its command. subword-nmt keeps blanks at line ends, so
# its text is compared only in binarized form.
PLAIN = {
    "tokenize": 'for l in en de; do sacremoses -q -l $l -j $JOBS normalize -c tokenize -a < "$TEXT/train.$l" | '
    'sed "$UNESCAPE" > tokenized.$l; done',
    "learn": "cat tokenized.* > both; "
    "subword-nmt learn-bpe -s $SYMBOLS --num-workers $JOBS --input both --output codes; rm both",
    "split": "for l in en de; do subword-nmt apply-bpe -c codes --num-workers $JOBS --input tokenized.$l "
    "--output train.$l; done",
    "binarize": "fairseq-preprocess -s en -t de --joined-dictionary --trainpref train --destdir data-bin "
    "--workers $JOBS",
}
OURS = {
    "all": 'python "$ROOT/scripts/prepare_text.py" --source-lang en --target-lang de --dash-splits --symbols $SYMBOLS '
    '--train "$TEXT/train.en" "$TEXT/train.de" --valid "$TEXT/valid.en" "$TEXT/valid.de" '
    '--test "$TEXT/test.en" "$TEXT/test.de" --out . --jobs $JOBS'
}
CHAINS = {"plain": PLAIN, "ours": OURS}
SAME = {"codes": "bpe.codes", **{f"tokenized.{lang}": f"tokenized/train.1.{lang}" for lang in ("en", "de")}}
SAME |= {f"data-bin/{name}": f"data-bin/{name}" for name in ("dict.en.txt", "train.en-de.en.bin", "train.en-de.de.bin")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="multi30k", type=Path, required=True, help="folder with Multi30k's .gz files")
    parser.add_argument("--pairs", type=int, default=300_000, help="training pairs; Multi30k's 29,000 are repeated")
    parser.add_argument("--symbols", type=int, default=4000, help="BPE merges")
    parser.add_argument("--jobs", type=int, default=2, help="processes of each tool, and ours")
    parser.add_argument("--rounds", type=number_within(1, 1000), default=3, help="runs of each chain, in turn")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    args = parser.parse_args()
    result = compare(args.multi30k, args.pairs, args.symbols, args.jobs, args.rounds)
    print(f"{args.pairs:,} pairs, {args.jobs} processes, {args.rounds} rounds: the same bytes\n\n{table(result)}")
    if args.json:
        write_json(args.json, result)


def compare(multi30k: Path, pairs: int, symbols: int, jobs: int, rounds: int) -> dict[str, Any]:
    """Run both chains in turn on Multi30k's training set, repeated; check that they make the same bytes."""
    about = machine.made_by("python examples/benchmarks/corpora.py")
    result: dict[str, Any] = {**about, "machine": machine.describe(threads=1)}
    result |= {"pairs": pairs, "symbols": symbols, "jobs": jobs, "plain": [], "ours": []}
    with tempfile.TemporaryDirectory() as temporary:
        text = Path(temporary, "text")
        for name, theirs in SETS.items():
            lines = list(read_parallel([multi30k / f"{theirs}.{lang}.gz" for lang in ("en", "de")]))
            taken = list(islice(cycle(lines), pairs)) if name == "train" else lines
            for side, lang in enumerate(("en", "de")):
                with atomic_write(text / f"{name}.{lang}") as file:
                    file.writelines(f"{pair[side]}\n" for pair in taken)
        variables = {"TEXT": text, "SYMBOLS": symbols, "JOBS": jobs, "UNESCAPE": UNESCAPE}
        for number, _, chain in turns(list(CHAINS), 1, rounds):
            print(f"round {number + 1} of {rounds}: {chain}", file=sys.stderr, flush=True)
            folder = Path(temporary, chain)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            parts = {part: _measured(command, folder, variables) for part, command in CHAINS[chain].items()}
            times, cpu, memory = zip(*parts.values(), strict=True)
            seconds = {**dict(zip(parts, times, strict=True)), "all": sum(times)}
            if chain == "ours":
                seconds |= _seconds_of_parts(folder)
            result[chain].append({"seconds": seconds, "cpu": sum(cpu), "memory": max(memory)})
            for name, same in SAME.items() if result["plain"] and result["ours"] else ():
                if not filecmp.cmp(Path(temporary, "plain", name), Path(temporary, "ours", same), shallow=False):
                    raise UserError(f"the chains differ in {name}: their speed cannot be compared")
    return result


def _seconds_of_parts(folder: Path) -> dict[str, float]:
    """Return the seconds that our chain recorded, by the parts of the plain chain."""
    times = json.loads((folder / "times.json").read_text())
    times["learn words"] = times.pop("count words")
    return {part: sum(taken["seconds"] for name, taken in times.items() if name.startswith(part)) for part in PLAIN}


def table(result: dict[str, Any]) -> str:
    rows: list[tuple[str, ...]] = [("", "plain tools", "ours", "ratio (each round)")]

    def add(name: str, unit: str, *values: list[float]) -> None:
        ratios = [plain / ours for plain, ours in zip(*values, strict=True)]
        medians = (f"{statistics.median(each):,.1f} {unit}" for each in values)
        each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        rows.append((name, *medians, f"{statistics.median(ratios):.2f} ({each})"))

    chains = result["plain"], result["ours"]
    for part in (*PLAIN, "all"):
        add(part, "s", *([run["seconds"][part] for run in chain] for chain in chains))
    add("CPU time", "s", *([run["cpu"] for run in chain] for chain in chains))
    add("peak memory", "MiB", *([run["memory"] / 2**20 for run in chain] for chain in chains))
    return text_table(rows)


def _measured(command: str, folder: Path, variables: dict[str, Any]) -> tuple[float, float, int]:
    """Run a command in a folder; return its seconds, its CPU seconds, and the peak memory of its processes in bytes."""
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, **{name: str(value) for name, value in variables.items()}, "ROOT": str(root)}
    environment |= {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    before, begun, memory = os.times(), time.monotonic(), 0
    with tempfile.TemporaryFile("w+") as errors:
        shell = ["bash", "-euo", "pipefail", "-c", command]
        process = psutil.Popen(shell, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=errors)
        while process.poll() is None:
            with contextlib.suppress(psutil.Error):  # a process has just ended
                all_of_them = process, *process.children(recursive=True)
                memory = max(memory, sum(each.memory_full_info().pss for each in all_of_them))  # each shared page once
            time.sleep(PAUSE)
        if process.returncode:
            errors.seek(0)
            raise UserError(f"{command.split()[0]} failed: {(errors.read().strip() or 'no message').splitlines()[-1]}")
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.monotonic() - begun, cpu, memory


if __name__ == "__main__":
    with one_line_errors():
        main()
