"""fairseq's checkpoints: loaded as data and never as code, compared with a model, written.

A file is refused if it names a type that no checkpoint of fairseq needs. Then PyTorch loads it with
``weights_only=True``. Options become plain values, which fairseq neither runs as Python nor opens as files.
"""

import ast
import hashlib
import io
import pickletools
import re
import zipfile
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import IO, Any

import numpy as np
import torch
from fairseq.data import Dictionary
from torch import Tensor

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike


class DoesNotFit(UserError):
    """Options or parameters that fairseq or the model cannot take; the caller adds the checkpoint's name."""


_NUMBERS = {"i8": np.dtype(np.int64), "f8": np.dtype(np.float64)}  # f8: summed over several processes


def _number_type(code: str, *_: Any) -> np.dtype:
    """Stand in for ``numpy.dtype``, which would also make types whose arrays hold pointers taken from the file."""
    if code not in _NUMBERS:
        raise UserError(f"numpy.dtype {code!r} is in no checkpoint of fairseq: do not trust it")
    return _NUMBERS[code]  # numpy's own, which nothing in the file can change


def _new_array(*_: Any) -> np.ndarray:
    """Stand in for numpy's ``_reconstruct``: an empty array, which the file then fills."""
    return np.empty(0)


def _array_type(*_: Any) -> None:
    """Stand in for ``numpy.ndarray``, which files name but never call: a call would read pointers from the file."""
    raise UserError("it makes a numpy.ndarray as no checkpoint of fairseq does: do not trust it")


_UNNAMEABLE = "\n"  # ends the names of types that PyTorch may fill but not make: no name in a file has a line break

_ALLOWED: list[Callable | tuple[Callable, str]] = [
    # cfg["model"]: the options of a model that adds them to a parser, as this one does
    Namespace,
    # extra_state["metrics"]: with --eval-bleu, the n-gram counts of the last validation, in the names of numpy 1 and 2
    (_new_array, "numpy.core.multiarray._reconstruct"),
    (_new_array, "numpy._core.multiarray._reconstruct"),
    (_array_type, "numpy.ndarray"),
    (_number_type, "numpy.dtype"),
    (np.ndarray, f"numpy.ndarray{_UNNAMEABLE}"),
    *((type(number), f"{number}{_UNNAMEABLE}") for number in _NUMBERS.values()),
]
"""Types and functions that fairseq's checkpoints need and PyTorch does not allow by default.

A type belongs here only if fairseq saves it and neither calling it nor setting its state can run code or read memory.
"""

_NAMES = {
    *("argparse.Namespace", "numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct"),
    *("numpy.ndarray", "numpy.dtype", "_codecs.encode"),  # the last is how bytes are written
    *("collections.OrderedDict", "torch.Size", "torch.device", "__builtin__.set", "builtins.set"),
    *("torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_parameter"),
    *(f"torch.{kind}Storage" for kind in ("Half", "BFloat16", "Float", "Double")),
    *(f"torch.{kind}Storage" for kind in ("Bool", "Byte", "Char", "Short", "Int", "Long")),
}
"""All names that a file may use: no sparse, quantized, complex or empty tensors, no function that allocates memory."""

_LEGACY_PICKLES = 5  # in a file of PyTorch before 1.6, one after the other

_LOADING = Lock()  # all threads share PyTorch's list of allowed types

_PARTS: dict[str, type] = {
    "args": Namespace,
    "cfg": dict,
    "optimizer_history": list,
    "last_optimizer_state": dict,
    "extra_state": dict,
    "task_state": dict,
}
"""The parts that fairseq's trainer saves in addition to the model; each may also be None or missing."""


def load_checkpoint(path: PathLike) -> dict[str, Any]:
    """Load a checkpoint of fairseq-train, onto the CPU."""
    checkpoint = load_parts(path)
    if not checkpoint.get("optimizer_history"):
        raise UserError(f"{path}: not a checkpoint of fairseq-train: it has no optimizer_history")
    return checkpoint


def load_parts(path: PathLike) -> dict[str, Any]:
    """Load the parts of a checkpoint, which may lack the optimizer's history."""
    try:
        with open(path, "rb") as stream:
            _check_names_in_file(stream)
            stream.seek(0)
            with _LOADING, torch.serialization.safe_globals([*_ALLOWED]):
                checkpoint = torch.load(stream, map_location="cpu", weights_only=True)
        _check_parts(checkpoint)
        return {**checkpoint, **{part: as_data(checkpoint[part]) for part in ("args", "cfg") if part in checkpoint}}
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except UserError as error:
        raise UserError(one_line(f"{path}: not loaded: {error}")) from error
    except Exception as error:  # a broken file raises nearly anything, other OSErrors too
        message = str(error).strip().rpartition("WeightsUnpickler error: ")[2]
        reason = message.split("\n")[0].split(". ")[0] or type(error).__name__
        problem = f"truncated, or not a checkpoint ({reason}): copy or train it again"
        if isinstance(error, MemoryError) or "allocate memory" in message:
            problem = "not enough memory: end other programs, or load it on a larger machine"
        raise UserError(one_line(f"{path}: not loaded: {problem}")) from error


