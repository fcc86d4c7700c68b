"""The model card of an exported folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike, read_object
from resmlp_mt.fairseq_plugin.trained import Trained
from resmlp_mt.nn import EncoderDecoder

LARGEST = 1 << 20  # bytes of a file of scores

TEMPLATE = """\
---
language:
- {source}
- {target}
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
| architecture | {architecture} |
| parameters | {parameters:,} |
| layers | {encoder_layers} encoder, {decoder_layers} decoder |
| width | {encoder_dim} encoder, {decoder_dim} decoder |
| dictionaries | {source_symbols:,} and {target_symbols:,} entries |
| checkpoints | {checkpoints}, {updates:,} updates |
| trained on | {trained_on} |

## Scores

{scores}

## Limits

- At most {source_positions} subwords a sentence (`</s>` included), {target_positions} a translation: split longer text.
- It was trained on sentences: give one at a time, of the kind that it was trained on.
- A translation can be fluent and wrong, and has the prejudices of its training data.

## Licence

{license}
"""


@dataclass(frozen=True)
class Card:
    """What a user says of a model."""

    name: str  # the folder's
    checkpoints: Sequence[str]  # that the model is the average of
    license: str | None = None  # as Hugging Face's hub spells it
    trained_on: str | None = None  # in words
    scores: Sequence[tuple[str, float, str]] = ()  # name, value and signature of each

    def text(self, trained: Trained, model: EncoderDecoder, subwords: str) -> str:
        """README.md; ``subwords`` are those of ``TextSettings``."""
        cfg = model.cfg
        rows = [f"| {name} | {value} | `{signature}` |" for name, value, signature in self.scores]
        return TEMPLATE.format(
            name=self.name,
            source=trained.languages[0],
            target=trained.languages[1],
            license_entry=f"\nlicense: {self.license}" if self.license else "",
            library="subword-nmt" if subwords == "bpe" else "sentencepiece",
            architecture=trained.architecture,
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            encoder_layers=cfg.encoder_layers,
            decoder_layers=cfg.decoder_layers,
            encoder_dim=cfg.encoder.dim,
            decoder_dim=cfg.decoder.dim,
            source_symbols=cfg.source_symbols,
            target_symbols=cfg.target_symbols,
            checkpoints=("average of " if len(self.checkpoints) > 1 else "") + ", ".join(self.checkpoints),
            updates=trained.updates,
            trained_on=self.trained_on or "not told",
            scores="\n".join(["| | score | signature |", "| --- | --- | --- |", *rows]) if rows else "Not told.",
            source_positions=cfg.encoder.positions,
            target_positions=cfg.decoder.positions,
            license=self.license or "Not told: ask who made this model.",
        )


def read_scores(path: PathLike) -> list[tuple[str, float, str]]:
    """Name, value and signature of each score that ``resmlp-mt score --json`` printed."""
    try:
        values: Any = read_object(path, LARGEST)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return [(str(name), float(score["score"]), str(score["signature"])) for name, score in values["scores"].items()]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path}: not what resmlp-mt score --json prints") from error
