"""Raw text is treated as the preparation of its data treated it: ``--tokenizer prepared --bpe prepared``."""

import argparse
import importlib.util
import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from fairseq import utils
from fairseq.data.encoders import register_bpe, register_tokenizer
from fairseq.dataclass import FairseqDataclass
from omegaconf import DictConfig, OmegaConf, open_dict

from resmlp_mt.common.errors import UserError

if TYPE_CHECKING:
    from resmlp_mt.data.raw_text import RawText

logger = logging.getLogger(__name__)

PREPARED = "prepared"
RECORD = "text.json"  # data.raw_text.NAME: that module imports what only raw text needs


@dataclass
class PreparedTextConfig(FairseqDataclass):
    """Which data's preparation, and which way to translate; the task knows what is not given."""

    data: Optional[str] = None  # noqa: UP045 (fairseq 0.12.2's omegaconf reads no other)
    source_lang: Optional[str] = None  # noqa: UP045
    target_lang: Optional[str] = None  # noqa: UP045

    def _get_all_attributes(self) -> list[str]:
        return []  # the command line has these options already, from the task


def is_recorded(data: str | None) -> bool:
    """Whether ``data``, a folder or several with ``:`` between, tells how its text was treated."""
    return bool(data) and os.path.lexists(os.path.join(utils.split_paths(data)[0], RECORD))


def record_of(data: str) -> "RawText":
    """How the text of ``data`` was treated."""
    from resmlp_mt.data.raw_text import RawText

    return RawText.of(utils.split_paths(data)[0])


def _treatment(cfg: PreparedTextConfig) -> tuple["RawText", str, str]:
    if cfg.data is None:
        raise UserError("the data is not given, which tells how to treat text: give the folder that preparing made")
    text = record_of(cfg.data)
    return text, *text.check_languages(cfg.source_lang, cfg.target_lang)


@register_tokenizer(PREPARED, dataclass=PreparedTextConfig)
class PreparedTokenizer:
    """A raw line to words, and words to running text."""

    def __init__(self, cfg: PreparedTextConfig):
        text, source, target = _treatment(cfg)
        self.encode = text.tokenizer(source)
        self.decode = text.detokenizer(target)
        logger.info(
            f"raw text is treated as {text.folder / RECORD} says (--tokenizer prepared --bpe prepared); "
            "--tokenizer space takes the words as they are"
        )


@register_bpe(PREPARED, dataclass=PreparedTextConfig)
class PreparedSubwords:
    """Words to subwords, and back."""

    def __init__(self, cfg: PreparedTextConfig):
        text, _, _ = _treatment(cfg)
        self.encode = text.splitter()
        self.decode = text.join


def choose_prepared(cfg: DictConfig) -> None:
    """Choose prepared text for ``from_pretrained``, unless its checkpoint or its caller names a tokenizer or BPE."""
    if _name(cfg.tokenizer) is None and _name(cfg.bpe) is None and is_recorded(cfg.task.data):
        with open_dict(cfg):
            cfg.tokenizer = cfg.bpe = OmegaConf.structured(PreparedTextConfig(_name=PREPARED))


def _name(choice: Any) -> str | None:
    return choice.get("_name") if isinstance(choice, DictConfig) else choice


def choose_prepared_for_command(args: argparse.Namespace) -> None:
    """Choose prepared text for fairseq-interactive and fairseq-generate, where the data tells and no option does."""
    if (
        hasattr(args, "beam")
        and args.task == "translation"
        and args.tokenizer is None
        and args.bpe is None
        and is_recorded(args.data)
        and (hasattr(args, "buffer_size") or _may_be_chosen_for_output(args))
    ):
        args.tokenizer = args.bpe = PREPARED


def _may_be_chosen_for_output(args: argparse.Namespace) -> bool:
    # fairseq-generate needs no more than the subwords: it also runs where fairseq alone is installed
    is_joined = args.post_process is not None  # by --remove-bpe, in its own way
    return not is_joined and all(map(importlib.util.find_spec, ("sacremoses", "sentencepiece", "subword_nmt")))
