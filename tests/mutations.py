#!/usr/bin/env python3
"""Break the model on purpose, in one way at a time, and check that the tests fail for each.

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
    """A text that occurs once in a file of ``resmlp_mt``, its replacement, and the tests to run."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = "tests/nn", "tests/fairseq_plugin"


# fmt: off
MUTATIONS = [
    Mutation("padding is ignored in cross-attention", "nn/cross_attention.py",
             'masked_fill(padding, float("-inf"))', "masked_fill(padding, 0.0)"),
    Mutation("one position more than the limit is taken", "fairseq_plugin/encoder_decoder.py",
             "if length > limit:", "if length > limit + 1:"),
    Mutation("Aff's beta leaks from padding", "nn/layers.py",
             "zero_padding(self.pre_affine(x), padding)", "self.pre_affine(x)"),
    Mutation("the gated mixing's values leak from padding", "nn/gated_mixing.py",
             "zero_padding(values, padding)", "values"),
    Mutation("the band reads the wrong neighbours", "nn/gated_mixing.py",
             "[..., self.before : self.before + length]", "[..., self.before - 1 : self.before - 1 + length]"),
    Mutation("the band's weights are not of the position itself", "nn/gated_mixing.py",
             "self.predict(x).unflatten", "self.predict(x.roll(1, 0)).unflatten"),
    Mutation("A is not triangular", "nn/token_mixing.py",
             "return rows.tril(start) if self.causal and start + 1 < end else rows", "return rows"),
    Mutation("the relative term is off by one", "nn/token_mixing.py",
             "relative[..., positions - end : last]", "relative[..., positions - end + 1 : last + 1]"),
    Mutation("rows of the past are not reordered", "nn/memory.py",
             "self.tensors[1].index_select(0, order)", "self.tensors[1][: order.numel()]"),
    Mutation("a head's channels are another's", "nn/memory.py",
             "x = x.reshape(length, batch, heads, width).permute(2, 0, 1, 3)",
             "x = x.reshape(length, batch, width, heads).permute(3, 0, 1, 2)"),
    Mutation("folding leaves the row sums out", "nn/token_mixing.py",
             "offset = torch.addcmul(self.offset[end - steps : end, None], row_sums, self.row_sum_scale)",
             "offset = self.offset[end - steps : end, None] + 0 * row_sums"),
    Mutation("dropout does not scale", "nn/elementwise.py", " / (kept / _VALUES)", ""),
    Mutation("the gradient of alpha is halved", "nn/affine.py", "torch.addcmul(self.beta, x, self.alpha)",
             "torch.addcmul(self.beta, x, 0.5 * self.alpha + 0.5 * self.alpha.detach())"),
    Mutation("no gradient reaches the residual", "nn/layers.py",
             "return x + self.dropout(self.post_affine(y))", "return x.detach() + self.dropout(self.post_affine(y))"),
    Mutation("sources are not reordered", "nn/cross_attention.py", "each.index_select(0, sentences) for each",
             "each.index_select(0, sentences.sort().values - sentences.min()) for each"),
    Mutation("left padding stays where it is", "nn/encoder_decoder.py",
             "shift = padding.long().cumprod(1).sum(1)", "shift = padding.long().cumprod(1).sum(1) * 0"),
    Mutation("a buffer that grows keeps too little", "nn/memory.py",
             "buffer[:start] = full[:start]", "buffer[: start // 2] = full[: start // 2]"),
    Mutation("beams take another's rows when half of them are gone", "nn/memory.py",
             "buffer = self.all()", "buffer = self.all().roll(1, 1)"),
    Mutation("candidates of sentences that are left have another's weights", "nn/encoder_decoder.py",
             "self.weights[used], self.mask[used]", "self.weights[kept], self.mask[kept]"),
    Mutation("a state keeps candidates of sentences that are gone", "nn/encoder_decoder.py",
             "self.candidates = None if self.candidates is None else self.candidates.reorder(sentences)", "pass"),
    Mutation("a step of two positions counts as one", "nn/encoder_decoder.py",
             "state.length += tokens.size(1)", "state.length += 1"),
    Mutation("learned positions are off by one", "nn/positions.py",
             "self.weight[self.first + start : self.first + end]",
             "self.weight[self.first + start - 1 : self.first + end - 1]"),
    Mutation("sinusoidal positions are off by one", "nn/positions.py",
             "torch.arange(pad + 1, positions + pad + 1,", "torch.arange(pad, positions + pad,"),
    Mutation("folding leaves the relative term out", "nn/token_mixing.py",
             "self.weight.add_(by_distance(self.relative, self.max_positions, 0, self.max_positions))", "pass"),
    Mutation("folding leaves LayerNorm's beta out", "nn/affine.py",
             "affine.alpha, affine.beta = norm.weight, norm.bias", "affine.alpha = norm.weight"),
    Mutation("the gate is another position's", "nn/gated_mixing.py",
             "torch.sigmoid(gates) * mixed", "torch.sigmoid(gates.roll(1, 0)) * mixed"),
    Mutation("averages forget what is near", "nn/gated_mixing.py",
             "torch.exp(distances * F.logsigmoid", "torch.exp(distances.flip(0) * F.logsigmoid",
             ("tests/fairseq_plugin/test_promises.py::test_training_is_the_paper_s_equations[averages]",)),
    Mutation("the recurrence takes in what it should forget", "nn/recurrent_mixing.py",
             "new = (1 - forget) * zero_padding", "new = forget * zero_padding",
             ("tests/fairseq_plugin/test_promises.py::test_training_is_the_paper_s_equations[ssru]",)),
    Mutation("a dynamic convolution has no softmax", "nn/gated_mixing.py",
             "torch.softmax(weights, -1) if self.softmax", "weights if self.softmax",
             ("tests/fairseq_plugin/test_promises.py::test_training_is_the_paper_s_equations[dynamic]",)),
    Mutation("the synthesizer reads the next position", "nn/content_mixing.py",
             ".triu(end - steps + 1)", ".triu(end - steps + 2)",
             ("tests/fairseq_plugin/test_promises.py::test_no_position_sees_a_later_one[synthesizer]",)),
    Mutation("every layer has the first one's mixing", "nn/config.py", "kinds[number % len(kinds)]", "kinds[0]",
             ("tests/fairseq_plugin/test_promises.py::test_training_is_the_paper_s_equations[mixed]",)),
    Mutation("hidden units of padding are read by the MLP mixing", "nn/mlp_mixing.py",
             "zero_padding(self.hidden(x), padding)", "self.hidden(x)"),
    Mutation("a step of a convolution reads one input too few", "nn/convolution.py",
             "window = window[memory.positions - x.size(0) :]",
             "window = F.pad(window[memory.positions - x.size(0) + 1 :], [0, 0, 0, 0, 1, 0])"),
    Mutation("beams share the source of the wrong sentence after reordering", "fairseq_plugin/encoder_decoder.py",
             "sentences = sentences[::beams]", "sentences = sentences[::beams].roll(1)"),
    Mutation("the encoder's output stays where padding was moved away", "fairseq_plugin/encoder_decoder.py",
             "restore_padding(x.transpose(0, 1), shift,", "restore_padding(x.transpose(0, 1), shift * 0,"),
    Mutation("the average weighs the last checkpoint twice", "fairseq_plugin/trained.py",
             "model[name].copy_(total.div_(len(paths)))",
             "model[name].copy_(total.add_(model[name]).div_(len(paths) + 1))"),
    Mutation("a sentence without a word is translated", "fairseq_plugin/task.py",
             "empty = tokens.ne(self.src_dict.pad()).sum(1) <= 1", "empty = tokens.ne(self.src_dict.pad()).sum(1) <= 0",
             ("tests/end_to_end/test_translating.py",)),
    Mutation("weights that are not finite are saved", "fairseq_plugin/trainer.py",
             "if not torch.isfinite(weight).all():", "if not torch.isfinite(weight).any():", ("tests/fairseq_plugin",)),
    Mutation("the search does not give beams the state of those that they continue", "translate/search.py",
             "state.reorder(chosen, left)", "state.reorder(chosen.sort().values, left)",
             ("tests/translate/test_search.py",)),
    Mutation("a forced term may begin within a word", "translate/constraints.py",
             "return not (within_word(self.texts[previous][-1]) and within_word(self.texts[token][0]))", "return True",
             ("tests/translate/test_constraints.py",)),
    Mutation("beams do not keep what they have said", "translate/constraints.py",
             "[row[place] for place in places]", "row[: len(places)]", ("tests/translate/test_constraints.py",)),
    Mutation("the compiled step takes the positions for fewer", "translate/compiling.py",
             "State(sources, memories, length, scorer)", "State(sources, memories, length // 2, scorer)",
             ("tests/translate/test_compiled.py::test_what_is_compiled_computes_what_every_kind_of_model_does",)),
    Mutation("a weight is exported transposed", "translate/model_folder.py", "parameter.detach().float().contiguous()",
             '(parameter.t() if "k_proj.weight" in name else parameter).detach().float().contiguous()',
             ("tests/translate/test_model_folder.py", "tests/export")),
]
# fmt: on


