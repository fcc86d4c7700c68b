"""fairseq's trainer; a training that diverges or cannot start ends with a one-line error and keeps existing files."""

import logging
import math
import os
import sys
from typing import Any

import torch
from fairseq import trainer
from fairseq.file_io import PathManager

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import check_can_be_written
from resmlp_mt.common.matmul import has_bfloat16
from resmlp_mt.fairseq_plugin.checkpoints import DoesNotFit, check_dictionaries
from resmlp_mt.fairseq_plugin.dynamicconv import DynamicConvModel
from resmlp_mt.fairseq_plugin.resmlp_transformer import ResMLPTransformerModel
from resmlp_mt.fairseq_plugin.task import Task
from resmlp_mt.fairseq_plugin.uncaught import loaded

logger = logging.getLogger(__name__)


class Trainer(trainer.Trainer):
    """The trainer of one process. Checks for NaN and for the optimizer's state are for models of this plugin alone."""

    def __init__(self, cfg: Any, task: Any, *args: Any, **kwargs: Any):
        on_cpu = cfg.common.cpu or not torch.cuda.is_available()
        if cfg.common.amp and on_cpu and isinstance(task, Task):
            # fairseq's --amp would also scale the loss: bfloat16 does not need that, as its range is that of fp32
            cfg.common.amp, task.mixed_on_cpu = False, has_bfloat16()
            how = "matrix products in bfloat16" if task.mixed_on_cpu else "fp32, as bfloat16 is slow on this processor"
            logger.info(f"--amp on a CPU: {how}")
        super().__init__(cfg, task, *args, **kwargs)

    @property
    def is_ours(self) -> bool:
        return isinstance(self.get_model(), ResMLPTransformerModel | DynamicConvModel)

    def _build_optimizer(self) -> None:
        if self.cfg.optimizer is None:
            raise UserError("--optimizer is missing: give one, as in --optimizer adagrad")
        super()._build_optimizer()

    def load_checkpoint(self, filename: str, reset_optimizer: bool = False, *args: Any, **kwargs: Any) -> Any:
        last = os.path.join(self.cfg.checkpoint.save_dir, f"checkpoint_last{self.checkpoint_suffix}.pt")
        if filename != last and not PathManager.isfile(filename):
            raise UserError(f"--restore-file or --continue-once {filename}: no such file: name one, or none")
        self.cfg.checkpoint.load_checkpoint_on_all_dp_ranks = True  # PyTorch refuses what one process would send
        try:
            extra_state = super().load_checkpoint(filename, reset_optimizer, *args, **kwargs)
            if isinstance(self.task, Task):
                check_dictionaries(extra_state or {}, [self.task.src_dict, self.task.tgt_dict])
        except Exception as error:
            cause = error if isinstance(error, DoesNotFit) else error.__context__
            if not isinstance(cause, DoesNotFit):
                raise
            raise UserError(f"{filename}: {cause}{', or another --save-dir' if filename == last else ''}") from error
        done, asked = self.get_num_updates(), self.cfg.optimization.max_update
        if self.is_ours and extra_state and not reset_optimizer and done < self._optim_history[-1]["num_updates"]:
            problem = "holds no state of its optimizer: the training would begin anew"
            raise UserError(f"{filename}: {problem}: give --reset-optimizer, or another --save-dir")
        early_stop().clear()  # of another training in this process
        if extra_state and filename == last and not (reset_optimizer or kwargs.get("reset_meters")):
            early_stop().update(extra_state.get("early_stop", {}))
        stopped = 0 < self.cfg.checkpoint.patience <= early_stop().get("num_runs", 0)
        if stopped or 0 < asked <= done:  # fairseq would do one update, or one epoch, more, each time
            why = "--patience has ended the training: to go on, raise it" if stopped else f"--max-update is {asked}"
            logger.info("nothing to train: %s updates are done, %s", done, why)
            self.cfg.optimization.max_epoch = -1  # is read after this: no epoch is left
        return extra_state

    def get_valid_iterator(self, subset: str, disable_iterator_cache: bool = False) -> Any:
        # fairseq keeps one iterator a dataset: validating on the training set would take epochs from the training
        same = subset == self.cfg.dataset.train_subset
        return super().get_valid_iterator(subset, disable_iterator_cache or same)

    def valid_step(self, *args: Any, **kwargs: Any) -> Any:
        outputs = super().valid_step(*args, **kwargs)
        if self.is_ours and not math.isfinite(outputs.get("loss", 0)):
            raise self._diverged(f"the validation loss is {outputs['loss']}")
        return outputs

    def save_checkpoint(self, filename: str, extra_state: Any) -> Any:
        if self.is_ours:
            error = sys.exc_info()[1] if os.path.basename(filename) == "crash.pt" else None
            if isinstance(error, UserError):
                return None  # a mistake that is reported needs no dump
            if isinstance(error, FloatingPointError):
                raise self._diverged(str(error).split("\n")[0].rstrip(".")) from error
            for name, weight in self.get_model().named_parameters():
                if not torch.isfinite(weight).all():
                    raise self._diverged(f"weights are nan or infinite ({name})")
        extra_state = {**extra_state, "early_stop": early_stop(), "task_state": self.task.state_dict()}
        return super().save_checkpoint(filename, extra_state)

    def _diverged(self, what: str) -> UserError:
        return UserError(
            f"after update {self.get_num_updates()}, with learning rate {self.get_lr():.3g}: {what}: the training has "
            "diverged: lower --lr, raise --warmup-updates or give a (lower) --clip-norm, and run it again: it goes on "
            f"from the last checkpoint in {self.cfg.checkpoint.save_dir}, or from an earlier --restore-file"
        )


def early_stop() -> dict[str, Any]:
    """Return what fairseq-train knows of ``--patience``, attributes of a function: it saves them nowhere."""
    return next((vars(command.main.__globals__["should_stop_early"]) for command in loaded("fairseq_cli.train")), {})


def check_save_dir(save_dir: str) -> None:
    """Make the folder, if it is missing, and check that checkpoints can be written to it."""
    os.makedirs(save_dir, exist_ok=True)
    check_can_be_written(os.path.join(save_dir, "checkpoint_last.pt"))
