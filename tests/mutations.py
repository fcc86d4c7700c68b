#!/usr/bin/env python3
"""Break the layers on purpose, in one way after the other, and see the tests of modules and models fail for each.

    python tests/mutations.py            every way; minutes
    python tests/mutations.py beta       the ways whose name holds "beta"

Works on a copy of the checkout; exit status 1 if a broken model passed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Mutation:
    """A text that a file of ``resmlp_mt`` holds once, and what stands there instead."""

    name: str
    file: str
    old: str
    new: str


MUTATIONS = [
    Mutation(
        "padding is ignored in cross-attention",
        "nn/cross_attention.py",
        'mask.masked_fill(padding, float("-inf"))',
        "mask.masked_fill(padding, 0.0)",
    ),
    Mutation(
        "Aff's beta leaks from padding",
        "nn/layers.py",
        "zero_padding(self.pre_affine(x), padding)",
        "self.pre_affine(x)",
    ),
    Mutation(
        "the gated mixing's values leak from padding",
        "nn/gated_mixing.py",
        "zero_padding(values, padding)",
        "values",
    ),
    Mutation(
        "the band reads the wrong neighbours",
        "nn/band.py",
        "[..., self.before : self.before + length]",
        "[..., self.before - 1 : self.before - 1 + length]",
    ),
    Mutation(
        "the band's weights are not of the position itself",
        "nn/band.py",
        "self.dropout(self.predict(x)).unflatten",
        "self.dropout(self.predict(x.roll(1, 0))).unflatten",
    ),
    Mutation(
        "A is not triangular",
        "nn/token_mixing.py",
        "return rows.tril(start) if self.causal and start + 1 < end else rows",
        "return rows",
    ),
    Mutation(
        "the relative term is off by one",
        "nn/token_mixing.py",
        "relative[..., positions - end : last]",
        "relative[..., positions - end + 1 : last + 1]",
    ),
    Mutation(
        "rows of the past are not reordered",
        "nn/memory.py",
        "self.tensors[1].index_select(0, order)",
        "self.tensors[1][: order.numel()]",
    ),
    Mutation(
        "a head's channels are another's",
        "nn/memory.py",
        "x = x.reshape(length, batch, heads, width).permute(2, 0, 1, 3)",
        "x = x.reshape(length, batch, width, heads).permute(3, 0, 1, 2)",
    ),
    Mutation(
        "folding leaves the row sums out",
        "nn/token_mixing.py",
        "offset = torch.addcmul(self.offset[end - steps : end, None], row_sums, self.row_sum_scale)",
        "offset = self.offset[end - steps : end, None] + 0 * row_sums",
    ),
    Mutation("dropout does not scale", "nn/dropout.py", " / (kept / _VALUES)", ""),
    Mutation(
        "the gradient of alpha is halved",
        "nn/affine.py",
        "torch.addcmul(self.beta, x, self.alpha)",
        "torch.addcmul(self.beta, x, 0.5 * self.alpha + 0.5 * self.alpha.detach())",
    ),
    Mutation(
        "no gradient reaches the residual",
        "nn/layers.py",
        "return x + self.dropout(self.post_affine(y))",
        "return x.detach() + self.dropout(self.post_affine(y))",
    ),
    Mutation(
        "sources are not reordered",
        "nn/cross_attention.py",
        "each.index_select(0, sentences) for each",
        "each.index_select(0, sentences.sort().values - sentences.min()) for each",
    ),
    Mutation(
        "left padding stays where it is",
        "nn/encoder_decoder.py",
        "shift = padding.long().cumprod(1).sum(1)",
        "shift = padding.long().cumprod(1).sum(1) * 0",
    ),
    Mutation(
        "hidden units of padding are read by the MLP mixing",
        "nn/mlp_token_mixing.py",
        "zero_padding(self.hidden(x), padding)",
        "self.hidden(x)",
    ),
    Mutation(
        "a step of a convolution reads one input too few",
        "nn/convolution.py",
        "window = window[memory.positions - x.size(0) :]",
        "window = F.pad(window[memory.positions - x.size(0) + 1 :], [0, 0, 0, 0, 1, 0])",
    ),
    Mutation(
        "beams share the source of the wrong sentence after reordering",
        "fairseq_plugin/decoder.py",
        "sentences = sentences[::beams]",
        "sentences = sentences[::beams].roll(1)",
    ),
    Mutation(
        "the encoder's output stays where padding was moved away",
        "fairseq_plugin/encoder.py",
        "moved = (restore_padding(state.transpose(0, 1), shift, length) for state in states)",
        "moved = (restore_padding(state.transpose(0, 1), shift * 0, length) for state in states)",
    ),
    Mutation(
        "the average weighs the last checkpoint twice",
        "fairseq_plugin/checkpoints/averaging.py",
        "model[name].copy_(total.div_(len(paths)))",
        "model[name].copy_(total.add_(model[name]).div_(len(paths) + 1))",
    ),
]


def is_caught(mutation: Mutation) -> bool:
    """Whether a test fails for the broken model."""
    with tempfile.TemporaryDirectory() as folder:
        for name in "resmlp_mt", "tests":
            shutil.copytree(ROOT / name, Path(folder, name))
        shutil.copy(ROOT / "pyproject.toml", folder)
        path = Path(folder, "resmlp_mt", mutation.file)
        text = path.read_text(encoding="utf-8")
        if text.count(mutation.old) != 1:
            sys.exit(f"{mutation.name}: {mutation.file} does not hold once: {mutation.old}")
        path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            "tests/nn",
            "tests/fairseq_plugin",
        ]
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, "PYTHONPATH": folder}, capture_output=True, text=True
        )
        failed = [line for line in done.stdout.split("\n") if line.startswith("FAILED")]  # an ERROR is no catch
        if done.returncode != 0 and not failed:
            sys.exit(f"{mutation.name}: the tests did not run:\n{done.stdout}{done.stderr}")
        print(f"{'caught' if failed else 'NOT CAUGHT'}: {mutation.name}: {' '.join(failed)[:150]}", flush=True)
        return bool(failed)


def main() -> None:
    chosen = [each for each in MUTATIONS if not sys.argv[1:] or sys.argv[1] in each.name]
    caught = [is_caught(mutation) for mutation in chosen]
    print(f"{sum(caught)} of {len(caught)} caught")
    sys.exit(0 if all(caught) else 1)


if __name__ == "__main__":
    main()
