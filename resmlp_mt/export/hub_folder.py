"""Export a trained model to a folder that transformers and ``resmlp_mt.translate`` read without fairseq."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq.data import data_utils
from torch import Tensor, nn

import resmlp_mt
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike, atomic_folder, check_new, open_input, read_object
from resmlp_mt.common.progress import markdown_table
from resmlp_mt.data.raw_text import RawText
from resmlp_mt.export.graphs import add_graphs
from resmlp_mt.fairseq_plugin.trained import Trained
from resmlp_mt.nn import EncoderDecoder
from resmlp_mt.text.tokenizer import SPECIAL, TextSettings, Tokenizer
from resmlp_mt.translate import model_folder
from resmlp_mt.translate.search import BEAM, PENALTY

TOLERANCE = 1e-4
"""Largest difference of scores allowed. In fp32 they differ by about 1e-6; a mistake gives more than this."""
LONGEST = 200  # most tokens of a translation, without </s>, as in fairseq

_FACE = {"configuration_resmlp": "nn", "modeling_resmlp": "nn", "tokenization_resmlp": "text"}
"""The files for transformers, and the package of ours whose files each one needs."""
_OURS = re.compile(r"^from resmlp_mt\.[\w.]*\.(\w+) import", re.MULTILINE)
_ALSO_IMPORTED = """
if TYPE_CHECKING:  # from a local folder transformers takes along what a file imports itself, and no more
    {}
"""
_MODEL, _TEXT = "modeling_resmlp.ResMLPForConditionalGeneration", "tokenization_resmlp.ResMLPTokenizer"


TEMPLATE = """\
---
language:
- "{source}"
- "{target}"
library_name: transformers
pipeline_tag: translation
tags:
- translation
- resmlp{license_entry}
---

# {name}: {source} to {target}

A ResMLP encoder-decoder (Touvron et al. 2021, arXiv 2105.03404): a linear layer over positions stands where a
Transformer has self-attention. It was trained with resmlp_mt and fairseq; to use it needs neither.

## Use

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

