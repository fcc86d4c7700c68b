"""The plugin: registers the model, its options and its presets with fairseq, and changes fairseq where necessary."""

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
    # checks the data, completes languages, treats raw text as the data was treated, keeps empty sentences empty;
    # without it: tracebacks; translations from the wrong language, of unknown symbols, or of nothing
    "fairseq.tasks.TASK_REGISTRY[translation]": Task,
    # ends trainings that are done, and those of our models before a checkpoint has NaN; one-line errors for checkpoints
    # that are missing or do not fit; several processes can resume; --amp on a CPU multiplies in bfloat16 if it can;
    # without it: checkpoints with NaN, trainings that silently restart or do an update too many, tracebacks, fp32
    "fairseq.trainer.Trainer": Trainer,
    "fairseq_cli.train.Trainer": Trainer,
    # checks options, adds the model's to the help, completes the options of text and languages;
    # without it: tracebacks, or fairseq silently does something else
    "fairseq.options.parse_args_and_arch": command_line.parse_args_and_arch,
    # loads checkpoints as data; without it: PyTorch loads none, or a checkpoint runs code and opens files
    "fairseq.checkpoint_utils.torch": loading_and_saving.TorchWithSafeLoad(),
    # a one-line error for values in a checkpoint or in --model-overrides that fairseq does not accept;
    # without it: tracebacks
    "fairseq.checkpoint_utils.load_checkpoint_to_cpu": loading_and_saving.load_checkpoint_to_cpu,
    # names the checkpoint that does not fit; without it: an error without the file's name
    "fairseq.checkpoint_utils.load_model_ensemble_and_task": loading_and_saving.load_one_by_one,
    # removes a checkpoint that cannot be written in full; without it: three tries, and half a temporary file stays
    "fairseq.checkpoint_utils.torch_persistent_save": loading_and_saving.save_whole,
    # makes copies appear whole, or not at all; without it: a kill leaves half a checkpoint_last.pt
    "fairseq.file_io.PathManager.copy": staticmethod(loading_and_saving.copy_whole),
    # a one-line error if --save-dir cannot be written; without it: a traceback, and a user's file "dummy" is deleted
    "fairseq.checkpoint_utils.verify_checkpoint_directory": check_save_dir,
    # reads as data those options that fairseq evaluates as Python; without it: a checkpoint can run commands
    **{f"{module}.eval": evaluate for module in EVALUATED},
    # makes results appear whole in --results-path; without it: a kill leaves half a file
    "fairseq_cli.generate.open": lambda path, mode, **_: atomic_write(path, mode),
    # numbers all lines, and translates the other lines if one is bad;
    # without it: a lone CR breaks a line, a skipped line is missing, a line of too many subwords ends the run
    "fairseq_cli.interactive.buffered_read": raw_text.lines.read,
    "fairseq_cli.interactive.make_batches": raw_text.lines.batches,
}
"""Every change to fairseq's behaviour, by the replaced name; ``fairseq_cli`` is changed only in the running command."""


def install() -> None:
    """Apply ``CHANGES`` to fairseq and to those of its commands that are loaded."""
    uncaught.install()
    TASK_REGISTRY["translation"] = Task
    for name, replacement in CHANGES.items():
        owner, _, attribute = name.rpartition(".")
        if owner.startswith("fairseq_cli."):
            for command in uncaught.loaded(owner):  # in a process that PyTorch started, its names are a copy
                command.main.__globals__[attribute] = replacement
        elif not attribute.endswith("]"):
            setattr(pkgutil.resolve_name(owner), attribute, replacement)


install()
