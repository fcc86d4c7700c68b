"""How fairseq trains: a training that diverges, or that cannot begin, ends in one line and leaves what was there."""

import functools
import logging
import math
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.trainer import Trainer

from resmlp_mt.common.errors import UserError
from resmlp_mt.translate.precision import warn_without_bfloat16

logger = logging.getLogger(__name__)


def end_diverged_trainings() -> None:
    """End a training of our models whose numbers are nan or infinite, before a checkpoint has them.

    Without: fairseq looks at the gradient alone, saves crash.pt and computes the update again to find a culprit; what
    the last update made of the weights is saved unseen, and a validation loss of nan passes.
    """
    Trainer.clip_grad_norm = _finite_gradient(Trainer.clip_grad_norm)
    Trainer._check_grad_norms = _finite_gradient(Trainer._check_grad_norms)
    Trainer.begin_valid_epoch = _finite_weights(Trainer.begin_valid_epoch)
    Trainer.valid_step = _finite_loss(Trainer.valid_step)
    Trainer.save_checkpoint = _finite_weights(_no_crash(Trainer.save_checkpoint))


def begin_trainings() -> None:
    """Refuse a folder that cannot be written and a bad optimizer, and train no further than asked for.

    fairseq tries the folder with a file named ``dummy``, and deletes a user's by that name. A training with
    ``--max-update`` that is done and run again (as one is that was killed after its last checkpoint) gets an update
    more from fairseq.
    """
    checkpoint_utils.verify_checkpoint_directory = _check_folder
    checkpoint_utils.load_checkpoint = _no_more_than_asked(checkpoint_utils.load_checkpoint)
    Trainer._build_optimizer = _told(Trainer._build_optimizer)


def mix_precisions_on_a_cpu() -> None:
    """``--amp`` on a CPU: products in bfloat16, parameters, gradients and all else in fp32, by ``torch.autocast``.

    fairseq asks for CUDA's, which is not there, and trains in fp32. As with CUDA, validation is in fp32.
    """
    Trainer._build_optimizer = _mixed_on_a_cpu(Trainer._build_optimizer)
    FairseqTask.train_step = _in_bfloat16(FairseqTask.train_step)


def _is_ours(trainer: Trainer) -> bool:
    from resmlp_mt.fairseq_plugin.resmlp_transformer import ResMLPTransformerModel

    return isinstance(trainer.get_model(), ResMLPTransformerModel)


def _diverged(trainer: Trainer, what: str, update: int) -> UserError:
    folder, rate = trainer.cfg.checkpoint.save_dir, trainer.get_lr()
    last = os.path.join(folder, f"checkpoint_last{trainer.checkpoint_suffix}.pt")
    again = ""
    if os.path.exists(last):
        again = f"; it goes on from {last}, or, if that is too late, from the --restore-file that you give"
    return UserError(
        f"update {update} with learning rate {rate:.3g}: {what}: the training has diverged: lower --lr or "
        f"--clip-norm or raise --warmup-updates, and run it again{again}"
    )


def _finite_gradient(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def finite(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        update = self.get_num_updates() + 1
        try:
            norm = method(self, *args, **kwargs)
        except FloatingPointError as error:  # 16 bits have no smaller loss scale, or the processes do not agree
            if not _is_ours(self):
                raise
            raise _diverged(self, str(error).split("\n")[0].rstrip("."), update) from error
        if norm is not None and not self.cfg.common.amp and _is_ours(self) and not torch.isfinite(norm).all():
            raise _diverged(self, f"the gradient's norm is {float(norm)}", update)
        return norm

    return finite


def _finite_weights(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def finite(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        if _is_ours(self):
            for name, weight in self.get_model().named_parameters():
                if not torch.isfinite(weight).all():
                    raise _diverged(self, f"weights are nan or infinite ({name})", self.get_num_updates())
        return method(self, *args, **kwargs)

    return finite


def _finite_loss(valid_step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(valid_step)
    def finite(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        outputs = valid_step(self, *args, **kwargs)
        if _is_ours(self) and not math.isfinite(outputs.get("loss", 0)):
            raise _diverged(self, f"the validation loss is {outputs['loss']}", self.get_num_updates())
        return outputs

    return finite


def _no_crash(save_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(save_checkpoint)
    def saving(self: Trainer, filename: str, *args: Any, **kwargs: Any) -> Any:
        if os.path.basename(filename) == "crash.pt" and isinstance(sys.exc_info()[1], UserError):
            return None  # a mistake that is told needs no dump
        return save_checkpoint(self, filename, *args, **kwargs)

    return saving


def _mixed_on_a_cpu(build_optimizer: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(build_optimizer)
    def built(self: Trainer) -> None:
        if self.cfg.common.amp and not self.cuda:
            # what fairseq does besides for --amp is to scale the loss, which bfloat16 with its range does not need
            self.cfg.common.amp, self.resmlp_mt_mixed = False, True
            logger.info("--amp on a CPU: products of matrices in bfloat16, all else in fp32")
            warn_without_bfloat16()
        build_optimizer(self)
        self._optimizer.resmlp_mt_mixed = getattr(self, "resmlp_mt_mixed", False)

    return built


def _in_bfloat16(train_step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(train_step)
    def in_bfloat16(
        self: FairseqTask, sample: Any, model: Any, criterion: Any, optimizer: Any, *args: Any, **kwargs: Any
    ) -> Any:
        def mixed(*given: Any) -> Any:
            with torch.autocast("cpu", torch.bfloat16):
                return criterion(*given)

        loss = mixed if getattr(optimizer, "resmlp_mt_mixed", False) else criterion
        return train_step(self, sample, model, loss, optimizer, *args, **kwargs)

    return in_bfloat16


def _check_folder(save_dir: str) -> None:
    try:
        os.makedirs(save_dir, exist_ok=True)
        with tempfile.TemporaryFile(dir=save_dir):
            pass
    except OSError as error:
        raise UserError(
            f"--save-dir {save_dir}: cannot be written ({error.strerror}): choose another folder, or make it writable"
        ) from error


def _no_more_than_asked(load_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load_checkpoint)
    def loading(cfg: Any, trainer: Trainer, **kwargs: Any) -> Any:
        loaded = load_checkpoint(cfg, trainer, **kwargs)
        done, asked = trainer.get_num_updates(), trainer.cfg.optimization.max_update
        if 0 < asked <= done and _is_ours(trainer):
            logger.info("nothing to train: %s updates are done, --max-update is %s", done, asked)
            trainer.cfg.optimization.max_epoch = -1  # read after this: no epoch is left
        return loaded

    return loading


def _told(build_optimizer: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(build_optimizer)
    def told(self: Trainer) -> Any:
        if self.cfg.optimizer is None:
            raise UserError("--optimizer is missing: give one, as in --optimizer adagrad")
        try:
            return build_optimizer(self)
        except (ArithmeticError, AssertionError, NotImplementedError, RuntimeError, ValueError) as error:
            if not _is_ours(self):
                raise
            reason = str(error) or traceback.extract_tb(error.__traceback__)[-1].line  # a bare assert says what it asks
            optimizer, scheduler = self.cfg.optimizer._name, self.cfg.lr_scheduler._name
            half = " --memory-efficient-fp16" if self.cfg.common.memory_efficient_fp16 else ""
            raise UserError(
                f"--optimizer {optimizer} --lr-scheduler {scheduler}{half}: refused by fairseq: {reason}"
            ) from error

    return told
