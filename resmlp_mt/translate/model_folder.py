"""A folder that holds a trained model, and the text that it translates, without fairseq.

It is what ``resmlp-mt export`` makes, and what Hugging Face's transformers read.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike, read_lines, read_object
from resmlp_mt.nn import EncoderDecoder, ModelConfig
from resmlp_mt.text.tokenizer import END, PAD, START, TextSettings, Tokenizer
from resmlp_mt.translate.options import Options

MODEL_TYPE = "resmlp_mt"
CONFIG, GENERATION, WEIGHTS = "config.json", "generation_config.json", "model.safetensors"
TEXT, LEARNED, SOURCE, TARGET = "tokenizer_config.json", "subwords.model", "source_symbols.txt", "target_symbols.txt"
SIZES = "sizes"  # the entry of config.json that is a ModelConfig
SUM = "learned_sha256"  # the entry of tokenizer_config.json that tells a file of learned subwords that was cut
LARGEST = 1 << 20  # bytes of a JSON file
AGAIN = "export the model again, or copy the whole folder"


def load(folder: PathLike) -> tuple[EncoderDecoder, Tokenizer, dict[str, Any]]:
    """Read a folder.

    Returns:
        the model, in evaluation mode and fp32; what makes numbers of text and text of numbers; what
        ``generation_config.json`` says (``num_beams``, ``length_penalty``, ``max_length``; transformers leaves out
        what it takes for the default)

    Raises:
        UserError: a file is missing, broken, or not of such a folder; with its name
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder: name one that resmlp-mt export made")
    cfg = _config(folder / CONFIG)
    return _model(folder / WEIGHTS, cfg), _tokenizer(folder, cfg), _generation(folder / GENERATION)


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

    Args:
        learned: content of the file of learned subwords
        symbols: of the source and the target dictionary, fairseq's own first
        generation: what ``generation_config.json`` is to say
        more: by file name, what JSON files say besides

    Raises:
        OSError: it cannot be written
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
    (folder / WEIGHTS).write_bytes(save(parameters, {"format": "pt"}))


def _json(path: Path) -> dict[str, Any]:
    try:
        values = read_object(path, LARGEST)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}: {AGAIN}") from error
    if values is None:
        raise UserError(f"{path}: not what an export writes: {AGAIN}")
    return values


def _config(path: Path) -> ModelConfig:
    values = _json(path)
    if values.get("model_type") != MODEL_TYPE:
        kind = f"{values.get('model_type')!r:.40}"
        raise UserError(f"{path}: its model_type is {kind}, not {MODEL_TYPE!r}: name a folder of resmlp-mt export")
    try:
        cfg = ModelConfig.of(values.get(SIZES))
        if cfg.pad != PAD:
            raise ValueError(f"pad is {cfg.pad}, not {PAD}")
        return cfg
    except ValueError as error:
        raise UserError(f"{path}: {SIZES}: {error}: {AGAIN}") from error


def _generation(path: Path) -> dict[str, Any]:
    # null is transformers' for what is not said
    values = {name: value for name, value in _json(path).items() if value is not None}
    try:
        Options(beam=values.get("num_beams", 1), length_penalty=values.get("length_penalty", 1.0))
    except UserError as error:
        raise UserError(f"{path}: {error}: {AGAIN}") from error
    return values


def _model(path: Path, cfg: ModelConfig) -> EncoderDecoder:
    try:
        with safe_open(path, "pt") as file:
            found = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118 (it is no mapping)
            _check_shapes(path, cfg, found)
            parameters = {name: file.get_tensor(name) for name in found}
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path}: cannot be read: {str(error).splitlines()[0]}: {AGAIN}") from error
    for name, parameter in parameters.items():
        if not (parameter.is_floating_point() and torch.isfinite(parameter.float()).all()):
            raise UserError(f"{path}: {name} is not of finite floating-point numbers: {AGAIN}")
    for name, owner in cfg.shared.items():
        if name in parameters and not torch.equal(parameters[name], parameters[owner]):
            raise UserError(f"{path}: {name} is not {owner}, which {CONFIG} says it is: {AGAIN}")
    model = EncoderDecoder(cfg)
    model.load_state_dict(parameters, strict=False)
    return model.eval()


def _check_shapes(path: Path, cfg: ModelConfig, found: Mapping[str, list[int]]) -> None:
    """See that a file has a model's parameters, before memory is taken for them."""
    try:
        if max(cfg.encoder_layers, cfg.decoder_layers) > len(found):
            raise ValueError("more layers than parameters")
        if cfg.decoder.source_dim and cfg.decoder.dim % cfg.decoder.attention_heads:
            raise ValueError(f"width {cfg.decoder.dim} for {cfg.decoder.attention_heads} heads of attention")
        with torch.device("meta"):
            expected = {name: list(tensor.shape) for name, tensor in EncoderDecoder(cfg).named_parameters()}
    except (KeyError, ValueError, TypeError, RuntimeError, ArithmeticError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path.parent / CONFIG}: no model has such {SIZES}: {reason}: {AGAIN}") from error
    for name in expected.keys() ^ (found.keys() - cfg.shared.keys()):
        raise UserError(f"{path}: {'lacks' if name in expected else 'has'} the parameter {name}: {AGAIN}")
    for name, shape in expected.items():
        if found[name] != shape:
            raise UserError(f"{path}: {name} is {found[name]}, {CONFIG} says {shape}: {AGAIN}")
    if cfg.share_all_embeddings and cfg.source_symbols != cfg.target_symbols:
        raise UserError(
            f"{path.parent / CONFIG}: {SIZES}: one embedding of {cfg.source_symbols} source and {cfg.target_symbols} "
            f"target symbols: {AGAIN}"
        )


def _tokenizer(folder: Path, cfg: ModelConfig) -> Tokenizer:
    path = folder / TEXT
    values = _json(path)
    for field in fields(TextSettings):
        if type(values.get(field.name)) is not field.type:
            raise UserError(f"{path}: {field.name} is {values.get(field.name)!r:.60}: {AGAIN}")
    settings = TextSettings(**{field.name: values[field.name] for field in fields(TextSettings)})
    symbols = []
    for name, size in (SOURCE, cfg.source_symbols), (TARGET, cfg.target_symbols):
        symbols.append(list(read_lines(folder / name)))
        if len(symbols[-1]) != size:
            raise UserError(f"{folder / name}: {len(symbols[-1])} symbols, but the model has {size}: {AGAIN}")
    try:
        if SUM in values and hashlib.sha256((folder / LEARNED).read_bytes()).hexdigest() != values[SUM]:
            raise UserError(f"{folder / LEARNED}: not the file of which {TEXT} has the sum: {AGAIN}")
        return Tokenizer(settings, folder / LEARNED, *symbols)
    except OSError as error:
        raise UserError(f"{folder / LEARNED}: cannot be read: {error.strerror or error}: {AGAIN}") from error
    except ValueError as error:
        raise UserError(f"{folder}: {error}: {AGAIN}") from error
