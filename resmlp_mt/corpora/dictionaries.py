"""fairseq's dictionaries: read from a file, or made up where only the size matters."""

from pathlib import Path

from fairseq.data import Dictionary

from resmlp_mt.errors import UserError


def read_dictionary(path: Path) -> Dictionary:
    """Read ``dict.LANGUAGE.txt``.

    Raises:
        UserError: there is none, or it is something else
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file: give fairseq's folder of binarized data and its languages")
    try:
        return Dictionary.load(str(path))
    except Exception as error:  # fairseq's own are bare ones
        raise UserError(f"{path}: not a dictionary of fairseq: {error}") from error


def made_up_dictionary(entries: int) -> Dictionary:
    """A dictionary of that size."""
    dictionary = Dictionary()
    for number in range(entries - len(dictionary)):
        dictionary.add_symbol(f"w{number}")
    return dictionary