model = AutoModelForSeq2SeqLM.from_pretrained("{name}", trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained("{name}", trust_remote_code=True)
print(tokenizer.decode(model.generate(**tokenizer("Some text.", return_tensors="pt"))[0]))
```

Packages: torch, transformers (tested: 4.57.6 and 5.23.0), sacremoses, {library}. With `trust_remote_code` the
Python files of this folder run: read them first.

## Model

| | |
| --- | --- |
| architecture | {trained.architecture} |
| parameters | {parameters:,} |
| layers | {cfg.encoder_layers} encoder, {cfg.decoder_layers} decoder |
| width | {cfg.encoder.dim} encoder, {cfg.decoder.dim} decoder |
| dictionaries | {cfg.source_symbols:,} and {cfg.target_symbols:,} entries |
| checkpoints | {checkpoints}, {trained.updates:,} updates |
| trained on | {trained_on} |

## Scores

{scores}

## Limits

- Split longer text: at most {longest_source} subwords a sentence, {longest_target} a translation.
- It was trained on sentences: give one at a time, of the kind that it was trained on.
- A translation can be fluent and wrong, and has the prejudices of its training data.

## Licence

{license}
"""


@dataclass(frozen=True)
class Card:
    """The user's statements about a model, for its model card."""

    name: str  # of the folder
    checkpoints: Sequence[str]  # which were averaged
    license: str | None = None  # identifier, as Hugging Face's hub spells it
    trained_on: str | None = None  # description of the training data
    scores: Sequence[tuple[str, float, str]] = ()  # name, value and signature of each

    def text(self, trained: Trained, model: EncoderDecoder, subwords: str) -> str:
        """Return the text of README.md, the model card; ``subwords`` as in ``TextSettings``."""
        rows = [[name, str(value), f"`{signature}`".replace("|", r"\|")] for name, value, signature in self.scores]
        return TEMPLATE.format(
            name=self.name,
            source=trained.languages[0],
            target=trained.languages[1],
            cfg=model.cfg,
            longest_source=model.cfg.encoder.positions - 1,  # </s> takes one position
            longest_target=min(LONGEST, model.cfg.decoder.positions - 1),
            trained=trained,
            license_entry=f"\nlicense: {json.dumps(self.license)}" if self.license else "",
            library="subword-nmt" if subwords == "bpe" else "sentencepiece",
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            checkpoints=("average of " if len(self.checkpoints) > 1 else "") + ", ".join(self.checkpoints),
            trained_on=self.trained_on or "not told",
            scores=markdown_table([["", "score", "signature"], *rows]) if rows else "Not told.",
            license=self.license or "Not told: ask who made this model.",
        )


def read_scores(path: PathLike) -> list[tuple[str, float, str]]:
    """Read the name, value and signature of each score from the output of ``resmlp-mt score --json``."""
    try:
        values: Any = read_object(path)
        return [(str(name), float(score["score"]), str(score["signature"])) for name, score in values["scores"].items()]
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path}: not what resmlp-mt score --json prints") from error


def sources() -> dict[str, str]:
    """Return the Python files of a folder: names and contents. They import each other without subfolders."""
    package = Path(resmlp_mt.__file__).parent
    rooms = {
        room: {path.stem: path.read_text(encoding="utf-8") for path in sorted((package / room).glob("[a-z]*.py"))}
        for room in ("nn", "text", "export/transformers_face")
    }
    found = {**rooms["nn"], **rooms["text"]}
    for name, room in _FACE.items():
        also = _ALSO_IMPORTED.format("\n    ".join(f"from .{needed} import *" for needed in rooms[room]))
        found[name] = _OURS.sub(r"from .\1 import", rooms["export/transformers_face"][name]) + also
    assert len(found) == sum(map(len, rooms.values())), "two source files of an exported folder have one name"
    return {f"{name}.py": content for name, content in found.items()}


def text_of(trained: Trained, data: PathLike, codes: PathLike | None) -> tuple[TextSettings, bytes]:
    """Return a model's text settings and its learned subwords, from the file ``codes`` or from the prepared data."""
    raw = RawText.of(data)
    raw.check_languages(*trained.languages)
    if codes is None:
        raw.splitter()  # checks that the file is the one of the preparation
    path = Path(codes or raw.folder / raw.learned)
    settings = raw.settings(*trained.languages)
    with open_input(path, decompressed=False) as file:
        content = file.read()
    try:
        Tokenizer(settings, path, SPECIAL, SPECIAL)
    except ValueError as error:
        raise UserError(str(error)) from error
    return settings, content


def check_known(model: nn.Module) -> None:
    """Refuse a model whose code would be missing in the folder, such as a mixing of the user's own."""
    for module in model.modules():
        if not type(module).__module__.startswith(("resmlp_mt.nn.", "torch.")):
            name = f"{type(module).__name__} of {type(module).__module__}"
            raise UserError(f"the model has a {name}: only models of the package's own layers can be exported")


def batches(model: Any) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield random batches (source B x S, previous tokens B x T, their mask B x T); two have the maximum length."""
    generator = torch.Generator().manual_seed(0)
    pad, eos = model.encoder.dictionary.pad(), model.encoder.dictionary.eos()

    def sentences(side: Any, lengths: list[int], **collation: bool) -> Tensor:
        first, end, limit = side.dictionary.nspecial, len(side.dictionary), side.max_positions()
        numbers = [torch.randint(first, end, (min(length, limit),), generator=generator) for length in lengths]
        for sentence in numbers:
            sentence[-1] = eos
        return data_utils.collate_tokens(numbers, pad, eos, **collation)

    longest = max(model.max_positions())
    for sources, targets in ([1], [2]), ([3, 7, 1], [5, 2, 9]), ([longest, 2], [longest, 3]):
        for left_pad in False, True:
            source = sentences(model.encoder, sources, left_pad=left_pad)
            previous = sentences(model.decoder, targets, left_pad=left_pad, move_eos_to_beginning=True)
            yield source, previous, previous.ne(pad)


def fairseq_scores(model: Any, source: Tensor, previous: Tensor) -> Tensor:
    """Return the scores of fairseq's model as an ``EncoderDecoder`` gives them, B x T x V."""
    out = model(source, None, previous)
    return out[0] if model.decoder.adaptive_softmax is None else model.get_normalized_probs(out, log_probs=True)


@torch.no_grad()
def largest_difference(model: Any, ours: EncoderDecoder) -> float:
    """Return the largest difference of scores from fairseq's model (fp32, not folded); infinity if one is nan."""
    found = [
        (ours(source, previous) - fairseq_scores(model, source, previous))[real].abs().max()
        for source, previous, real in batches(model)
    ]
    return float(torch.stack(found).nan_to_num(math.inf, math.inf).max())


def write_hub_folder(
    out: Path, trained: Trained, text: TextSettings, learned: bytes, card: Card, onnx: bool = False
) -> float:
    """Write the folder (``onnx``: with graphs, too), and return the largest difference of a score from fairseq's."""
    check_new(out)
    model = trained.model.without_fairseq()
    check_known(model)
    encoder, decoder = trained.model.encoder, trained.model.decoder
    generation = {
        "num_beams": BEAM,
        "length_penalty": PENALTY,
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
            "model_max_length": encoder.max_positions(),
        },
    }
    symbols = list(encoder.dictionary.symbols), list(decoder.dictionary.symbols)
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
