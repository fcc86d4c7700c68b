"""How fairseq loads and copies checkpoints."""

import ast
import contextlib
import functools
import logging
import os
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from fairseq import checkpoint_utils, options
from fairseq.file_io import PathManager
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY
from fairseq.tasks.translation import TranslationTask

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.checkpoints.loading import load_parts, one_line
from resmlp_mt.fairseq_plugin.checkpoints.parameters import DoesNotFit
from resmlp_mt.fairseq_plugin.checkpoints.saving import save
from resmlp_mt.fairseq_plugin.patches.options import check_names, known_options
from resmlp_mt.fairseq_plugin.resmlp_transformer import ResMLPTransformerModel

logger = logging.getLogger(__name__)


def load_checkpoints_as_data() -> None:
    """Give fairseq our loading of checkpoints, which refuses bad ones in one line.

    Changes ``checkpoint_utils.load_checkpoint_to_cpu``, through which training, generation and ``from_pretrained``
    load: what ``torch.load`` is to its module, and what is said of a failure.
    """
    checkpoint_utils.torch = _Torch()
    checkpoint_utils.load_checkpoint_to_cpu = _in_one_line(checkpoint_utils.load_checkpoint_to_cpu)
    checkpoint_utils.load_model_ensemble_and_task = _file_by_file(checkpoint_utils.load_model_ensemble_and_task)


class _Torch:
    """PyTorch with our loading in the place of its own."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def load(stream: Any, **_: Any) -> dict[str, Any]:
        return load_parts(stream.name)


def _in_one_line(load: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    @functools.wraps(load)
    def telling(path: str, arg_overrides: Any = None, *args: Any, **kwargs: Any) -> dict[str, Any]:
        if not isinstance(arg_overrides, Mapping | None):
            raise UserError(f"--model-overrides {arg_overrides}: {_GIVE_OVERRIDES}")
        try:
            return load(path, arg_overrides, *args, **kwargs)
        except UserError:
            raise
        except Exception as error:  # hydra and omegaconf raise nearly anything, OSErrors without a number too
            if isinstance(error, OSError) and error.errno:
                raise UserError(f"{path}: cannot be read: {error.strerror}") from error
            reason = str(error).strip().split("\n")[0] or type(error).__name__
            given = "with those of --model-overrides, " if arg_overrides else ""
            raise UserError(
                one_line(f"{path}: not loaded: its options or state are, {given}not fairseq's ({reason:.300})")
            ) from error

    return telling


def _file_by_file(load: Callable[..., Any]) -> Callable[..., Any]:
    # An ensemble's checkpoints are loaded one at a time anyway: so the file that does not fit can be named.
    @functools.wraps(load)
    def loading(
        filenames: Sequence[str],
        arg_overrides: Any = None,
        task: Any = None,
        strict: bool = True,
        suffix: str = "",
        num_shards: int = 1,
        state: dict[str, Any] | None = None,
    ) -> Any:
        ensemble, config, architecture = [], None, None
        for filename in filenames:
            file = checkpoint_utils.get_maybe_sharded_checkpoint_filename(filename, suffix, 0, num_shards)
            if state is None and num_shards == 1 and PathManager.exists(file):
                state = checkpoint_utils.load_checkpoint_to_cpu(file, arg_overrides)
                architecture = _architecture(file, state, task is None)
                if isinstance(task, TranslationTask):
                    _tell_direction(file, state, task)
                if arg_overrides and ARCH_MODEL_REGISTRY.get(architecture) is ResMLPTransformerModel:
                    known = known_options(ResMLPTransformerModel.add_args)
                    check_names("--model-overrides", arg_overrides, {*known, "generation_args"})
            try:
                models, config, task = load([filename], arg_overrides, task, strict, suffix, num_shards, state)
            except UserError as error:
                if not isinstance(error, DoesNotFit) and not str(error).startswith("--"):  # of an option
                    raise
                raise UserError(f"{file}: {error}") from error
            except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
                if ARCH_MODEL_REGISTRY.get(architecture) is not ResMLPTransformerModel:
                    raise
                reason = str(error).strip().split("\n")[0]
                raise UserError(one_line(f"{file}: its options make no model ({reason:.300})")) from error
            ensemble += models
            state = None
        return ensemble, config, task

    return loading


def _architecture(file: str, state: Mapping[str, Any], with_task: bool) -> str:
    """The name of a checkpoint's architecture, which fairseq knows, as it does the task if that is asked for."""
    config = state.get("cfg")  # made of older checkpoints' args, too
    if not config:
        raise UserError(f"{file}: it holds no options (args, cfg): give a checkpoint of fairseq-train")
    architecture = _name(getattr(config, "model", None), "arch")
    kinds = [("architecture", architecture, {**ARCH_MODEL_REGISTRY, **MODEL_REGISTRY})]
    if with_task:
        kinds.append(("task", _name(getattr(config, "task", None), "task"), TASK_REGISTRY))
    for kind, name, known in kinds:
        if name not in known:
            raise UserError(
                one_line(f"{file}: fairseq knows no {kind} {name!r:.100}: give the --user-dir of its training")
            )
    return architecture


