"""fairseq's translation task; it also checks data, completes languages, prepares text, keeps empty sentences empty."""

import json
import logging
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from fairseq.data import Dictionary, data_utils
from fairseq.ngram_repeat_block import is_cuda_extension_usable
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.translation import TranslationTask
from omegaconf import DictConfig, open_dict
from torch import Tensor, nn

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.binarized import AGAIN, check_binarized, read_dictionary
from resmlp_mt.fairseq_plugin.checkpoints import check_dictionaries, checksum_of
from resmlp_mt.fairseq_plugin.raw_text import PREPARED, is_recorded, record_of

logger = logging.getLogger(__name__)


class Task(TranslationTask):
    """``--task translation``."""

    mixed_on_cpu = False  # training with --amp and without a GPU: matrix products in bfloat16
    needs_targets = False

    @classmethod
    def setup_task(cls, cfg: Any, **kwargs: Any) -> TranslationTask:
        complete_languages(cfg)
        return super().setup_task(cfg, **kwargs)

    @classmethod
    def load_dictionary(cls, filename: str) -> Dictionary:
        return read_dictionary(Path(filename))

    def build_criterion(self, *args: Any, **kwargs: Any) -> Any:
        self.needs_targets = True  # training and validation call this before they load data
        return super().build_criterion(*args, **kwargs)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "dictionaries": checksum_of([self.src_dict, self.tgt_dict])}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        check_dictionaries({"task_state": state_dict}, [self.src_dict, self.tgt_dict])
        super().load_state_dict(state_dict)

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        source, target = self.cfg.source_lang, self.cfg.target_lang
        folders = utils.split_paths(self.cfg.data)
        folder = folders[(epoch - 1) % len(folders) if split == self.cfg.train_subset else 0]
        for language, dictionary in (source, self.src_dict), (target, self.tgt_dict):
            for pair in f"{source}-{target}", f"{target}-{source}":
                for index in Path(folder).glob(f"{split}{'*' if combine else ''}.{pair}.{language}.idx"):
                    if index.with_suffix(".bin").is_file():
                        check_binarized(str(index.with_suffix("")), len(dictionary))
        # fairseq's default, -1, fails for train1 beside train
        self.cfg.upsample_primary = max(1, self.cfg.upsample_primary)
        super().load_dataset(split, epoch, combine, **kwargs)
        aligned = self.needs_targets and self.cfg.load_alignments and split == self.cfg.train_subset
        if aligned and self.datasets[split].align_dataset is None:
            raise UserError(
                f"--load-alignments: {folder} has no {split}.align.{source}-{target}: make it or leave it out"
            )
        if self.needs_targets and self.datasets[split].tgt is None:
            raise UserError(f"{folder}: {split} has no .bin and .idx of {target}, the target side: {AGAIN}")

    def filter_indices_by_size(
        self, indices: Any, dataset: Any, max_positions: Any = None, ignore_invalid_inputs: bool = False
    ) -> Any:
        kept, ignored = dataset.filter_indices_by_size(indices, max_positions)
        raising = f"than {max_positions}: raise --max-source-positions or --max-target-positions (train it so)"
        if len(ignored) > 0 and not ignore_invalid_inputs:
            sizes = " and ".join(map(str, dataset.size(ignored[0])))
            raise UserError(
                f"sentence {ignored[0] + 1} has {sizes} positions (source and target; subwords and </s>), more "
                f"{raising}, or leave it and {len(ignored) - 1} others out by --skip-invalid-size-inputs-valid-test"
            )
        if len(indices) > 0 and len(kept) == 0:
            raise UserError(f"all of {len(indices):,} sentences have more positions {raising} or --max-tokens")
        return super().filter_indices_by_size(indices, dataset, max_positions, ignore_invalid_inputs)

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        trained = getattr(cfg, "source_lang", None), getattr(cfg, "target_lang", None)
        if from_checkpoint and trained == (self.cfg.target_lang, self.cfg.source_lang):
            logger.warning(
                f"the model was trained to translate from {trained[0]} to {trained[1]}, not from {trained[1]} to "
                f"{trained[0]}: give --source-lang and --target-lang as its training had them"
            )
        for name in ("max_source_positions", "max_target_positions") if from_checkpoint else ():
            limit = getattr(cfg, name, None) or 1024
            if getattr(self.cfg, name) == 1024:  # fairseq's default: too low for a longer model
                setattr(self.cfg, name, limit if self.cfg.truncate_source else max(1024, limit))
        if self.cfg.eval_bleu and self.cfg.eval_bleu_detok == PREPARED:
            where = {name: getattr(self.cfg, name) for name in ("data", "source_lang", "target_lang")}
            told = json.loads(self.cfg.eval_bleu_detok_args or "{}")  # a checkpoint may not name files
            self.cfg.eval_bleu_detok_args = json.dumps({**told, **where} if from_checkpoint else {**where, **told})
        if self.cfg.eval_bleu and from_checkpoint and not is_cuda_extension_usable():
            searching = json.loads(self.cfg.eval_bleu_args or "{}")
            self.cfg.eval_bleu_args = json.dumps({**searching, "no_repeat_ngram_size": 0})  # training ignored it
        return super().build_model(cfg, from_checkpoint)

    def train_step(self, sample: Any, model: Any, criterion: Any, *args: Any, **kwargs: Any) -> Any:
        def in_bfloat16(*given: Any) -> Any:
            with torch.autocast("cpu", torch.bfloat16):
                return criterion(*given)

        return super().train_step(sample, model, in_bfloat16 if self.mixed_on_cpu else criterion, *args, **kwargs)

    def build_generator(self, models: list[nn.Module], args: Any, *more: Any, **kwargs: Any) -> Any:
        beam, nbest = getattr(args, "beam", 5), getattr(args, "nbest", 1)
        if beam < 1 or nbest > beam:
            raise UserError(f"--nbest {nbest} --beam {beam}: give a --beam of 1 or more, and no more --nbest")
        check_ngrams(args)
        if getattr(args, "score_reference", False) or getattr(args, "prefix_size", 0) > 0:
            for split, dataset in self.datasets.items():
                if dataset.tgt is None:
                    raise UserError(f"--score-reference, --prefix-size: {split} has no target side")
        language_model = (kwargs.get("extra_gen_cls_kwargs") or {}).get("lm_model")
        if language_model is not None and not args.lm_weight:
            logger.warning("--lm-path has no effect, as --lm-weight is 0, which is the default")
        if language_model is not None and language_model.decoder.dictionary != self.tgt_dict:
            raise UserError(f"--lm-path {args.lm_path}: its dictionary, dict.txt of the data, is not the target's")
        return super().build_generator(models, args, *more, **kwargs)

    def inference_step(
        self, generator: Any, models: Any, sample: Any, prefix_tokens: Any = None, constraints: Any = None
    ) -> list[list[dict[str, Tensor]]]:
        found = super().inference_step(generator, models, sample, prefix_tokens, constraints)
        if not isinstance(generator, SequenceGenerator) or prefix_tokens is not None:
            return found  # a target is given, to be scored or continued
        tokens = sample["net_input"]["src_tokens"]
        empty = tokens.ne(self.src_dict.pad()).sum(1) <= 1  # </s> alone
        if constraints is not None:
            empty &= constraints[:, 0].to(empty.device) == 0  # how many constraints each sentence has
        for number in empty.nonzero().flatten().tolist():
            end, scores = tokens.new_tensor([self.tgt_dict.eos()]), torch.zeros(1, device=tokens.device)
            nothing = {"tokens": end, "score": scores[0], "positional_scores": scores}
            found[number] = [{**nothing, "attention": torch.empty(0), "alignment": torch.empty(0)}]
        return found

    def build_tokenizer(self, args: Any) -> Any:
        return super().build_tokenizer(self._with_data(args))

    def build_bpe(self, args: Any) -> Any:
        return super().build_bpe(self._with_data(args))

    def _with_data(self, choice: Any) -> Any:
        """Return a choice of tokenizer or BPE; where it has options for data and languages, set the task's."""
        if isinstance(choice, DictConfig):
            with open_dict(choice):
                for name in "data", "source_lang", "target_lang":
                    if name in choice:
                        choice[name] = getattr(self.cfg, name)
        return choice


