"""What ``benchmark`` does with its options."""

import argparse
import importlib.util
import os
import re
import shlex
import sys
from dataclasses import asdict, replace
from pathlib import Path

from resmlp_mt.common import matmul
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import atomic_write, check_can_be_written, check_outputs, write_json
from resmlp_mt.lab.benchmarks import machine, report
from resmlp_mt.lab.benchmarks.batches import Shape
from resmlp_mt.lab.benchmarks.comparison import Section
from resmlp_mt.lab.benchmarks.jobs import FULL, QUICK, SIZES, Job
from resmlp_mt.lab.benchmarks.processes import quiet
from resmlp_mt.lab.benchmarks.systems import Conditions, System


def has_ctranslate2() -> bool:
    return importlib.util.find_spec("ctranslate2") is not None


def jobs(args: argparse.Namespace) -> list[Job]:
    """The comparisons that the options ask for."""
    if args.profile and args.what == "workers":
        raise UserError("--profile is for training and generation: workers are other processes")
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
    if not args.system and not has_ctranslate2():
        systems = tuple(system for system in systems if not system.is_ctranslate2)
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
    names = {comparison.baseline if system.is_ctranslate2 else system.name for system in comparison.systems}
    size = {} if all(System(name).is_checkpoint for name in names) else asdict(comparison.size)
    settings = {
        **{name: str(value) for name, value in size.items()},
        "dtype": "fp16" if comparison.conditions.fp16 else "fp32",
        "padding": f"{comparison.padding:.0%}",
        "rounds": str(comparison.rounds),
    }
    if job.kind == "generation":
        if args.data:  # the text has its own
            settings = {name: value for name, value in settings.items() if name not in ("vocabulary", "padding")}
        settings |= {"beam": str(comparison.conditions.beam), "sentences": str(args.data or "random")}
    described = machine.describe(comparison.conditions.device, comparison.conditions.threads)
    baseline = "one process" if job.kind == "workers" else comparison.baseline
    section = Section(job.title, job.kind, job.by, baseline, settings, described)
    if job.kind == "generation" and not args.system and not has_ctranslate2():
        section.notes.append("CTranslate2 is not installed, and not compared.")
    if any(system.library == "onednn" for system in comparison.systems):
        arithmetic = "fp32" if matmul.exact() else "bfloat16"
        section.notes.append(f"fp32 products are BLAS's; where a name ends in @onednn, oneDNN's, here in {arithmetic}.")
    return section


def picture_of(title: str, args: argparse.Namespace) -> Path:
    """Where the picture of a section goes."""
    return Path(args.plots) / f"{title.lower().replace(',', '').replace(' ', '-')}.png"


def check_files(chosen: list[Job], args: argparse.Namespace) -> None:
    """See that what is to be written can be, over nothing that is read, and that checkpoints have their data."""
    outputs = [path for path in (args.json, args.markdown) if path is not None]
    outputs += [picture_of(job.title, args) for job in chosen if args.plots]
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
        from resmlp_mt.lab.benchmarks.plots import draw

        for section in run.sections:
            path = picture_of(section.title, args)
            draw(section, path)
            pictures.append(os.path.relpath(path, Path(args.markdown or ".").parent))
    if args.json:
        write_json(args.json, asdict(run))
    if args.markdown:
        with atomic_write(args.markdown) as stream:
            stream.write(report.as_markdown(run, pictures))


def run(args: argparse.Namespace) -> None:
    """Measure what the options ask for, and write it down."""
    quiet()
    if args.plots and not importlib.util.find_spec("matplotlib"):
        raise UserError("--plots needs matplotlib: pip install matplotlib")
    command = " ".join(["python", "scripts/benchmark.py", *map(shlex.quote, sys.argv[1:])])
    run = report.Run(command, machine.now(), [])
    chosen = jobs(args)
    check_files(chosen, args)
    for job in chosen:
        job.comparison.conditions.apply()
        section = section_of(job, args)
        run.sections.append(section)
        try:
            for row in job.run(args.data and str(args.data), args.split, args.processes):
                section.rows.append(row)
                print(f"{job.title}: {row.workload} {row.system} {row.rate.median:,.0f} tokens/s", file=sys.stderr)
        except (MemoryError, RuntimeError) as error:  # PyTorch raises RuntimeError: only the message tells
            if isinstance(error, RuntimeError) and not re.search("allocate memory|out of memory", str(error)):
                raise
            raise UserError(f"{job.title}: not enough memory: give smaller --shapes, or a smaller --size") from error
        print(f"{report.as_text(section)}\n", flush=True)
        save(run, args)  # a run that is broken off leaves what it has
