"""The comparisons that the benchmark makes, in full and in a minute."""

from collections.abc import Iterator
from dataclasses import dataclass

from resmlp_mt.lab.benchmarks.batches import Shape
from resmlp_mt.lab.benchmarks.comparison import Comparison, Measurement
from resmlp_mt.lab.benchmarks.generation import generate
from resmlp_mt.lab.benchmarks.systems import Size, System
from resmlp_mt.lab.benchmarks.training import train, train_together

SIZES = {"base": Size(), "small": Size(width=256, mlp=512, layers=3, heads=4, vocabulary=4000)}
"""The paper's, with a smaller vocabulary; Multi30k's."""

TWO = (System("resmlp_transformer"), System("transformer"))
BY_ONEDNN = (System("resmlp_transformer@onednn"), System("transformer@onednn"))
OTHERS = (System("lightconv"), System("fconv"), System("lstm"))
LARGER_N = (System("resmlp_transformer:max_source_positions=1024,max_target_positions=1024"),)
REDUCED = (
    System("resmlp_transformer:inference_precision=bf16"),
    System("resmlp_transformer:inference_precision=int8"),
)
CTRANSLATE2 = (System("ctranslate2:compute_type=float32"), System("ctranslate2:compute_type=int8"))


@dataclass(frozen=True)
class Job:
    """A section of the report.

    Args:
        kind: ``training``, ``generation`` or ``workers``
        by: what changes from shape to shape: ``length`` or ``sentences``
    """

    kind: str
    title: str
    by: str
    shapes: tuple[Shape, ...]
    comparison: Comparison

    def run(self, data: str | None = None, split: str = "test", processes: int = 2) -> Iterator[Measurement]:
        """Measure, row by row; generation takes sentences of ``data``, workers are so many processes."""
        if self.kind == "training":
            return train(self.comparison, self.shapes)
        if self.kind == "generation":
            return generate(self.comparison, self.shapes, data, split)
        return train_together(self.comparison, self.shapes, processes)


def shapes(text: str) -> tuple[Shape, ...]:
    return tuple(map(Shape.parse, text.split()))


FULL = (
    Job("training", "Training, by batch", "sentences", shapes("24x8 24x32 24x128"), Comparison(TWO, warmup=2)),
    Job("training", "Training, by library", "sentences", shapes("24x32"),
        Comparison(TWO + BY_ONEDNN, rounds=5, warmup=2)),
    Job("generation", "Generation by a small model, by batch", "sentences", shapes("16x1 16x16 16x64"),
        Comparison(TWO + REDUCED + CTRANSLATE2, size=SIZES["small"], sentences=64, rounds=5)),
    Job("generation", "Generation by a base model, by batch", "sentences", shapes("24x1 24x16 24x64"),
        Comparison(TWO + REDUCED + CTRANSLATE2, sentences=16, rounds=5)),
    Job("training", "Training, by length", "length", shapes("16x64 32x32 64x16 128x8 256x4"),
        Comparison(TWO + LARGER_N, rounds=5, warmup=2)),
    Job("workers", "Two processes in training", "sentences", shapes("24x32"), Comparison(TWO, memory=False, rounds=5)),
    Job("generation", "Generation by a small model, by length", "length", shapes("16x8 32x8 64x8 128x8 256x8"),
        Comparison(TWO + REDUCED + LARGER_N + CTRANSLATE2, size=SIZES["small"], sentences=8, rounds=5)),
    Job("training", "Training, more architectures", "sentences", shapes("24x32"), Comparison(TWO + OTHERS, rounds=5)),
    Job("generation", "Generation by a small model, more architectures", "sentences", shapes("16x16"),
        Comparison(TWO + OTHERS, size=SIZES["small"], sentences=64, rounds=5)),
)  # fmt: skip
"""Half an hour on two cores."""

QUICK = (
    Job("training", "Training", "sentences", shapes("24x16"), Comparison(TWO + BY_ONEDNN, rounds=3)),
    Job("generation", "Generation by a small model", "sentences", shapes("16x1 16x32"),
        Comparison(TWO + REDUCED + CTRANSLATE2, size=SIZES["small"], sentences=8, rounds=3, memory=False)),
    Job("workers", "Two processes in training", "sentences", shapes("16x8"),
        Comparison(TWO, size=SIZES["small"], memory=False, rounds=2)),
)  # fmt: skip
"""A minute on two cores."""
