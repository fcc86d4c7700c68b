"""A checkpoint as a model, with its dictionaries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq.data import data_utils

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike
from resmlp_mt.data.binarized import read_dictionary
from resmlp_mt.fairseq_plugin import ResMLPTransformerModel
from resmlp_mt.fairseq_plugin.checkpoints.averaging import average_checkpoints
from resmlp_mt.fairseq_plugin.checkpoints.loading import architecture_of, load_checkpoint, options_of
from resmlp_mt.fairseq_plugin.checkpoints.model import dictionary_sizes, model_of


@dataclass(frozen=True)
class Trained:
    """What a checkpoint holds."""

    path: Path  # of several checkpoints the last
    architecture: str
    model: ResMLPTransformerModel  # not folded, in fp32 and for inference
    languages: tuple[str, str]
    dictionaries: tuple[Path, Path]
    updates: int


def load(paths: Sequence[PathLike], data: PathLike) -> Trained:
    """Load a checkpoint, or the average of several, with the dictionaries of the folder ``data``.

    (What the checkpoint says of that folder opens nothing.)
    """
    path = paths[-1]
    state = load_checkpoint(path) if len(paths) == 1 else average_checkpoints(paths)
    task = options_of(state, "task")
    sizes = dictionary_sizes(path, state)
    languages = _languages(path, task, data)
    files = _find(data, languages, sizes)
    model = model_of(path, state, (read_dictionary(files[0]), read_dictionary(files[1])))
    updates = (state.get("optimizer_history") or [{}])[-1].get("num_updates", 0)
    return Trained(Path(path), architecture_of(state), model, languages, files, updates)


def _languages(path: PathLike, task: Mapping[str, Any], data: PathLike) -> tuple[str, str]:
    """What the training was told, or else what its data's files are named by, which fairseq then goes by."""
    found: list[Any] = [task.get("source_lang"), task.get("target_lang")]
    if None in found:
        try:
            found = data_utils.infer_language_pair(str(data))
        except OSError:
            found = [None, None]
        if None in found:
            raise UserError(
                f"{path}: the training was not told its languages, and {data} has no files that tell: "
                "name its folder of binarized data with --data"
            )
    for language in found:
        if not (isinstance(language, str) and language.isprintable() and "/" not in language):
            raise UserError(f"{path}: its language {language!r} is no part of a file's name: do not trust it")
    return found[0], found[1]


def _find(data: PathLike, languages: tuple[str, str], sizes: tuple[int, ...]) -> tuple[Path, Path]:
    found = []
    for language, size in zip(languages, sizes, strict=True):
        file = Path(data, f"dict.{language}.txt")
        entries = len(read_dictionary(file))
        if entries != size:
            raise UserError(f"{file}: has {entries} entries, the model {size}: give the training's own dictionaries")
        found.append(file)
    return found[0], found[1]
