"""Text as fairseq-preprocess writes it: whether its two files are whole and belong together."""

import struct
from pathlib import Path

import numpy as np
from fairseq.data.indexed_dataset import MMapIndexedDataset, _code_to_dtype

from resmlp_mt.common.errors import UserError

AGAIN = "make the data again by prepare_text.py or fairseq-preprocess"

_HEAD = struct.Struct("<9sQBQ")
"""Of an index: magic, version, code of the numbers' type, number of sentences; lengths and starts follow."""


def check_binarized(prefix: str, entries: int | None = None) -> None:
    """Check the two files of a binarized text as fairseq-preprocess writes them unless told otherwise.

    Args:
        prefix: their names without ``.bin`` and ``.idx``
        entries: of their dictionary, if there is one

    Raises:
        UserError: they are cut short or damaged, do not belong together, or belong to another dictionary
    """
    index, data = Path(f"{prefix}.idx"), Path(f"{prefix}.bin")
    with index.open("rb") as stream:
        start = stream.read(_HEAD.size)
    if start[:8] in (b"TNTIDX\0\0", b"HUFFIDX\0"):
        return  # another format: --dataset-impl lazy, cached or huffman
    magic, version, code, sentences = _HEAD.unpack(start.ljust(_HEAD.size, b"\0"))
    known = magic == MMapIndexedDataset.Index._HDR_MAGIC and version == 1 and code in _code_to_dtype
    if not known or index.stat().st_size != _HEAD.size + sentences * 12:
        raise UserError(f"{index}: cut short or damaged: {AGAIN}")
    if sentences == 0:
        raise UserError(f"{index}: has no sentences: {AGAIN}")
    lengths = np.memmap(index, np.int32, "r", _HEAD.size, (sentences,))
    starts = np.memmap(index, np.int64, "r", _HEAD.size + sentences * 4, (sentences,))
    number = np.dtype(_code_to_dtype[code])
    size = int(starts[-1]) + int(lengths[-1]) * number.itemsize
    if starts[0] != 0 or lengths.min() < 0 or not np.array_equal(np.diff(starts), lengths[:-1] * number.itemsize):
        raise UserError(f"{index}: damaged: {AGAIN}")
    if data.stat().st_size != size:
        raise UserError(
            f"{data}: has {data.stat().st_size:,} bytes, {index.name} asks for {size:,}: cut short, or not its own: "
            f"{AGAIN}"
        )
    if entries is not None:
        symbols = np.memmap(data, number, "r")
        least, most = symbols.min(), symbols.max()
        if least < 0 or most >= entries:
            raise UserError(
                f"{data}: symbol {least if least < 0 else most} is not in the dictionary of {entries:,} entries: "
                f"damaged, or not its own: {AGAIN}"
            )
