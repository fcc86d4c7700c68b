"""What a training begins with: another training's checkpoint."""

import functools
from collections.abc import Callable
from typing import Any

from fairseq import checkpoint_utils
from fairseq.file_io import PathManager
from fairseq.logging import metrics
from fairseq.trainer import Trainer
from torch import Tensor

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.checkpoints.loading import load_parts, one_line, options_of
from resmlp_mt.fairseq_plugin.checkpoints.parameters import DoesNotFit
from resmlp_mt.fairseq_plugin.presets import BASE, FOLLOWS
from resmlp_mt.fairseq_plugin.resmlp_transformer import ResMLPTransformerModel

_DEFAULT = "checkpoint_last.pt"
_SHAPING = [
    "arch",
    *(option for option in (*BASE, *FOLLOWS) if option not in ("activation_fn", "dropout", "layerscale_init")),
    *("share_all_embeddings", "share_decoder_input_output_embed", "encoder_learned_pos", "decoder_learned_pos"),
    *("no_cross_attention", "adaptive_softmax_cutoff"),
]
"""Options of this plugin's models that change names or shapes of parameters."""

_FACTORS = "exp_avg_sq_row", "exp_avg_sq_col"
"""What Adafactor knows of a parameter in the place of a number for each of its own."""

_BAD_STATE = ArithmeticError, AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError


def begin_with_the_right_checkpoint() -> None:
    """Let a training that cannot begin with the checkpoint that it is given end in one line.

    Without a word, fairseq begins anew where ``--restore-file`` is missing. Processes that train together each load the
    file: PyTorch refuses what fairseq's first process would send to the others.
    """
    checkpoint_utils.load_checkpoint = _with_the_files_there(checkpoint_utils.load_checkpoint)
    Trainer.load_checkpoint = _in_one_line(Trainer.load_checkpoint)


def _with_the_files_there(load: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load)
    def checked_load(cfg: Any, trainer: Any, **passthrough: Any) -> Any:
        finetune, suffix = cfg.finetune_from_model, trainer.checkpoint_suffix or ""
        if finetune and (cfg.reset_optimizer or cfg.reset_lr_scheduler or cfg.reset_meters or cfg.reset_dataloader):
            raise UserError("--finetune-from-model resets all that --reset-... does: leave out one or the other")
        if cfg.restore_file == _DEFAULT:
            last = f"{cfg.save_dir}/{_DEFAULT.replace('.pt', f'{suffix}.pt')}"
            begun = PathManager.exists(last)
            once = getattr(cfg, "continue_once", None)
            needed = {"--continue-once": once} if once else {"--finetune-from-model": finetune}
        else:
            if finetune:
                raise UserError("--finetune-from-model and --restore-file: give one of them")
            begun = False
            needed = {"--restore-file": cfg.restore_file.replace(".pt", f"{suffix}.pt")}
        for option, file in needed.items():
            if file and not begun and not PathManager.isfile(file):
                raise UserError(f"{option} {file}: no such file: give a checkpoint, or leave the option out")
        try:
            return load(cfg, trainer, **passthrough)
        except RuntimeError as error:
            if "--reset-dataloader" not in str(error):
                raise
            raise UserError(
                f"{cfg.save_dir}: its training had more batches an epoch than this data-bin and these options give: "
                "give the same, or --reset-dataloader"
            ) from error

    return checked_load


def _in_one_line(load: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load)
    def telling(trainer: Trainer, filename: str, *args: Any, **kwargs: Any) -> Any:
        trainer.cfg.checkpoint.load_checkpoint_on_all_dp_ranks = True
        try:
            loaded = load(trainer, filename, *args, **kwargs)
            if trainer._optimizer is not None and isinstance(trainer.model, ResMLPTransformerModel):
                _check_optimizer(trainer._optimizer)
                _check_progress(trainer)
            return loaded
        except UserError:
            raise
        except Exception as error:
            cause = error.__context__
            if isinstance(cause, DoesNotFit):
                raise UserError(f"{filename}: {cause}{_difference(filename, trainer.cfg.model)}") from error
            if not isinstance(trainer.model, ResMLPTransformerModel) or not isinstance(error, _BAD_STATE):
                raise
            reason = str(error) if isinstance(error, AssertionError) else f"its state is broken, {error!r:.200}"
            raise UserError(
                one_line(f"{filename}: {reason}: begin with its parameters alone, by --finetune-from-model")
            ) from error

    return telling


def _check_optimizer(optimizer: Any) -> None:
    """See that what an optimizer knows of each parameter is of its shape, which it finds out in its first step.

    Raises:
        ValueError: it is not
    """
    for parameter, known in optimizer.optimizer.state.items():
        for name, value in known.items():
            if isinstance(value, Tensor):
                fits = value.dim() == 0 or value.shape == parameter.shape or name in _FACTORS
            else:
                fits = isinstance(value, int | float | None)
            if not fits:
                raise ValueError(f"{name} of its optimizer is not of its parameter's shape")


def _check_progress(trainer: Trainer) -> None:
    """See that what the log tells of an epoch that was broken off, and the scheduler's best loss, are numbers.

    Raises:
        TypeError, ValueError: they are not, which fairseq would find out after a while
    """
    numbers = [("the scheduler's best loss", getattr(trainer.lr_scheduler, "best", None))]
    if metrics.get_meter("default", "wall") is None:
        raise ValueError("it has no time of the training among its meters")
    for name in metrics.state_dict():
        numbers += metrics.get_smoothed_values(name).items()
    for name, number in numbers:
        if not (isinstance(number, int | float | None) or (isinstance(number, Tensor) and number.dim() == 0)):
            raise ValueError(f"{name} is {number!r:.60}")


def _difference(filename: str, model: Any) -> str:
    """How the training of a checkpoint and this one differ, where that explains why it does not fit."""
    trained = options_of(load_parts(filename), "model")
    pairs = [(option, trained.get(option), getattr(model, option, None)) for option in _SHAPING if option in trained]
    differing = [(f"--{option.replace('_', '-')}", there, here) for option, there, here in pairs if there != here]
    if not differing:
        return ""
    there = " ".join(f"{option} {value}" for option, value, _ in differing[:3])
    here = " ".join(f"{option} {value}" for option, _, value in differing[:3])
    return one_line(f"; it was trained with {there}, this is {here}: give its options, or another --save-dir")
