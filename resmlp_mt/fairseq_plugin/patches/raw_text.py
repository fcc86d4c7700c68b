"""Raw text is treated as the preparation of its data treated it: ``--tokenizer prepared --bpe prepared``."""

import argparse
import contextlib
import functools
import importlib.util
import io
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Optional

from fairseq import options, utils
from fairseq.data.encoders import register_bpe, register_tokenizer
from fairseq.dataclass import FairseqDataclass
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY
from fairseq.tasks.translation import TranslationTask
from omegaconf import DictConfig, OmegaConf, open_dict

from resmlp_mt.common.errors import UserError

if TYPE_CHECKING:
    from resmlp_mt.data.raw_text import RawText

logger = logging.getLogger(__name__)

PREPARED = "prepared"
RECORD = "text.json"  # corpora.raw_text.NAME: that module imports what only raw text needs


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
    """How the text of ``data`` was treated.

    Raises:
        UserError: it does not tell
    """
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


def treat_raw_text_as_prepared() -> None:
    """Choose the preparation's treatment of text where the data tells it and no option does; tell mistakes in one line.

    fairseq builds ``--tokenizer`` and ``--bpe`` from options alone; what data and languages its task has, it asks here.
    """
    options.parse_args_and_arch = _choosing(options.parse_args_and_arch)
    TranslationTask.build_tokenizer = _building(TranslationTask.build_tokenizer, "tokenizer")
    TranslationTask.build_bpe = _building(TranslationTask.build_bpe, "bpe")


def choose_prepared(cfg: DictConfig) -> None:
    """Choose prepared text for ``from_pretrained``, unless its checkpoint or its caller names a tokenizer or BPE."""
    if _name(cfg.tokenizer) is None and _name(cfg.bpe) is None and is_recorded(cfg.task.data):
        with open_dict(cfg):
            cfg.tokenizer = cfg.bpe = OmegaConf.structured(PreparedTextConfig(_name=PREPARED))


def _name(choice: Any) -> str | None:
    return choice.get("_name") if isinstance(choice, DictConfig) else choice


def _choosing(parse: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(parse)
    def parse_and_choose(*args: Any, **kwargs: Any) -> Any:
        parsed = parse(*args, **kwargs)
        chosen: argparse.Namespace = parsed[0] if isinstance(parsed, tuple) else parsed
        if (
            hasattr(chosen, "beam")  # fairseq-generate and fairseq-interactive
            and issubclass(TASK_REGISTRY[chosen.task], TranslationTask)
            and chosen.tokenizer is None
            and chosen.bpe is None
            and is_recorded(chosen.data)
            and (hasattr(chosen, "buffer_size") or _may_be_chosen_for_output(chosen))
        ):
            chosen.tokenizer = chosen.bpe = PREPARED
        return parsed

    return parse_and_choose


def _may_be_chosen_for_output(chosen: argparse.Namespace) -> bool:
    # fairseq-generate needs no more than the subwords: it also runs where fairseq alone is installed
    is_joined = chosen.post_process is not None  # by --remove-bpe, in its own way
    return not is_joined and all(map(importlib.util.find_spec, ("sacremoses", "sentencepiece", "subword_nmt")))


def _building(build: Callable[..., Any], kind: str) -> Callable[..., Any]:
    """A task's method that builds a tokenizer or BPE, with what the task knows, and with one line for a mistake.

    Raises:
        UserError: its files are not given, missing or something else, or its library is missing
    """

    @functools.wraps(build)
    def building(self: TranslationTask, choice: Any) -> Any:
        if isinstance(choice, DictConfig):
            with open_dict(choice):
                for known in "data", "source_lang", "target_lang":
                    if known in choice:
                        choice[known] = self.cfg[known]
        name = _name(choice)
        if name is not None and isinstance(choice, DictConfig):
            keys = (key for key in choice if not OmegaConf.is_missing(choice, key))
            check_files(kind, name, {str(key): choice[key] for key in keys})
        with _told_in_one_line(kind, name):
            return build(self, choice)

    return building


def check_files(kind: str, name: str, given: Mapping[str, Any]) -> None:
    """Look for the files that a tokenizer or BPE cannot be without.

    Args:
        kind: ``"tokenizer"`` or ``"bpe"``
        name: the one that was chosen
        given: its options

    Raises:
        UserError: there is no such choice, or a file is not given or not there
    """
    registered = REGISTRIES[kind]
    if not isinstance(name, str) or name not in registered["registry"]:
        raise UserError(f"--{kind} {name}: give one of {', '.join(sorted(registered['registry']))}")
    needed = registered["dataclass_registry"].get(name)
    for field in fields(needed) if needed else ():
        if field.default == "???":
            option, value = f"--{field.name.replace('_', '-')}", given.get(field.name)
            if value is None:
                raise UserError(f"--{kind} {name}: needs {option}, the file of its learned subwords")
            if not os.path.isfile(value) and "://" not in str(value):
                raise UserError(f"{option} {value}: no such file: give the subwords that the data was made with")


@contextlib.contextmanager
def _told_in_one_line(kind: str, name: str | None) -> Iterator[None]:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):  # subword-nmt says there what is wrong with its codes, and exits
            yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        reason = " ".join((said.getvalue() or str(error)).split())
        raise UserError(f"--{kind} {name}: cannot be used: {reason}") from error
