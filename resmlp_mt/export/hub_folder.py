"""A trained model as a folder that transformers and ``resmlp_mt.translate`` read, without fairseq."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

import resmlp_mt
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike, atomic_folder
from resmlp_mt.data.raw_text import RawText
from resmlp_mt.export.card import Card
from resmlp_mt.export.checking import largest_difference
from resmlp_mt.export.graphs import add_graphs
from resmlp_mt.fairseq_plugin.trained import Trained
from resmlp_mt.text.tokenizer import SPECIAL, TextSettings, Tokenizer
from resmlp_mt.translate import model_folder

TOLERANCE = 1e-4
"""Of scores. In fp32 they differ by about 1e-6; a mistake makes more of it than this."""
BEAM = 4
LONGEST = 200  # tokens of a translation without </s>, as in fairseq

_FACE = {"configuration_resmlp": "nn", "modeling_resmlp": "nn", "tokenization_resmlp": "text"}
"""Files for transformers, and the room whose files each needs."""
_OURS = re.compile(r"^from resmlp_mt\.[\w.]*\.(\w+) import", re.MULTILINE)
_ALONG = """
if TYPE_CHECKING:  # from a local folder transformers takes along what a file imports itself, and no more
    {}
"""
_MODEL, _TEXT = "modeling_resmlp.ResMLPForConditionalGeneration", "tokenization_resmlp.ResMLPTokenizer"


def sources() -> dict[str, str]:
    """The source files of a folder: names and contents. They import one another from one folder without subfolders."""
    package = Path(resmlp_mt.__file__).parent
    rooms = {
        room: {path.stem: path.read_text(encoding="utf-8") for path in sorted((package / room).glob("[a-z]*.py"))}
        for room in ("nn", "text", "export/transformers_face")
    }
    found = {**rooms["nn"], **rooms["text"]}
    for name, room in _FACE.items():
        along = "\n    ".join(f"from .{needed} import *" for needed in rooms[room])
        found[name] = _OURS.sub(r"from .\1 import", rooms["export/transformers_face"][name]) + _ALONG.format(along)
    assert len(found) == sum(map(len, rooms.values())), "two source files of an exported folder have one name"
    return {f"{name}.py": content for name, content in found.items()}


def text_of(trained: Trained, data: PathLike, codes: PathLike | None) -> tuple[TextSettings, bytes]:
    """How the text of a model is treated, and its learned subwords: of ``codes``, or that of the prepared data."""
    raw = RawText.of(data)
    raw.check_languages(*trained.languages)
    if codes is None:
        raw.splitter()  # sees that they are those of the preparation
    path = Path(codes or raw.folder / raw.learned)
    settings = raw.settings(*trained.languages)
    try:
        Tokenizer(settings, path, SPECIAL, SPECIAL)
        return settings, path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UserError(str(error)) from error


def check_known(model: nn.Module) -> None:
    """Refuse a model with code that a folder would not have, such as a mixing of the user's own."""
    for module in model.modules():
        if not type(module).__module__.startswith(("resmlp_mt.nn.", "torch.")):
            name = f"{type(module).__name__} of {type(module).__module__}"
            raise UserError(f"the model has a {name}: only models of the package's own layers can be exported")


def check_new(out: Path) -> None:
    """See that a folder does not exist yet."""
    if os.path.lexists(out):
        raise UserError(f"{out}: exists already: remove it, or choose another folder")


def write_hub_folder(
    out: Path, trained: Trained, text: TextSettings, learned: bytes, card: Card, onnx: bool = False
) -> float:
    """Write the folder (``onnx``: with graphs, too), and tell the largest difference of a score from fairseq's."""
    check_new(out)
    model = trained.model.without_fairseq()
    check_known(model)
    decoder, source = trained.model.decoder, trained.model.encoder
    generation = {
        "num_beams": BEAM,
        "length_penalty": 1.0,
        "early_stopping": True,
        "max_length": min(LONGEST + 1, decoder.max_positions()) + 1,  # with </s> at its start
    }
    more: Mapping[str, Mapping[str, Any]] = {
        model_folder.CONFIG: {
            "architectures": [_MODEL.partition(".")[2]],
            "auto_map": {"AutoConfig": "configuration_resmlp.ResMLPConfig", "AutoModelForSeq2SeqLM": _MODEL},
        },
        model_folder.TEXT: {
            "tokenizer_class": _TEXT.partition(".")[2],
            "auto_map": {"AutoTokenizer": [_TEXT, None]},
            "model_max_length": source.max_positions(),
        },
    }
    symbols = list(source.dictionary.symbols), list(decoder.dictionary.symbols)
    with atomic_folder(out) as new:
        model_folder.write(new, model, text, learned, symbols, generation, more)
        for name, content in sources().items():
            (new / name).write_text(content, encoding="utf-8")
        (new / "README.md").write_text(card.text(trained, model, text.subwords), encoding="utf-8")
        ours, _, _ = model_folder.load(new)
        difference = largest_difference(trained.model, ours)
        if not difference <= TOLERANCE:
            raise UserError(f"{trained.path}: scores are {difference:.1e} off fairseq's: nothing is written")
        if onnx:
            add_graphs(new)
    return difference
