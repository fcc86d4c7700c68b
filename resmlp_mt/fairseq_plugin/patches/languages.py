"""The languages of a translation, where an option does not give them."""

import functools
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairseq import options, utils
from fairseq.data import data_utils
from fairseq.tasks import TASK_REGISTRY
from fairseq.tasks.translation import TranslationTask

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.patches.raw_text import is_recorded, record_of


def complete_languages() -> None:
    """Complete ``--source-lang`` and ``--target-lang`` from the names of the data's files, before anything needs them.

    fairseq's task does so for itself alone, a tokenizer and a checkpoint then lack them; and of one that is given it
    takes no notice: ``--source-lang de`` on data of en to de would translate, or train, from English.
    """
    options.parse_args_and_arch = _completing(options.parse_args_and_arch)
    setup_task = TranslationTask.__dict__["setup_task"].__func__

    @functools.wraps(setup_task)
    def complete_and_setup(cls: type[TranslationTask], cfg: Any, **kwargs: Any) -> TranslationTask:
        _complete(cfg)
        return setup_task(cls, cfg, **kwargs)

    TranslationTask.setup_task = classmethod(complete_and_setup)


def _completing(parse: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(parse)
    def parse_and_complete(*args: Any, **kwargs: Any) -> Any:
        parsed = parse(*args, **kwargs)
        given: Namespace = parsed[0] if isinstance(parsed, tuple) else parsed
        if hasattr(given, "data") and TASK_REGISTRY.get(getattr(given, "task", None)) is TranslationTask:
            _complete(given)
        return parsed

    return parse_and_complete


def _complete(cfg: Any) -> None:
    given = (getattr(cfg, name, None) for name in ("data", "source_lang", "target_lang"))  # a checkpoint may lack some
    cfg.source_lang, cfg.target_lang = completed(*given)


def completed(data: str | None, source: str | None, target: str | None) -> tuple[str | None, str | None]:
    """Source and target language, what is missing taken from the data; what is no folder of data, the task tells.

    Raises:
        UserError: the data is of others, or the two are one
    """
    folder = utils.split_paths(data)[0] if data else ""
    known = {path.name.split(".")[1] for path in Path(folder).glob("dict.*.txt")} if folder else set()
    if not known:
        return source, target
    for side, language in {"source": source, "target": target}.items():
        if language is not None and language not in known:
            raise UserError(f"--{side}-lang {language}: {folder} is data of {' and '.join(sorted(known))}")
    if source is None or target is None:
        first, second = data_utils.infer_language_pair(folder)
        if first is None and is_recorded(folder):
            first, second = record_of(folder).languages
        if source is None and target is None:
            source, target = first, second
        elif source is None:
            source = first if target == second else second
        else:
            target = second if source == first else first
    if source is not None and source == target:
        raise UserError(f"--source-lang {source} and --target-lang {target}: give two languages")
    return source, target
