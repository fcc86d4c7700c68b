"""Find numbers in figures that are missing or new in a translation. Number words are ignored."""

import re

_GROUPED = (
    "(?P<whole>[0-9]{1,3}(?P<between>[., \u00a0\u202f'’])[0-9]{3}(?:(?P=between)[0-9]{3})*)(?:[.,](?P<part>[0-9]+))?"
)
_DECIMAL = r"(?<![0-9][.,:])[0-9]+[.,:][0-9]+(?![.,:]?[0-9])"
# A date such as 3.4.2020 has several numbers
_NUMBER = re.compile(rf"(?<![0-9]){_GROUPED}(?![0-9])|{_DECIMAL}|[0-9]+")


def check_numbers(source: str, translation: str) -> tuple[list[str], list[str]]:
    """Return the numbers of a text that its translation lacks, and those that only the translation has, as written.

    Notations of both languages count: ``1,000.5`` equals ``1.000,5`` and ``1000.5``, and ``10:30`` equals ``10.30``.
    """
    missing, new = [], list(_NUMBER.finditer(translation))
    for number in _NUMBER.finditer(source):
        same = next((other for other in new if _readings(number) & _readings(other)), None)
        if same is None:
            missing.append(number[0])
        else:
            new.remove(same)
    return missing, [number[0] for number in new]


def number_problems(place: str, source: str, translation: str) -> list[str]:
    """Return what ``check_numbers`` finds: lines for missing and for new numbers, if any; they begin with ``place``."""
    found = zip(("missing", "new"), check_numbers(source, translation), strict=True)
    return [f"{place}{what}: {' '.join(numbers)}" for what, numbers in found if numbers]


def _readings(number: re.Match[str]) -> set[str]:
    """Return the possible values of a number, with a decimal point only: ``1,000`` is 1000 or 1.000."""
    readings = {re.sub("[,:]", ".", number[0])}
    if number["whole"]:
        figures = re.sub("[^0-9]", "", number["whole"])
        readings.add(f"{figures}.{number['part']}" if number["part"] else figures)
    return readings
