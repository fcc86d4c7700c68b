"""Compare the speed and memory of fairseq architectures of one size, in training and in generation."""

import argparse
import datetime
import importlib.util
import os
import re
import shlex
import sys
from dataclasses import asdict, replace
from pathlib import Path

from resmlp_mt.benchmarks import machine, report
from resmlp_mt.benchmarks.batches import Shape
from resmlp_mt.benchmarks.comparison import Section
from resmlp_mt.benchmarks.generation import RealText
from resmlp_mt.benchmarks.jobs import FULL, QUICK, SIZES, Job
from resmlp_mt.benchmarks.processes import quiet
from resmlp_mt.benchmarks.systems import Conditions, System
from resmlp_mt.commands.arguments import command_parser, positive
from resmlp_mt.errors import UserError
from resmlp_mt.files import atomic_write, check_can_be_written, check_outputs, write_json
from resmlp_mt.modules import matmul

EPILOG = """
systems:
  resmlp_transformer                              an architecture, untrained, of the size that all have
  resmlp_transformer:layerscale_init=0.1,dropout=0.2
                                                  with options of fairseq-train
  transformer@onednn, resmlp_transformer@onednn:dropout=0.2
                                                  fp32 matrices multiplied by oneDNN in the place of BLAS
  checkpoint.pt, checkpoint.pt:option=value       a trained model, in generation with --data; --model-overrides
  ctranslate2:compute_type=int8                   the baseline through CTranslate2, where it is installed

examples:
  python scripts/benchmark.py all --quick
  python scripts/benchmark.py all --markdown BENCHMARKS.md --plots examples/benchmarks
  python scripts/benchmark.py training --shapes 24x32 --system resmlp_transformer --system transformer --threads 2
  python scripts/benchmark.py training --device cuda --fp16 --shapes 32x256 --vocabulary 32000
  python scripts/benchmark.py generation --data work/multi30k/data-bin --system resmlp.pt --system transformer.pt \\
    --baseline transformer.pt --system ctranslate2:compute_type=int8 --sentences 256
"""


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG)
    parser.add_argument("what", choices=["training", "generation", "workers", "all"])
    parser.add_argument("--quick", action="store_true", help="a minute in the place of half an hour")
    parser.add_argument("--system", action="append", metavar="NAME", help="what to compare, in the place of the usual")
    parser.add_argument("--baseline", metavar="NAME", help="the system that the others are compared with (transformer)")
    parser.add_argument(
        "--shapes",
        nargs="+",
        metavar="LENGTHxSENTENCES",
        help="batches, such as 24x32, lengths in subwords with </s>; one comparison in the place of several",
    )
    size = parser.add_argument_group("size of the models")
    size.add_argument("--size", choices=SIZES, help="; ".join(f"{name}: {size}" for name, size in SIZES.items()))
    for name, most in MOST.items():
        size.add_argument(f"--{name}", type=positive(most, 5 if name == "vocabulary" else 1), metavar="N")
    conditions = parser.add_argument_group("conditions")
    conditions.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="cuda has not been tried yet")
    conditions.add_argument("--fp16", action="store_true", help="on CUDA")
    conditions.add_argument("--threads", type=positive(1000), metavar="N", help="of a process (cores; 1 for workers)")
    conditions.add_argument("--beam", type=positive(1000), default=4, metavar="N")
    conditions.add_argument("--padding", type=fraction, metavar="X", help="part of a batch that is padding (0.1)")
    conditions.add_argument("--rounds", type=positive(1000), metavar="N", help="how often each is timed")
    conditions.add_argument("--warmup", type=positive(1000), metavar="N", help="rounds before that")
    conditions.add_argument("--no-memory", action="store_true", help="time alone")
    conditions.add_argument(
        "--profile", action="store_true", help="also show where the time goes, by PyTorch operation"
    )
    conditions.add_argument("--processes", type=positive(100), default=2, metavar="N", help="of workers")
    text = parser.add_argument_group("sentences to translate, random ones unless given")
    text.add_argument("--data", metavar="FOLDER", help="what fairseq-preprocess made, with a joined dictionary")
    text.add_argument("--split", default="test")
    text.add_argument("--sentences", type=positive(10**6), metavar="N", help="how many, at least")
    output = parser.add_argument_group("output, beside the tables")
    output.add_argument("--json", metavar="FILE")
    output.add_argument("--markdown", metavar="FILE")
    output.add_argument("--plots", metavar="FOLDER", help="PNG files; needs matplotlib")
    return parser


MOST = {"width": 1 << 16, "mlp": 1 << 18, "layers": 1000, "heads": 1000, "vocabulary": 1 << 20}
"""Sizes beyond which a model is a slip of the hand."""


def fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < 0.5:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 0.5")
    return value


def jobs(args: argparse.Namespace) -> list[Job]:
    """The comparisons that the options ask for."""
    chosen = [job for job in (QUICK if args.quick else FULL) if args.what in ("all", job.kind)]
    if args.data:  # the text decides the lengths
        chosen = [job for job in chosen if job.kind != "generation" or job.by != "length"]
    if args.shapes:
        if args.what == "all":
            raise UserError("--shapes: say training, generation or workers, not all")
        shapes = tuple(map(Shape.parse, args.shapes))
        by = "length" if len({shape.length for shape in shapes}) > 1 and not args.data else "sentences"
        chosen = [replace(chosen[0], title=args.what.capitalize(), by=by, shapes=shapes)]
    return [adapted(job, args) for job in chosen]