def one_line(message: object) -> str:
    """Replace all unprintable characters of a message: names from a file could break the line or control a terminal."""
    return "".join(each if each.isprintable() else " " for each in str(message))


def options_of(checkpoint: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    """Return the options of a part of fairseq (``model``, ``task``) from a new or old checkpoint."""
    options = checkpoint.get("args") or (checkpoint.get("cfg") or {}).get(part) or {}
    return vars(options) if isinstance(options, Namespace) else options


def architecture_of(checkpoint: Mapping[str, Any]) -> str:
    """Return the name of the ``--arch`` that a checkpoint was trained with, as fairseq finds it."""
    options = options_of(checkpoint, "model")
    return str(options.get("_name") or options.get("arch") or "model")


def _check_names_in_file(stream: IO[bytes]) -> None:
    if stream.read(4) != b"PK\x03\x04":  # as PyTorch tells its two formats apart
        stream.seek(0)
        for _ in range(_LEGACY_PICKLES):
            _check_names(stream)
        return
    size = stream.seek(0, io.SEEK_END)
    with zipfile.ZipFile(stream) as archive:
        parts = archive.infolist()
        if sum(part.file_size for part in parts) > size:
            raise UserError("its parts claim to be larger than the file: do not trust it")
        for part in parts:
            if part.filename.lower().endswith(".pkl"):  # PyTorch ignores the case
                _check_names(io.BytesIO(archive.read(part)))


def _check_names(pickled: IO[bytes]) -> None:
    for operation, argument, _ in pickletools.genops(pickled):
        if operation.name == "GLOBAL" and (name := str(argument).replace(" ", ".")) not in _NAMES:
            raise UserError(f"it holds {name}, which no checkpoint of fairseq needs: do not trust it")


def _check_parts(checkpoint: Any) -> None:
    """Check the types of the parts that fairseq's trainer saves, and that the file holds all values of parameters."""
    model = checkpoint.get("model") if isinstance(checkpoint, dict) else None
    if not isinstance(model, dict) or not model:
        raise UserError("not a checkpoint of fairseq-train: it has no model, parameters by name")
    for name, tensor in model.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise UserError(f"{name!s:.200} of its model is no tensor with a name: not a checkpoint of fairseq-train")
        if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            raise UserError(f"{name:.200} has more values than the file holds: save it again with contiguous tensors")
    for part, kind in _PARTS.items():
        if not isinstance(checkpoint.get(part), kind | None):
            raise UserError(f"its {part} is no {kind.__name__}: not a checkpoint of fairseq-train")


_NONE = (
    # of models: embeddings and weights to start a training from; a trained model has its own
    "encoder_embed_path", "decoder_embed_path", "embed_path", "pretrained_checkpoint", "pretrained_mlm_checkpoint",
    "pretrained_xlm_checkpoint", "load_pretrained_encoder_from", "load_pretrained_decoder_from",
    "load_pretrained_aux_decoder_from",
    # of tasks and criterions
    "lang_dict", "source_dict", "target_dict", "fixed_dictionary", "label_dir", "speaker_emb_path", "config_yaml",
    "multitask_config_yaml", "save_predictions", "wer_kenlm_model", "wer_lexicon",
    # of generation: fairseq would download the last three
    "replace_unk", "bpe_vocab_file", "gpt2_encoder_json", "gpt2_vocab_bpe",
    "user_dir",
)  # fmt: skip
_REQUIRED = (
    "w2v_path", "seq2seq_path", "bpe_codes", "bpe_merges", "bpe_vocab", "sentencepiece_model",
    "sentencepiece_model_path",
)  # fmt: skip
OPENED: dict[str, str | None] = {**dict.fromkeys(_NONE), **dict.fromkeys(_REQUIRED, "???")}
"""Options that name what fairseq opens, downloads or imports when it loads a trained model, with their empty values.

Their values in a checkpoint are dropped: they were for its training. A user who needs one gives it again
(``--model-overrides``, the arguments of ``from_pretrained``).
"""


def as_data(value: Any, name: str = "") -> Any:
    """Return a copy of options (``args``, ``cfg``, or the one called ``name``) with plain values that name no file."""
    if isinstance(value, Namespace):
        return Namespace(**as_data(vars(value), name))
    if isinstance(value, Mapping) and all(type(key) in (str, int) for key in value):
        return {key: as_data(each, str(key)) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(as_data(each, name) for each in value)
    if value is None or type(value) in (bool, int, float):
        return value
    if not isinstance(value, str):
        raise UserError(f"its option {name} holds a {type(value).__name__}, as none of fairseq's: do not trust it")
    if name in OPENED:
        return OPENED[name] if value else value  # an empty one names no file
    if "${" in value:
        raise UserError(f"its option {name}, {value!r:.200}, would be replaced by another value: do not trust it")
    if name in ("bpe", "scoring", "tokenizer") and not re.fullmatch(r"[\w-]*", value):
        # hydra makes it part of a file's name where it comes from an old checkpoint's args
        raise UserError(f"its option {name}, {value!r:.200}, is no name: do not trust it")
    return value


EVALUATED = [
    f"fairseq.{module}"
    for module in (
        *("models.fconv", "models.fconv_lm", "models.fconv_self_att", "models.lightconv_lm", "models.transformer_lm"),
        *("models.hubert.hubert", "models.wav2vec.wav2vec", "models.wav2vec.wav2vec2"),
        *("models.speech_to_text.s2t_wav_transformer", "criterions.ctc", "data.audio.raw_audio_dataset", "utils"),
    )
]
"""Modules of fairseq that evaluate options of a checkpoint as Python: they get ``evaluate`` instead of ``eval``.

(Options of optimizers are evaluated, too, but fairseq takes them from the command line alone.)
"""

LONGEST = 4096  # characters of an evaluated option, and values of a repeated list; fairseq's presets have up to 190


def evaluate(text: Any) -> Any:
    """Read a literal of Python, or lists of them added and repeated, as in fairseq's presets, and nothing else.

    Raises ``DoesNotFit`` for other text, and ``TypeError`` for what is no text, which fairseq relies on.
    """
    if not isinstance(text, str):
        raise TypeError(f"text is evaluated, not {type(text).__name__}")
    try:
        if len(text) > LONGEST:
            raise ValueError
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise DoesNotFit(
            f"{text!r:.200}: fairseq would run this option as Python: give literals, such as [(512, 3)] * 4"
        ) from None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Add) and isinstance(left, list) and isinstance(right, list):
            return left + right
        if isinstance(node.op, ast.Mult) and isinstance(left, list) and type(right) is int:
            if len(left) * right > LONGEST:
                raise ValueError
            return left * right
    return ast.literal_eval(node)  # raises ValueError for all but literals


def check_fit(parameters: Mapping[str, Tensor], model: Mapping[str, Tensor], strict: bool = True) -> None:
    """Raise ``DoesNotFit`` if parameters have other names or shapes than a model's, or are not finite.

    ``model`` is the state dict of the model that takes them. Names and finite values are checked only if ``strict``.
    """
    common = [name for name in model if name in parameters]
    for name in common:
        here, there = tuple(parameters[name].shape), tuple(model[name].shape)
        if here != there and here[1:] == there[1:] and name.endswith("embed_tokens.weight"):
            side = "source" if name.startswith("encoder") else "target"
            raise DoesNotFit(
                f"its {side} dictionary has {here[0]} symbols, the data-bin's has {there[0]}: give the data-bin that "
                "it was trained on"
            )
        if here != there:
            raise DoesNotFit(f"{name} is {here} in it, but {there} in the model: give the options of its training")
    others = sorted(model.keys() ^ parameters.keys())
    if strict and others:
        verb, other = ("lacks", "has") if others[0] in model else ("has", "lacks")
        problem = f"it {verb} the parameter {others[0]:.200}, which the model {other}"
        raise DoesNotFit(one_line(f"{problem}: give the options of its training"))
    for name in common if strict else ():  # on a GPU, the check of a copy (--store-ema) would wait
        if not torch.isfinite(parameters[name]).all():
            raise DoesNotFit(f"{name} is not finite: the training diverged; give an earlier checkpoint")


def checksum_of(dictionaries: Sequence[Dictionary]) -> str:
    """Return a checksum of the symbols and their numbers, but not of their counts."""
    return hashlib.sha256(repr([each.symbols for each in dictionaries]).encode()).hexdigest()


def check_dictionaries(state: Mapping[str, Any], dictionaries: Sequence[Dictionary]) -> None:
    """Raise ``DoesNotFit`` if a checkpoint, or its ``extra_state``, tells of dictionaries with other symbols."""
    here = checksum_of(dictionaries)  # fairseq and earlier versions tell none
    told = (state.get("task_state") or {}).get("dictionaries", here)
    if told != here and told == checksum_of(dictionaries[::-1]):
        raise DoesNotFit("it is of the other direction: give --source-lang and --target-lang as its training had them")
    if told != here:
        raise DoesNotFit("its dictionaries have other symbols than the data-bin's: give the data-bin of its training")


def save(checkpoint: Any, stream: IO[bytes]) -> None:
    """``torch.save``, but raise the ``OSError`` of a full disk, which PyTorch hides behind an error of its own."""
    try:
        torch.save(checkpoint, stream)
    except RuntimeError as error:
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise
