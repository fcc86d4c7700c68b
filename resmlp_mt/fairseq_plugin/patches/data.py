"""How fairseq reads data-bin: what is wrong with it in one line, before any arithmetic."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.data import Dictionary, LanguagePairDataset, data_utils
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.tasks.translation import TranslationTask
from fairseq.trainer import Trainer

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.binarized import AGAIN, check_binarized
from resmlp_mt.data.dictionaries import read_dictionary


def check_data() -> None:
    """Refuse broken data, data that does not belong together, too long sentences, and data of which nothing is left."""
    TranslationTask.load_dataset = _of_one_length(TranslationTask.load_dataset)
    TranslationTask.load_dictionary = classmethod(lambda cls, filename: read_dictionary(Path(filename)))
    data_utils.load_indexed_dataset = _checked(data_utils.load_indexed_dataset)
    FairseqTask.filter_indices_by_size = _told(FairseqTask.filter_indices_by_size)
    FairseqTask.get_batch_iterator = _filled(FairseqTask.get_batch_iterator)
    Trainer.__init__ = _with_targets(Trainer.__init__)
    Trainer.get_train_iterator = _with_targets(Trainer.get_train_iterator)
    FairseqTask.valid_step = _with_target(FairseqTask.valid_step)


def _of_one_length(load_dataset: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load_dataset)
    def loading(self: TranslationTask, split: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return load_dataset(self, split, *args, **kwargs)
        except AssertionError as error:
            if "same number of examples" not in str(error):
                raise
            raise UserError(
                f"{self.cfg.data}: {split} has more sentences on one side than on the other: {AGAIN}"
            ) from error

    return loading


def _checked(load: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load)
    def checked(path: str, dictionary: Dictionary | None = None, *args: Any, **kwargs: Any) -> Any:
        if Path(f"{path}.idx").is_file() and Path(f"{path}.bin").is_file():
            check_binarized(path, None if dictionary is None else len(dictionary))
        return load(path, dictionary, *args, **kwargs)

    return checked


def _told(filter_indices_by_size: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(filter_indices_by_size)
    def told(
        self: FairseqTask, indices: Any, dataset: Any, max_positions: Any = None, ignore_invalid_inputs: bool = False
    ) -> Any:
        if ignore_invalid_inputs or not isinstance(dataset, LanguagePairDataset):
            return filter_indices_by_size(self, indices, dataset, max_positions, ignore_invalid_inputs)
        indices, ignored = dataset.filter_indices_by_size(indices, max_positions)
        if len(ignored) > 0:
            raise UserError(_too_long(_name(self, dataset), dataset, sorted(ignored), max_positions))
        return indices

    return told


def _too_long(name: str, dataset: LanguagePairDataset, numbers: list[int], max_positions: Any) -> str:
    limits = max_positions if isinstance(max_positions, tuple) else (max_positions, max_positions)
    sizes = {"source": dataset.src_sizes, "target": dataset.tgt_sizes}
    found, longest = [], []
    for (side, lengths), limit in zip(sizes.items(), limits, strict=True):
        if lengths is not None and lengths[numbers[0]] > limit:
            length = f"{lengths[numbers[0]]} {side} positions (subwords and </s>)"
            found.append(f"{length}, --max-{side}-positions is {limit}")
            longest.append(str(max(lengths[numbers])))
    return (
        f"sentence {numbers[0] + 1} of {name} has {' and '.join(found)}: raise that to {' and '.join(longest)} (a "
        f"trained model's own: train it so), split or drop the sentence, or leave out what is too long ({len(numbers)} "
        f"of {len(dataset)} sentences) by --skip-invalid-size-inputs-valid-test"
    )


def _name(task: FairseqTask, dataset: Any) -> str:
    return next((name for name, each in task.datasets.items() if each is dataset), "the input")


def _filled(get_batch_iterator: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(get_batch_iterator)

    @functools.wraps(get_batch_iterator)
    def filled(self: FairseqTask, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(self, *args, **kwargs).arguments
        dataset, tokens = given["dataset"], given.get("max_tokens")
        name = _name(self, dataset)
        try:
            batches = get_batch_iterator(self, *args, **kwargs)
        except IndexError as error:  # of the last batch, where there is none
            if name not in self.datasets or len(_kept(dataset, given)):
                raise
            raise UserError(f"{name}: {_why_empty(dataset, given)}") from error
        except AssertionError as error:
            if "exceed max_tokens" not in str(error):
                raise
            raise UserError(
                f"--max-tokens {tokens}: a sentence of {name} alone has more positions: raise it"
            ) from error
        if name in self.datasets and not batches.frozen_batches:
            raise UserError(f"{name}: {_why_empty(dataset, given)}")
        return batches

    return filled


def _kept(dataset: LanguagePairDataset, given: dict[str, Any]) -> Any:
    kept, _ = dataset.filter_indices_by_size(np.arange(len(dataset)), given.get("max_positions"))
    return kept


def _why_empty(dataset: LanguagePairDataset, given: dict[str, Any]) -> str:
    kept = _kept(dataset, given)
    if len(kept):
        multiple = given.get("required_batch_size_multiple")
        return f"its {len(kept)} sentences do not fill a batch of --required-batch-size-multiple {multiple}: give 1"
    return (
        f"all of its {len(dataset):,} sentences have more positions (subwords, </s>) than "
        f"{given.get('max_positions')} (source, target): "
        "raise --max-source-positions, --max-target-positions or --max-tokens, whichever is that low"
    )


def _with_targets(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def checked(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        _require_targets(self.task)
        return result

    return checked


def _with_target(valid_step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(valid_step)
    def checked(self: FairseqTask, *args: Any, **kwargs: Any) -> Any:
        _require_targets(self)
        return valid_step(self, *args, **kwargs)

    return checked


def _require_targets(task: FairseqTask) -> None:
    for name, dataset in task.datasets.items():
        if isinstance(dataset, LanguagePairDataset) and dataset.tgt is None:
            language = task.cfg.target_lang
            raise UserError(f"{task.cfg.data}: {name} has no .bin and .idx of {language}, the target side: {AGAIN}")
