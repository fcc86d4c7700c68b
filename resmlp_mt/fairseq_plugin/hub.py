"""``from_pretrained``: fairseq's own interface to a trained model, with text treated as its data was."""

import os
from pathlib import Path
from typing import Any

from fairseq import hub_utils
from fairseq.hub_utils import GeneratorHubInterface
from omegaconf import open_dict

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.raw_text import choose_prepared


def from_pretrained(
    model_name_or_path: str | os.PathLike,
    checkpoint_file: str | os.PathLike = "model.pt",
    data_name_or_path: str | os.PathLike = ".",
    **options: Any,
) -> GeneratorHubInterface:
    """Load a trained model, whose ``translate`` takes a sentence or a list of them.

    Args:
        model_name_or_path: the checkpoint's folder
        checkpoint_file: its name there; several, with ``:`` between, are an ensemble
        data_name_or_path: folder of binarized data; with a dot in front, in the checkpoint's folder if it is there
        options: instead of the checkpoint's own, such as ``inference_precision="bf16"``
    """
    folder, data = os.fspath(model_name_or_path), os.fspath(data_name_or_path)
    if not os.path.isdir(folder):
        raise UserError(f"{folder}: no such folder: give that of the checkpoint, the checkpoint's name, the data")
    places = [os.path.join(folder, data), data] if data.startswith(".") else [data]
    place = next((each for each in places if any(Path(each).glob("dict.*.txt"))), None)
    if place is None:
        raise UserError(f"{data}: no dict.LANGUAGE.txt: give the folder of the binarized data as the third argument")
    file = os.fspath(checkpoint_file)
    return with_prepared_text(hub_utils.from_pretrained(folder, file, os.path.abspath(place), **options))


def with_prepared_text(loaded: dict[str, Any]) -> GeneratorHubInterface:
    """The interface to what ``hub_utils.from_pretrained`` has loaded, with text as its options or its data say."""
    cfg, task = loaded["args"], loaded["task"]
    choose_prepared(cfg)
    tokenizer, bpe = task.build_tokenizer(cfg.tokenizer), task.build_bpe(cfg.bpe)
    with open_dict(cfg):
        cfg.tokenizer = cfg.bpe = None  # fairseq would build them without the languages, which the task knows
    interface = GeneratorHubInterface(cfg, task, loaded["models"])
    interface.tokenizer, interface.bpe = tokenizer, bpe
    return interface
