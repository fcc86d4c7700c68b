"""The folder of a trained model, which ``resmlp-mt export`` writes and transformers reads; needs no fairseq."""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike, read_lines, read_object, user_cache
from resmlp_mt.nn import EncoderDecoder, ModelConfig
from resmlp_mt.text.tokenizer import END, PAD, START, TextSettings, Tokenizer
from resmlp_mt.translate.options import Options

MODEL_TYPE = "resmlp_mt"
CONFIG, GENERATION, WEIGHTS = "config.json", "generation_config.json", "model.safetensors"
TEXT, LEARNED, SOURCE, TARGET = "tokenizer_config.json", "subwords.model", "source_symbols.txt", "target_symbols.txt"
SHORTLIST = "shortlist.txt"  # not in every folder
SIZES = "sizes"  # the entry of config.json that is a ModelConfig
SUM = "learned_sha256"  # the entry of tokenizer_config.json with the checksum of LEARNED: it finds a truncated file
AGAIN = "export the model again, or copy the whole folder"


def find_folder(folder: PathLike) -> Path:
    """Return a folder's path; for a name on the hub, the folder in the local cache of Hugging Face's libraries."""
    path = Path(folder)
    if not path.is_dir() and str(folder).count("/") == 1:
        home = Path(os.environ.get("HF_HOME") or user_cache() / "huggingface")
        cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub") / f"models--{str(folder).replace('/', '--')}"
        reference = cache / "refs" / "main"
        if reference.is_file():
            return cache / "snapshots" / reference.read_text(encoding="utf-8").strip()
    return path


def load(folder: PathLike) -> tuple[EncoderDecoder, Tokenizer, dict[str, Any]]:
    """Return the model (evaluation mode, fp32), its tokenizer, and the search options of ``generation_config.json``."""
    cfg, tokenizer, generation = load_settings(folder)
    return load_model(folder, cfg), tokenizer, generation


def load_settings(folder: PathLike) -> tuple[ModelConfig, Tokenizer, dict[str, Any]]:
    """Return the model's config, its tokenizer and the search options, as ``load``, but do not read the weights."""
    folder = Path(folder)
    with _reading(folder / CONFIG) as path:
        values = _json(path)
        if values.get("model_type") != MODEL_TYPE:
            raise ValueError(f"its model_type is {values.get('model_type')!r:.40}, not {MODEL_TYPE!r}")
        cfg = ModelConfig.of(values.get(SIZES))
    with _reading(folder / GENERATION) as path:
        # transformers writes null for an option without a value
        generation = {name: value for name, value in _json(path).items() if value is not None}
        Options(beam=generation.get("num_beams"), length_penalty=generation.get("length_penalty"))
    with _reading(folder / TEXT) as path:
        return cfg, _tokenizer(path, cfg), generation


def load_model(folder: PathLike, cfg: ModelConfig) -> EncoderDecoder:
    with _reading(Path(folder, WEIGHTS)) as path:
        model = EncoderDecoder(cfg)
        # transformers also writes parameters that are shared with another one
        missing, unexpected = model.load_state_dict(load_file(path), strict=False)
        wrong = {*missing, *unexpected} - cfg.shared.keys() - {name for name, _ in model.named_buffers()}
        if wrong:
            raise ValueError(f"not the model of {CONFIG}: lacks or has {', '.join(sorted(wrong))}")
        return model.eval()


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[Path]:
    """Yield a file's path; raise what is wrong with the file as a ``UserError`` of one line."""
    try:
        yield path
    except OSError as error:  # safetensors' errors have no strerror
        if not path.parent.is_dir():
            raise UserError(f"{path.parent}: no such folder: name one that resmlp-mt export made") from error
        problem = f"cannot be read: {error.strerror or error}"
        raise UserError(f"{error.filename or path}: {problem}: {AGAIN}") from error
    except (SafetensorError, ValueError, RuntimeError, KeyError, ArithmeticError, AssertionError) as error:
        raise UserError(f"{path}: {' '.join(str(error).split())[:300]}: {AGAIN}") from error


def write(
    folder: PathLike,
    model: EncoderDecoder,
    text: TextSettings,
    learned: bytes,
    symbols: tuple[list[str], list[str]],
    generation: Mapping[str, Any],
    more: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Write the files that ``load`` reads into an empty folder.

    ``learned``: content of the file of learned subwords; ``symbols``: of the source and the target dictionary,
    fairseq's special symbols first; ``more``: by file name, further entries of JSON files.
    """
    folder, more = Path(folder), more or {}
    numbers = {"bos_token_id": START, "pad_token_id": PAD, "eos_token_id": END, "decoder_start_token_id": END}
    config = {"model_type": MODEL_TYPE, "is_encoder_decoder": True, SIZES: asdict(model.cfg), **numbers}
    settings = {**asdict(text), SUM: hashlib.sha256(learned).hexdigest()}
    for name, values in {CONFIG: config, GENERATION: {**generation, **numbers}, TEXT: settings}.items():
        (folder / name).write_text(json.dumps({**values, **more.get(name, {})}, indent=1) + "\n", encoding="utf-8")
    for name, side in zip((SOURCE, TARGET), symbols, strict=True):
        (folder / name).write_text("".join(f"{symbol}\n" for symbol in side), encoding="utf-8", newline="\n")
    (folder / LEARNED).write_bytes(learned)
    parameters = {name: parameter.detach().float().contiguous() for name, parameter in model.named_parameters()}
    save_file(parameters, folder / WEIGHTS, {"format": "pt"})
    (folder / WEIGHTS).chmod((folder / CONFIG).stat().st_mode)  # safetensors ignores the umask


def checksum(folder: PathLike) -> str:
    """Return the SHA-256 of the files that determine a folder's translations."""
    total = hashlib.sha256()
    for name in CONFIG, GENERATION, TEXT, LEARNED, SOURCE, TARGET, WEIGHTS, SHORTLIST:
        path = Path(folder, name)
        if name == SHORTLIST and not path.is_file():
            continue
        with _reading(path), open(path, "rb") as file:
            while block := file.read(1 << 20):
                total.update(block)
        total.update(name.encode())
    return total.hexdigest()


def _json(path: Path) -> dict[str, Any]:
    values = read_object(path)
    if values is None:
        raise ValueError("not what an export writes")
    return values


def _tokenizer(path: Path, cfg: ModelConfig) -> Tokenizer:
    values, folder = _json(path), path.parent
    for each in fields(TextSettings):
        if type(values.get(each.name)) is not each.type:
            raise ValueError(f"{each.name} is {values.get(each.name)!r:.60}")
    settings = TextSettings(**{each.name: values[each.name] for each in fields(TextSettings)})
    symbols = []
    for name, size in (SOURCE, cfg.source_symbols), (TARGET, cfg.target_symbols):
        symbols.append(list(read_lines(folder / name)))
        if len(symbols[-1]) != size:
            raise ValueError(f"{name} has {len(symbols[-1])} symbols, but the model {size}")
    if SUM in values and hashlib.sha256((folder / LEARNED).read_bytes()).hexdigest() != values[SUM]:
        raise ValueError(f"{LEARNED} is not the file of which this has the sum")
    return Tokenizer(settings, folder / LEARNED, *symbols)
