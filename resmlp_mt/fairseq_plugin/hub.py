"""``from_pretrained`` and what it returns: text in, text out."""

import copy
import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from fairseq import hub_utils, utils
from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.configs import GenerationConfig
from fairseq.dataclass.utils import interpret_dc_type
from omegaconf import open_dict
from torch import Tensor, nn

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.encoder import check_length
from resmlp_mt.fairseq_plugin.patches.languages import completed
from resmlp_mt.fairseq_plugin.patches.options import check_names, known_options
from resmlp_mt.fairseq_plugin.patches.raw_text import check_files, choose_prepared

logger = logging.getLogger(__name__)

SEARCHING = {
    # options of fairseq-generate that its search reads; the others are of its input and output, or of other searches
    *("beam", "nbest", "lenpen", "unkpen", "unnormalized", "temperature", "min_len", "max_len_a", "max_len_b"),
    *("match_source_len", "no_repeat_ngram_size", "sampling", "sampling_topk", "sampling_topp", "print_alignment"),
    *("diverse_beam_groups", "diverse_beam_strength", "diversity_rate"),
}
OWN = {"skip_invalid_size_inputs", "inference_step_args", "prefix_allowed_tokens_fn"}


class TextTranslator(hub_utils.GeneratorHubInterface):
    """fairseq's interface to trained models, with one result for each sentence.

    Text is treated as the options of ``from_pretrained`` say or, without any, as preparing treated the data's.
    """

    def __init__(self, cfg: Any, task: Any, models: list[nn.Module]):
        choose_prepared(cfg)
        tokenizer, bpe = copy.deepcopy((cfg.tokenizer, cfg.bpe))  # old versions of omegaconf empty what None replaces
        cfg.tokenizer = cfg.bpe = None  # or fairseq builds them, without the languages that the task has found
        super().__init__(cfg, task, models)
        with open_dict(cfg):  # old versions of omegaconf know no key of what was None
            cfg.tokenizer, cfg.bpe = tokenizer, bpe
        self.tokenizer = task.build_tokenizer(cfg.tokenizer)
        self.bpe = task.build_bpe(cfg.bpe)

    def translate(self, sentences: Any, beam: int = 5, verbose: bool = False, **kwargs: Any) -> Any:
        """Translate running text.

        Args:
            sentences: a sentence, or any number of them. One without a word has an empty translation
            beam: width of the search
            verbose: log what fairseq-generate prints
            kwargs: (None is as if not given) ``nbest``: how many translations of each sentence, of at most ``beam``;
                ``skip_invalid_size_inputs=True``: a sentence that is too long has an empty translation, with a warning;
                and the options of fairseq-generate for its search: ``lenpen``, ``max_len_b``, ``sampling``, ...

        Returns:
            the translation of a single sentence, or a list of translations; with ``nbest`` above 1, in the place of
            each translation a list of them, the best first

        Raises:
            UserError: before any work, for a sentence that is too long, an option that there is not, ...
        """
        return self.sample(sentences, beam, verbose, **kwargs)

    def sample(self, sentences: Any, beam: int = 1, verbose: bool = False, nbest: int = 1, **kwargs: Any) -> Any:
        """``translate`` with another default of ``beam``."""
        if isinstance(sentences, str):
            return self.sample([sentences], beam, verbose, nbest, **kwargs)[0]
        if isinstance(sentences, bytes) or not isinstance(sentences, Iterable):
            raise UserError(f"sentences: {type(sentences).__name__}: give a str or a list of str")
        _check_whole(beam=beam, nbest=nbest)
        if nbest > beam:
            raise UserError(f"nbest {nbest}: a search with beam {beam} finds no more than {beam}: raise beam")
        check_names("translate", kwargs, SEARCHING | OWN)
        tokens = [self._encode(*each, kwargs.get("skip_invalid_size_inputs", False)) for each in enumerate(sentences)]
        found = self.generate(tokens, beam, verbose, **kwargs)
        texts = [[self.decode(hypothesis["tokens"]) for hypothesis in best[:nbest]] for best in found]
        return texts if nbest > 1 else [best for (best,) in texts]

    def generate(
        self,
        tokenized_sentences: Any,
        beam: int = 5,
        verbose: bool = False,
        skip_invalid_size_inputs: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Search: from rows of numbers, each of which ends with ``</s>``, to lists of hypotheses as fairseq has them.

        Raises:
            UserError: before any work, for a sentence that is too long, what are no tokens, a bad option
        """
        if isinstance(tokenized_sentences, Tensor) and tokenized_sentences.dim() == 1:
            return self.generate([tokenized_sentences], beam, verbose, skip_invalid_size_inputs, **kwargs)[0]
        check_names("generate", kwargs, SEARCHING | OWN)
        _check_whole(beam=beam)
        _check_flags(verbose=verbose, skip_invalid_size_inputs=skip_invalid_size_inputs)
        kwargs = {name: _searching(name, value) for name, value in kwargs.items() if value is not None}
        try:
            rows = list(tokenized_sentences)
        except TypeError as error:
            raise UserError("tokenized_sentences: give a list of tensors, as encode makes them") from error
        tokens = [self._fitting(*each, skip_invalid_size_inputs) for each in enumerate(rows)]
        return super().generate(tokens, beam, verbose, **kwargs) if tokens else []

    def score(self, *args: Any, **kwargs: Any) -> Any:
        """Not available: fairseq scores no translations through this interface.

        Raises:
            UserError: always
        """
        raise UserError("score: not for translations: fairseq-generate --score-reference scores those of a data-bin")

    def _encode(self, number: int, sentence: Any, skip: bool) -> Tensor:
        if not isinstance(sentence, str):
            raise UserError(f"sentences[{number}]: {type(sentence).__name__}: give a str")
        try:
            return self.encode(sentence)
        except UserError as error:
            return self._refuse(number, error, skip)

    def _fitting(self, number: int, tokens: Any, skip: bool) -> Tensor:
        symbols = len(self.src_dict)
        is_row = isinstance(tokens, Tensor) and tokens.dtype in (torch.int32, torch.int64) and tokens.dim() == 1
        if not is_row or not tokens.numel() or not 0 <= int(tokens.min()) <= int(tokens.max()) < symbols:
            raise UserError(
                f"tokenized_sentences[{number}]: give a tensor of whole numbers from 0 to {symbols - 1}, as encode does"
            )
        try:
            check_length(tokens.numel(), self.max_positions[0], "source")
        except UserError as error:
            return self._refuse(number, error, skip)
        return tokens

    def _refuse(self, number: int, error: UserError, skip: bool) -> Tensor:
        """An empty sentence in the place of one that cannot be translated, if ``skip``; else the error."""
        if not skip:
            raise UserError(
                f"sentences[{number}]: {error}; skip_invalid_size_inputs=True translates the others"
            ) from error
        logger.warning(f"sentences[{number}]: {error}; its translation is empty")
        return self.binarize("")

    def _build_batches(self, tokens: list[Tensor], skip_invalid_size_inputs: bool) -> Iterator[dict[str, Any]]:
        # The training's batches may be smaller than the longest sentence that the model can take.
        lengths = [sentence.numel() for sentence in tokens]
        most = self.cfg.dataset.max_tokens
        return self.task.get_batch_iterator(
            dataset=self.task.build_dataset_for_inference(tokens, lengths),
            max_tokens=most and max(most, *lengths),
            max_sentences=self.cfg.dataset.batch_size,
            max_positions=self.max_positions,
            disable_iterator_cache=True,
        ).next_epoch_itr(shuffle=False)


def from_pretrained(
    add_model_args: Any, folder: str | os.PathLike, file: str | os.PathLike, data: str | os.PathLike, /, **options: Any
) -> TextTranslator:
    """Load a trained model with its data's dictionaries and treatment of text.

    Args:
        add_model_args: the model's ``add_args``
        folder: of the checkpoint. (An archive of one fairseq would delete once it is unpacked.)
        file: the checkpoint's name there; several, with ``:`` between, are an ensemble
        data: folder of binarized data; with a dot in front, in ``folder`` if it is there, else as the user stands
        options: any option of the training or of generation in the place of the checkpoint's own

    Raises:
        UserError: something is missing, or there is no such option
    """
    _check_options(options, add_model_args)
    for name, path in {"model_name_or_path": folder, "checkpoint_file": file, "data_name_or_path": data}.items():
        if not isinstance(path, str | os.PathLike):
            raise UserError(f"from_pretrained: {name} is {path!r}: give a path")
    folder, data = os.fspath(folder), os.fspath(data)
    if os.path.isfile(folder):
        names = ", ".join(map(repr, os.path.split(folder)))
        raise UserError(f"{folder}: a file: give its folder and its name apart: from_pretrained({names}, ...)")
    if not os.path.isdir(folder):
        raise UserError(f"{folder}: no such folder: give that of the checkpoint, the checkpoint's name, the data")
    data = _folder_of_data(folder, data)
    given = options.get("source_lang"), options.get("target_lang")
    if any(given):  # if one is given, the checkpoint's other one must not stay: it may be the same language
        options |= dict(zip(("source_lang", "target_lang"), completed(data, *given), strict=True))
    loaded = hub_utils.from_pretrained(folder, os.fspath(file), data, archive_map={}, **options)
    for part in "dataset", "generation":
        if not isinstance(loaded["args"].get(part), Mapping):
            raise UserError(f"{file}: its options lack those of {part}: give a checkpoint of fairseq-train")
    most = loaded["args"].dataset.get("max_tokens")
    if most is not None:
        _check_number("max_tokens", most)
    return TextTranslator(loaded["args"], loaded["task"], loaded["models"])


def _folder_of_data(folder: str, data: str) -> str:
    first = utils.split_paths(data)[0]
    places = [os.path.join(folder, first)] if first.startswith(".") else []
    places.append(first)
    place = next((place for place in places if os.path.isdir(place)), None)
    if place is None:
        raise UserError(f"{data}: no such folder: give that of the binarized data as the third argument")
    if not list(Path(place).glob("dict.*.txt")):
        raise UserError(f"{place}: no dict.LANGUAGE.txt: give the folder of the binarized data as the third argument")
    return data if place == first and not first.startswith(".") else os.path.abspath(place)


def _check_options(options: dict[str, Any], add_model_args: Any) -> None:
    """Refuse options that fairseq would ignore or fail on."""
    if "data" in options:
        raise UserError("from_pretrained: data is no option: give the folder of binarized data as the third argument")
    types = known_options(add_model_args)
    for kind in "tokenizer", "bpe":
        if kind in options:
            check_files(kind, options[kind], options)
    check_names("from_pretrained", options, {*types, "generation_args"})
    for name, value in options.items():
        expected = interpret_dc_type(types.get(name, Any))
        is_group = (isinstance(expected, type) and issubclass(expected, FairseqDataclass)) or name in ("task", "model")
        if is_group and not isinstance(value, dict):
            raise UserError(f"from_pretrained: {name} is a group of options: give them by their own names")
        if expected in (int, float) and value is not None:
            _check_number(name, value)
    if "user_dir" in options and not os.path.exists(options["user_dir"]):
        raise UserError(f"from_pretrained: user_dir {options['user_dir']}: no such folder")


_TYPES = {field.name: field.type for field in fields(GenerationConfig)}


def _searching(name: str, value: Any) -> Any:
    """The value of an option of ``generate``, a float where fairseq's own commands have one.

    Raises:
        UserError: it is of another type than the option's, which fairseq would take or fail on
    """
    expected = _TYPES.get(name)
    if name == "prefix_allowed_tokens_fn" and not callable(value):
        raise UserError(f"{name} {value!r:.60}: give a function")
    if name == "inference_step_args" and not isinstance(value, Mapping):
        raise UserError(f"{name} {value!r:.60}: give a dictionary")
    if name == "print_alignment" and value not in ("hard", "soft"):
        raise UserError(f"{name} {value!r:.60}: give 'hard' or 'soft'")
    if expected is bool:
        _check_flags(**{name: value})
    elif expected is int and type(value) is not int:
        raise UserError(f"{name} {value!r:.60}: give a whole number")
    elif expected is float:
        if type(value) not in (int, float):
            raise UserError(f"{name} {value!r:.60}: give a number")
        return float(value)
    return value


def _check_flags(**flags: Any) -> None:
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise UserError(f"{name} {value!r:.60}: give True or False")


def _check_number(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise UserError(f"from_pretrained: {name} is {value!r}: give a number")


def _check_whole(**numbers: Any) -> None:
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise UserError(f"{name} {number!r}: give a whole number from 1")
