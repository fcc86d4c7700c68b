"""How a ``Translator`` translates; importing this imports nothing else, for the command's help."""

from dataclasses import dataclass

from resmlp_mt.common.errors import UserError

TOO_LONG = "error", "split", "truncate"
MOST = {"beam": 1000, "n_best": 1000, "max_len_b": 100_000, "batch_tokens": 10_000_000}
NUMBERS = {"length_penalty": (-50, 50), "max_len_a": (0, 100_000)}  # a length to the power of 50 is still a number
THREADS = 1024
ENGINES = "pytorch", "compiled", "onnx"


@dataclass(frozen=True)
class Options:
    """How a ``Translator`` translates.

    Attributes:
        beam: width of the search; None: the folder's, or ``n_best`` if that is more
        n_best: translations of each text, at most ``beam``
        length_penalty: the score of T tokens, ``</s>`` included, is their log-probability / T ** this; None: the
            folder's
        max_len_a, max_len_b: a translation has at most ``a S + b`` tokens without its ``</s>``, where S counts those of
            the source with it; never more than the model's positions
        batch_tokens: source tokens of a batch, padding included
        too_long: a text of more tokens than the model has positions is an ``"error"``, is ``"split"`` into parts that
            are translated one by one, at the end of a sentence or of a word if there is one, or loses its end
            (``"truncate"``)
        alignment: tell what each token attended to, which takes some time
        shortlist: search among the target tokens that the folder's shortlist has for a text, if it has one

    Raises:
        UserError: a value that cannot be
    """

    beam: int | None = None
    n_best: int = 1
    length_penalty: float | None = None
    max_len_a: float = 0.0
    max_len_b: int = 200
    batch_tokens: int = 2048
    too_long: str = "error"
    alignment: bool = False
    shortlist: bool = True

    def __post_init__(self) -> None:
        for name, most in MOST.items():
            value = getattr(self, name)
            if not (name == "beam" and value is None) and (type(value) is not int or not 1 <= value <= most):
                raise UserError(f"{name} {value!r}: give a whole number from 1 to {most:,}")
        for name, (least, limit) in NUMBERS.items():
            value = getattr(self, name)
            given = value is not None or name != "length_penalty"
            if given and (type(value) not in (int, float) or not least <= value <= limit):
                raise UserError(f"{name} {value!r}: give a number from {least} to {limit:,}")
        for name in "alignment", "shortlist":
            if type(getattr(self, name)) is not bool:
                raise UserError(f"{name} {getattr(self, name)!r}: give True or False")
        if self.too_long not in TOO_LONG:
            raise UserError(f"too_long {self.too_long!r}: give one of {', '.join(TOO_LONG)}")
        if self.beam is not None and self.n_best > self.beam:
            raise UserError(f"n_best {self.n_best}: beam {self.beam} finds no more than {self.beam}: raise beam")
