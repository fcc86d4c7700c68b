"""The model, its options and its presets, registered with fairseq, which is changed where it must be."""

import pkgutil
from typing import Any

from fairseq.tasks import TASK_REGISTRY

from resmlp_mt.common.files import atomic_write
from resmlp_mt.fairseq_plugin import command_line, loading_and_saving, raw_text, uncaught
from resmlp_mt.fairseq_plugin.checkpoints import EVALUATED, evaluate
from resmlp_mt.fairseq_plugin.dynamicconv import DynamicConvModel
from resmlp_mt.fairseq_plugin.resmlp_transformer import ResMLPTransformerModel
from resmlp_mt.fairseq_plugin.task import Task
from resmlp_mt.fairseq_plugin.trainer import Trainer, check_save_dir

__all__ = ["DynamicConvModel", "ResMLPTransformerModel"]

CHANGES: dict[str, Any] = {
    # data is checked, one language is enough, raw text is treated as prepared, an empty sentence stays empty;
    # without: tracebacks, translations of the wrong language, of unknown symbols, or invented
    "fairseq.tasks.TASK_REGISTRY[translation]": Task,
    # trainings of our models end before a checkpoint has nan, and where they are done; a checkpoint that is missing or
    # does not fit is one line; many processes resume; --amp on a CPU multiplies in bfloat16;
    # without: checkpoints of nan, trainings that silently begin anew or get an update more, tracebacks, fp32
    "fairseq.trainer.Trainer": Trainer,
    "fairseq_cli.train.Trainer": Trainer,
    # options are checked, help has the model's options, text and languages are completed;
    # without: tracebacks, or something else than asked for
    "fairseq.options.parse_args_and_arch": command_line.parse_args_and_arch,
    # checkpoints are loaded as data; without: PyTorch loads none, or a checkpoint runs code and opens files
    "fairseq.checkpoint_utils.torch": loading_and_saving.TorchWithSafeLoad(),
    # values that fairseq does not take, in a checkpoint or in --model-overrides, are one line;
    # without: tracebacks
    "fairseq.checkpoint_utils.load_checkpoint_to_cpu": loading_and_saving.load_checkpoint_to_cpu,
    # a checkpoint that does not fit is named; without: a message without its file
    "fairseq.checkpoint_utils.load_model_ensemble_and_task": loading_and_saving.load_one_by_one,
    # a checkpoint that could not be written is gone; without: half of one stays beside its name, after three tries
    "fairseq.checkpoint_utils.torch_persistent_save": loading_and_saving.save_whole,
    # copies appear whole, or not at all; without: a kill leaves half a checkpoint_last.pt
    "fairseq.file_io.PathManager.copy": staticmethod(loading_and_saving.copy_whole),
    # a --save-dir that cannot be written is one line; without: a traceback, and a user's file named dummy is deleted
    "fairseq.checkpoint_utils.verify_checkpoint_directory": check_save_dir,
    # options that are evaluated as Python are read as data; without: a checkpoint can run commands
    **{f"{module}.eval": evaluate for module in EVALUATED},
    # results appear whole in --results-path; without: half a file
    "fairseq_cli.generate.open": lambda path, mode, **_: atomic_write(path, mode),
    # all lines are numbered, and the others translated where one is bad;
    # without: a lone CR breaks a line, one that is skipped is missing, one that is too long ends all
    "fairseq_cli.interactive.buffered_read": raw_text.lines.read,
    "fairseq_cli.interactive.make_batches": raw_text.lines.batches,
}
"""Every change to fairseq's behaviour, by the name that is replaced; those of commands in the one that runs."""


def install() -> None:
    """Change fairseq, and those of its commands that are loaded."""
    uncaught.install()
    TASK_REGISTRY["translation"] = Task
    for name, replacement in CHANGES.items():
        owner, _, attribute = name.rpartition(".")
        if owner.startswith("fairseq_cli."):
            for command in uncaught.loaded(owner):
                setattr(command, attribute, replacement)
        elif not attribute.endswith("]"):
            setattr(pkgutil.resolve_name(owner), attribute, replacement)


install()