def is_caught(mutation: Mutation) -> bool:
    """Return whether a test fails for the broken model; its tests are run in order until one fails."""
    with tempfile.TemporaryDirectory() as folder:
        for name in "resmlp_mt", "tests", "scripts", "examples":
            shutil.copytree(ROOT / name, Path(folder, name))
        shutil.copy(ROOT / "pyproject.toml", folder)
        path = Path(folder, "resmlp_mt", mutation.file)
        path.write_text(path.read_text(encoding="utf-8").replace(mutation.old, mutation.new), encoding="utf-8")
        for tests in mutation.tests:
            command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", tests]
            environment = {**os.environ, "PYTHONPATH": folder}
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
            failed = [line for line in done.stdout.split("\n") if line.startswith("FAILED")]  # an ERROR does not count
            if done.returncode != 0 and not failed:
                sys.exit(f"{mutation.name}: the tests did not run:\n{done.stdout}{done.stderr}")
            if failed:
                print(f"caught: {mutation.name}: {failed[0][:150]}", flush=True)
                return True
        print(f"NOT CAUGHT: {mutation.name}", flush=True)
        return False


def main() -> None:
    chosen = [each for each in MUTATIONS if not sys.argv[1:] or sys.argv[1] in each.name]
    caught = [is_caught(mutation) for mutation in chosen]
    print(f"{sum(caught)} of {len(caught)} caught")
    sys.exit(0 if all(caught) else 1)


if __name__ == "__main__":
    main()
