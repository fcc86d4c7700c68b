"""The comparisons that the benchmark makes, in full and in a minute."""

from resmlp_mt.lab.benchmarks.batches import Shape
from resmlp_mt.lab.benchmarks.comparison import Comparison
from resmlp_mt.lab.benchmarks.systems import Size, System

SIZES = {"base": Size(), "small": Size(width=256, mlp=512, layers=3, heads=4, vocabulary=4000)}
"""The paper's, with a smaller vocabulary; Multi30k's."""
SMALL = SIZES["small"]


def systems(text: str) -> tuple[System, ...]:
    return tuple(map(System, text.split()))


def shapes(text: str) -> tuple[Shape, ...]:
    return tuple(map(Shape.parse, text.split()))


TWO = systems("resmlp_transformer transformer")
BY_ONEDNN = systems("resmlp_transformer@onednn transformer@onednn")
OTHERS = systems("lightconv fconv lstm")
LARGER_N = systems("resmlp_transformer:max_source_positions=1024,max_target_positions=1024")
REDUCED = systems("resmlp_transformer:inference_precision=bf16 resmlp_transformer:inference_precision=int8")
CTRANSLATE2 = systems("ctranslate2:compute_type=float32 ctranslate2:compute_type=int8")

FULL = (
    Comparison(TWO, shapes("24x8 24x32 24x128"), "training", "Training, by batch", warmup=2),
    Comparison(TWO + BY_ONEDNN, shapes("24x32"), "training", "Training, by library", rounds=5, warmup=2),
    Comparison(TWO + REDUCED + CTRANSLATE2, shapes("16x1 16x16 16x64"), "generation",
               "Generation by a small model, by batch", size=SMALL, sentences=64, rounds=5),
    Comparison(TWO + REDUCED + CTRANSLATE2, shapes("24x1 24x16 24x64"), "generation",
               "Generation by a base model, by batch", sentences=16, rounds=5),
    Comparison(TWO + LARGER_N, shapes("16x64 32x32 64x16 128x8 256x4"), "training", "Training, by length", "length",
               rounds=5, warmup=2),
    Comparison(TWO, shapes("24x32"), "workers", "Two processes in training", memory=False, rounds=5),
    Comparison(TWO + REDUCED + LARGER_N + CTRANSLATE2, shapes("16x8 32x8 64x8 128x8 256x8"), "generation",
               "Generation by a small model, by length", "length", size=SMALL, sentences=8, rounds=5),
    Comparison(TWO + OTHERS, shapes("24x32"), "training", "Training, more architectures", rounds=5),
    Comparison(TWO + OTHERS, shapes("16x16"), "generation", "Generation by a small model, more architectures",
               size=SMALL, sentences=64, rounds=5),
)  # fmt: skip
"""Half an hour on two cores."""

QUICK = (
    Comparison(TWO + BY_ONEDNN, shapes("24x16"), "training", "Training", rounds=3),
    Comparison(TWO + REDUCED + CTRANSLATE2, shapes("16x1 16x32"), "generation", "Generation by a small model",
               size=SMALL, sentences=8, rounds=3, memory=False),
    Comparison(TWO, shapes("16x8"), "workers", "Two processes in training", size=SMALL, memory=False, rounds=2),
)  # fmt: skip
"""A minute on two cores."""