def check_ngrams(args: Any) -> None:
    """Check that fairseq prevents repeated n-grams, if it is asked to."""
    if getattr(args, "no_repeat_ngram_size", 0) and not is_cuda_extension_usable():
        why = "does nothing without fairseq's CUDA kernels"
        raise UserError(f"--no-repeat-ngram-size (--eval-bleu-args): {why}: leave it out")


def complete_languages(cfg: Any) -> None:
    """Set missing languages in a task's options to those of its data folder, if there is one; check given ones."""
    data, source, target = (getattr(cfg, name, None) for name in ("data", "source_lang", "target_lang"))
    folder = utils.split_paths(data)[0] if data else ""
    known = {path.name.split(".")[1] for path in Path(folder).glob("dict.*.txt")} if folder else set()
    for side, language in ("source", source), ("target", target):
        if known and language is not None and language not in known:
            raise UserError(f"--{side}-lang {language}: {folder} is data of {' and '.join(sorted(known))}")
    if known and (source is None or target is None):
        first, second = data_utils.infer_language_pair(folder)
        if first is None and is_recorded(folder):
            first, second = record_of(folder).languages
        source = source or (first if target in (None, second) else second)
        target = target or (second if source == first else first)
    if known and source is not None and source == target:
        raise UserError(f"--source-lang {source} and --target-lang {target}: give two languages")
    cfg.source_lang, cfg.target_lang = source, target
