"""The command ``benchmark``: from its options to measurements and their files."""

import argparse
import os
import re
import sys
from dataclasses import asdict, replace
from pathlib import Path

from resmlp_mt.common import matmul
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import write_json, write_whole
from resmlp_mt.common.workers import cores
from resmlp_mt.lab import machine
from resmlp_mt.lab.benchmarks import report
from resmlp_mt.lab.benchmarks.engines import quiet
from resmlp_mt.lab.benchmarks.systems import Comparison, Conditions, Shape, Size, System
from resmlp_mt.lab.benchmarks.workloads import generate, train
from resmlp_mt.lab.drawing import check_files

SIZES = {"base": Size(), "small": Size(width=256, mlp=512, layers=3, heads=4, vocabulary=4000)}
"""``base``: the paper's size with a smaller vocabulary; ``small``: the size for Multi30k."""
SMALL = SIZES["small"]


def systems(text: str) -> tuple[System, ...]:
    return tuple(map(System, text.split()))


def shapes(text: str) -> tuple[Shape, ...]:
    return tuple(map(Shape.parse, text.split()))


TWO = systems("resmlp_transformer transformer")
BY_ONEDNN = systems("resmlp_transformer@onednn transformer@onednn")
OTHERS = systems("lightconv dynamicconv fconv lstm")
LARGER_N = systems("resmlp_transformer:max_source_positions=1024,max_target_positions=1024")

FULL = (
    Comparison(TWO, shapes("24x8 24x32 24x128"), "training", "Training, by batch", warmup=2),
    Comparison(TWO + BY_ONEDNN, shapes("24x32"), "training", "Training, by library", rounds=5, warmup=2),
    Comparison(TWO, shapes("16x1 16x16 16x64"), "generation",
               "Generation by a small model, by batch", size=SMALL, sentences=64, rounds=5),
    Comparison(TWO, shapes("24x1 24x16 24x64"), "generation",
               "Generation by a base model, by batch", sentences=16, rounds=5),
    Comparison(TWO + LARGER_N, shapes("16x64 32x32 64x16 128x8 256x4"), "training", "Training, by length",
               rounds=5, warmup=2),
    Comparison(TWO + LARGER_N, shapes("16x8 32x8 64x8 128x8 256x8"), "generation",
               "Generation by a small model, by length", size=SMALL, sentences=8, rounds=5),
    Comparison(TWO + OTHERS, shapes("24x32"), "training", "Training, more architectures", rounds=5),
    Comparison(TWO + OTHERS, shapes("16x16"), "generation", "Generation by a small model, more architectures",
               size=SMALL, sentences=64, rounds=5),
)  # fmt: skip
"""Takes half an hour on two cores."""

QUICK = (
    Comparison(TWO + BY_ONEDNN, shapes("24x16"), "training", "Training", rounds=3),
    Comparison(TWO, shapes("16x1 16x32"), "generation", "Generation by a small model",
               size=SMALL, sentences=8, rounds=3, memory=False),
)  # fmt: skip
"""Takes a minute on two cores."""


def comparisons(args: argparse.Namespace) -> list[Comparison]:
    chosen = [each for each in (QUICK if args.quick else FULL) if args.what in ("all", each.kind)]
    if args.shapes:
        if args.what == "all":
            raise UserError("--shapes: say training or generation, not all")
        given = shapes(" ".join(args.shapes))
        chosen = [replace(chosen[0], title=args.what.capitalize(), shapes=given)]
    return [adapted(each, args) for each in chosen]


def adapted(comparison: Comparison, args: argparse.Namespace) -> Comparison:
    given = {name: value for name, value in vars(args).items() if value is not None}
    sizes = {name: given[name] for name in asdict(comparison.size) if name in given}
    threads = args.threads or cores()
    size, title = comparison.size, comparison.title
    if args.size and SIZES[args.size] != size:  # with it another comparison may differ by its shapes alone
        size = SIZES[args.size]
        title = re.sub("(base|small) (model.*)", rf"{args.size} \2, from {comparison.shapes[0]}", title)
    return replace(
        comparison,
        systems=tuple(map(System, args.system)) or comparison.systems,
        baseline=args.baseline or comparison.baseline,
        size=replace(size, **sizes),
        title=title,
        conditions=Conditions(args.device, args.fp16, threads, args.beam),
        memory=comparison.memory and not args.no_memory,
        **{name: given[name] for name in ("padding", "rounds", "warmup", "sentences") if name in given},
    )


def section_of(comparison: Comparison) -> report.Section:
    conditions = comparison.conditions
    settings = {name: str(value) for name, value in asdict(comparison.size).items()} | {
        "dtype": "fp16" if conditions.fp16 else "fp32",
        "padding": f"{comparison.padding:.0%}",
        "rounds": str(comparison.rounds),
    }
    if comparison.kind == "generation":
        settings |= {"beam": str(conditions.beam), "sentences": "random"}
    notes = []
    if any(system.library == "onednn" for system in comparison.systems):
        notes.append(f"fp32 products are by BLAS; where a name ends in @onednn, by {matmul.arithmetic()}.")
    if any("amp" in system.overrides for system in comparison.systems) and not matmul.has_bfloat16():
        notes.append("This processor has no bfloat16 arithmetic: systems with amp are trained in fp32.")
    described, kind = machine.describe(conditions.device, conditions.threads), comparison.kind
    lengths = {shape.length for shape in comparison.shapes}
    by = "length" if 1 < len(lengths) == len(comparison.shapes) else "sentences"
    return report.Section(comparison.title, kind, by, comparison.baseline, settings, described, notes)


def picture_of(title: str, args: argparse.Namespace) -> Path:
    return args.plots / f"{title.lower().replace(',', '').replace(' ', '-')}.png"


def check(chosen: list[Comparison], args: argparse.Namespace) -> None:
    """Check that the output files can be written, and that only architectures are compared."""
    outputs = [path for path in (args.json, args.markdown) if path is not None]
    outputs += [picture_of(each.title, args) for each in chosen if args.plots]
    check_files(outputs, (), "--plots" if args.plots else None)
    checkpoints = [system.name for each in chosen for system in each.systems if system.is_checkpoint]
    if checkpoints:
        raise UserError(f"{checkpoints[0]}: give an architecture; benchmark translate measures checkpoints")


def save(about: dict[str, str], sections: list[report.Section], args: argparse.Namespace) -> None:
    paths = [picture_of(section.title, args) for section in sections if args.plots]
    for section, path in zip(sections, paths, strict=False):
        report.draw(section, path)
    if args.json:
        write_json(args.json, {**about, "sections": [asdict(section) for section in sections]})
    if args.markdown:
        pictures = [os.path.relpath(each, args.markdown.parent) for each in paths]
        write_whole(args.markdown, report.as_markdown(about, sections, pictures))


def run(args: argparse.Namespace) -> None:
    quiet()
    about, sections = machine.made_by("resmlp-mt benchmark"), []
    chosen = comparisons(args)
    check(chosen, args)
    for comparison in chosen:
        comparison.conditions.apply()
        title, section = comparison.title, section_of(comparison)
        sections.append(section)
        for row in train(comparison) if comparison.kind == "training" else generate(comparison):
            section.rows.append(row)
            print(f"{title}: {row.workload} {row.system} {row.rate.median:,.0f} tokens/s", file=sys.stderr)
        print(f"{report.as_text(section)}\n", flush=True)
        save(about, sections, args)  # an interrupted run keeps what it has measured