def _tell_direction(file: str, state: Mapping[str, Any], task: TranslationTask) -> None:
    """Warn of a model that is asked to translate the other way round, as ``--source-lang`` alone can do."""
    trained = [getattr(state["cfg"].task, f"{side}_lang", None) for side in ("source", "target")]
    given = [task.cfg.source_lang, task.cfg.target_lang]
    if trained[0] != trained[1] and given == trained[::-1]:
        logger.warning(
            f"{file}: was trained to translate from {trained[0]} to {trained[1]}, not from {given[0]} to {given[1]}: "
            "give --source-lang and --target-lang as its training had them"
        )


def _name(part: Any, old: str) -> str:
    return str(getattr(part, "_name", None) or getattr(part, old, None))


_GIVE_OVERRIDES = """give a dictionary of options, such as "{'dropout': 0}\""""


def check_overrides() -> None:
    """Let ``--model-overrides`` and ``--optimizer-overrides`` that are no dictionaries be refused as options are."""
    options.parse_args_and_arch = _checked(options.parse_args_and_arch)


def _checked(parse: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(parse)
    def checking(*args: Any, **kwargs: Any) -> Any:
        parsed = parse(*args, **kwargs)
        given = vars(parsed if isinstance(parsed, Namespace) else parsed[0])  # beside the words that it does not know
        for name in "model_overrides", "optimizer_overrides":
            if isinstance(given.get(name), str) and not _is_dictionary(given[name]):
                raise UserError(f"--{name.replace('_', '-')} {given[name]}: {_GIVE_OVERRIDES}")
        return parsed

    return checking


def _is_dictionary(text: str) -> bool:
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return False
    return isinstance(value, dict) and all(isinstance(key, str) for key in value)


def write_checkpoints_whole() -> None:
    """Let checkpoints and their copies appear whole or not at all, and what could not be written be gone.

    fairseq writes a checkpoint beside its name and renames it, but leaves it there if the disk is full, after a
    traceback for each of three tries; and it copies it onto ``checkpoint_best.pt`` and ``checkpoint_last.pt``: killed
    there, it would leave half a file and nothing to resume from.
    """
    PathManager.copy = staticmethod(_copying_whole(PathManager.copy))
    checkpoint_utils.torch_persistent_save = _saving_whole(checkpoint_utils.torch_persistent_save)


def _copying_whole(copy: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(copy)
    def copy_whole(src_path: str, dst_path: str, overwrite: bool = False) -> Any:
        if not overwrite or not PathManager.supports_rename(dst_path):
            return copy(src_path, dst_path, overwrite=overwrite)
        with _whole(dst_path) as temporary:
            return copy(src_path, temporary, overwrite=True)

    return copy_whole


def _saving_whole(persistent_save: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(persistent_save)
    def save_whole(obj: Any, filename: str, async_write: bool = False) -> None:
        if async_write or not PathManager.supports_rename(filename):
            persistent_save(obj, filename, async_write)
            return
        with _whole(filename) as temporary, open(temporary, "wb") as stream:
            save(obj, stream)

    return save_whole


@contextlib.contextmanager
def _whole(path: str) -> Iterator[str]:
    temporary = f"{path}.tmp"  # as fairseq itself does: the next save writes over what a kill left behind
    try:
        yield temporary
        with open(temporary, "rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise UserError(
                f"{path}: cannot be written: {error.strerror or error}: make room or give another --save-dir, and run "
                "the same command again"
            ) from error
        raise