def adapted(job: Job, args: argparse.Namespace) -> Job:
    """A job as the options change it."""
    comparison, given = job.comparison, {name: value for name, value in vars(args).items() if value is not None}
    size = replace(
        SIZES[args.size] if args.size else comparison.size,
        **{name: given[name] for name in ("width", "mlp", "layers", "heads", "vocabulary") if name in given},
    )
    threads = args.threads or (1 if job.kind == "workers" else len(os.sched_getaffinity(0)))
    systems = tuple(map(System, args.system)) if args.system else comparison.systems
    # for workers, every system is compared with itself
    baseline = systems[0].name if job.kind == "workers" else args.baseline or comparison.baseline
    if not args.system and not importlib.util.find_spec("ctranslate2"):
        systems = tuple(system for system in systems if system.arch != "ctranslate2")
    comparison = replace(
        comparison,
        systems=systems,
        baseline=baseline,
        size=size,
        conditions=Conditions(args.device, args.fp16, threads, args.beam),
        memory=comparison.memory and not args.no_memory,
        profile=args.profile,
        **{name: given[name] for name in ("padding", "rounds", "warmup", "sentences") if name in given},
    )
    return replace(job, comparison=comparison)


def section_of(job: Job, args: argparse.Namespace) -> Section:
    """The section to fill."""
    comparison = job.comparison
    settings = {
        **{name: str(value) for name, value in asdict(comparison.size).items()},
        "dtype": "fp16" if comparison.conditions.fp16 else "fp32",
        "padding": f"{comparison.padding:.0%}",
        "rounds": str(comparison.rounds),
    }
    if job.kind == "generation":
        settings |= {"beam": str(comparison.conditions.beam), "sentences": args.data or "random"}
    described = machine.describe(comparison.conditions.device, comparison.conditions.threads)
    baseline = "one process" if job.kind == "workers" else comparison.baseline
    section = Section(job.title, job.kind, job.by, baseline, settings, described)
    if job.kind == "generation" and not args.system and not importlib.util.find_spec("ctranslate2"):
        section.notes.append("CTranslate2 is not installed, and not compared.")
    if any(system.library == "onednn" for system in comparison.systems):
        arithmetic = "fp32" if matmul.exact() else "bfloat16"
        section.notes.append(f"fp32 products are BLAS's; where a name ends in @onednn, oneDNN's, here in {arithmetic}.")
    return section


def picture_of(job: Job | Section, args: argparse.Namespace) -> Path:
    """Where the picture of a section goes."""
    return Path(args.plots) / f"{job.title.lower().replace(',', '').replace(' ', '-')}.png"


def check_files(chosen: list[Job], args: argparse.Namespace) -> None:
    """See that no file is written over what is read, nor over another one."""
    if args.plots and not Path(args.plots).is_dir() and os.path.lexists(args.plots):
        raise UserError(f"--plots {args.plots}: is not a folder: choose another name")
    outputs = [path for path in (args.json, args.markdown) if path is not None]
    outputs += [picture_of(job, args) for job in chosen if args.plots]
    if len(set(map(os.path.realpath, outputs))) < len(outputs):
        raise UserError(f"{', '.join(map(str, outputs))}: a file comes twice: give each a name of its own")
    for path in outputs:
        check_can_be_written(path)
    systems = [system for job in chosen for system in (*job.comparison.systems, System(job.comparison.baseline))]
    checkpoints = [system.arch for system in systems if system.is_checkpoint]
    check_outputs(outputs, [*checkpoints, *(Path(args.data).glob("*") if args.data else ())])
    if checkpoints and not args.data and any(job.kind == "generation" for job in chosen):
        raise UserError(f"{checkpoints[0]}: give --data, the folder that fairseq-preprocess made for its training")


def save(run: report.Run, args: argparse.Namespace) -> None:
    """Write the files that the options ask for."""
    pictures = []
    if args.plots:
        from resmlp_mt.benchmarks.plots import draw

        for section in run.sections:
            path = picture_of(section, args)
            draw(section, path)
            pictures.append(os.path.relpath(path, Path(args.markdown or ".").parent))
    if args.json:
        write_json(args.json, run.as_json())
    if args.markdown:
        with atomic_write(args.markdown) as stream:
            stream.write(report.as_markdown(run, pictures))


def main() -> None:
    quiet()
    args = get_parser().parse_args()
    if args.data == "":
        raise UserError("--data '': give the folder that fairseq-preprocess made")
    if args.plots and not importlib.util.find_spec("matplotlib"):
        raise UserError("--plots needs matplotlib: pip install matplotlib")
    text = RealText(args.data, args.split) if args.data else None
    command = " ".join(["python", "scripts/benchmark.py", *map(shlex.quote, sys.argv[1:])])
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    run = report.Run(command, now, [])
    chosen = jobs(args)
    check_files(chosen, args)
    for job in chosen:
        job.comparison.conditions.apply()
        section = section_of(job, args)
        run.sections.append(section)
        try:
            for row in job.run(text, args.processes):
                section.rows.append(row)
                print(f"{job.title}: {row.workload} {row.system} {row.rate.median:,.0f} tokens/s", file=sys.stderr)
        except (MemoryError, RuntimeError) as error:  # PyTorch raises RuntimeError: only the message tells
            if isinstance(error, RuntimeError) and not re.search("allocate memory|out of memory", str(error)):
                raise
            raise UserError(f"{job.title}: not enough memory: give smaller --shapes, or a smaller --size") from error
        print(f"{report.as_text(section)}\n", flush=True)
        save(run, args)  # a run that is broken off leaves what it has
