"""fairseq's dictionaries: read from a file, or made up where only the size matters."""

from pathlib import Path

from fairseq.data import Dictionary

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import read_lines


def read_dictionary(path: Path) -> Dictionary:
    """Read ``dict.LANGUAGE.txt``.

    Raises:
        UserError: there is none, or it is something else, with the line
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file: give fairseq's folder of binarized data and its languages")
    _check_lines(path)
    try:
        return Dictionary.load(str(path))
    except Exception as error:  # fairseq raises plain Exceptions
        raise UserError(f"{path}: not a dictionary of fairseq: {error}") from error


def _check_lines(path: Path) -> None:
    advice = "not a dictionary of fairseq: copy the one that the data was made with, or make the data again"
    lines = dict.fromkeys(Dictionary().symbols, 0)
    for number, line in enumerate(read_lines(path), start=1):
        word, space, count = line.rstrip().rpartition(" ")
        overwrites = count == "#fairseq:overwrite"
        if overwrites:
            word, space, count = word.rpartition(" ")
        try:
            int(space and count)
        except ValueError as error:
            raise UserError(f"{path}:{number}: {line[:80]!r} is no subword and its count: {advice}") from error
        if word in lines and not overwrites:
            first = f"line {lines[word]} has it too" if lines[word] else "one of fairseq's own symbols"
            raise UserError(f"{path}:{number}: {word!r} for the second time ({first}): {advice}")
        lines[word] = number


def made_up_dictionary(entries: int) -> Dictionary:
    """A dictionary of that size."""
    dictionary = Dictionary()
    for number in range(entries - len(dictionary)):
        dictionary.add_symbol(f"w{number}")
    return dictionary
