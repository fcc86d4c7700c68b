"""The options of a ``Translator``; imports neither PyTorch nor the model."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.options import Checked, option

TOO_LONG = "error", "split", "truncate"
ALIGNMENTS = "attention", "omission"
PRECISIONS = "fp32", "bf16", "int8"
ENGINES = "pytorch", "compiled", "onnx"


@dataclass(frozen=True)
class Options(Checked):
    """How a ``Translator`` translates."""

    beam: int | None = option(None, "beam size (default: the folder's)", least=1, most=1000)
    n_best: int = option(1, "number of translations of each text, at most the beam size", least=1, most=1000)
    length_penalty: float | None = option(
        None,
        "score = log-probability / T ** this, for T tokens with </s> (default: the folder's)",
        least=-50,
        most=50,  # a length to the power of 50 is still finite
    )
    max_len_a: float = option(
        0.0, "a text of S tokens, </s> included, gets at most A S + B tokens; this is A", least=0, most=100_000
    )
    max_len_b: int = option(200, "the B of max_len_a", least=1, most=100_000)
    batch_tokens: int | None = option(
        None,
        "source tokens of a batch, padding included (default: 2048, with engine compiled 512, which is faster there)",
        least=1,
        most=10_000_000,
    )
    too_long: str = option(
        "error",
        "what to do with a text of more tokens than the model takes: stop with an error, split it at the end of a "
        "sentence or a word, or cut its end off",
        choices=TOO_LONG,
    )
    alignment: bool = option(False, "also give what each token of the translation attends to")
    alignment_by: str = option(
        "attention",
        "attention: alignments are the cross-attention; omission: how much less likely a token gets without each "
        "source token. omission is more accurate and slower (one more scoring a source token); documents use it",
        choices=ALIGNMENTS,
    )
    shortlist: bool = option(True, "use the folder's shortlist, if it has one")
    prefix: str | None = option(None, "every translation begins with this text, unchanged", metavar="TEXT")
    glossary: tuple[tuple[str, ...], ...] = option(
        (),
        "file of terms, one a line: a source term, a tab, its translation, or several forms of that with tabs "
        "between. Where the source has the term, the translation has one of the forms",
        metavar="FILE",
    )
    avoid: tuple[str, ...] = option((), "words or phrases that no translation may contain", metavar="WORD")

    def __post_init__(self) -> None:
        glossary: Any = self.glossary
        avoid: Any = self.avoid
        try:
            if isinstance(glossary, Mapping):
                glossary = [(term, *([forms] if isinstance(forms, str) else forms)) for term, forms in glossary.items()]
            glossary = tuple(map(tuple, glossary))
        except TypeError:  # no list of lists
            glossary = ((),)
        if any(len(row) < 2 or not all(isinstance(each, str) for each in row) for row in glossary):
            raise UserError("glossary: give for each source term a target term, or a list of its forms")
        avoid = avoid if isinstance(avoid, str) or not isinstance(avoid, Iterable) else tuple(avoid)
        if not (isinstance(avoid, tuple) and all(isinstance(each, str) for each in avoid)):
            raise UserError(f"avoid {avoid!r:.60}: give a list of str")
        object.__setattr__(self, "glossary", glossary)
        object.__setattr__(self, "avoid", avoid)
        super().__post_init__()
        if self.beam is not None and self.n_best > self.beam:
            raise UserError(f"n_best {self.n_best}: beam {self.beam} finds no more than {self.beam}: raise beam")


@dataclass(frozen=True)
class EngineOptions(Checked):
    """Where and how a ``Translator`` computes."""

    threads: int | None = option(None, "CPU threads (default: PyTorch's own choice)", least=1, most=1024)
    device: str = option("cpu", "PyTorch device, such as cuda")
    precision: str = option("fp32", "bf16 and int8, for a CPU: faster with AVX-512, nearly as good", choices=PRECISIONS)
    engine: str = option(
        "pytorch",
        "compiled: code that PyTorch compiles for this processor, in some minutes the first time, and keeps in "
        "~/.cache/resmlp_mt; onnx: ONNX Runtime with the graphs that resmlp-mt export onnx wrote into FOLDER/onnx",
        choices=ENGINES,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        on_cpu = self.device.split(":")[0] == "cpu"
        if not on_cpu and (self.engine != "pytorch" or self.precision != "fp32"):
            raise UserError(f"engine {self.engine} and {self.precision}: are for the device cpu, not {self.device}")
        if self.engine == "onnx" and self.precision != "fp32":
            raise UserError(f"engine onnx: computes in fp32, not {self.precision}")
