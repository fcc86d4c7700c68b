"""Check names: of languages, by fairseq's file names, Moses' rules and sacrebleu; of folders, by fairseq's options."""

import re
from pathlib import Path

from resmlp_mt.common.errors import UserError

_BY_THREE_LETTERS = """
    cat:ca ces:cs chi:zh cze:cs deu:de dut:nl ell:el eng:en est:et fin:fi fra:fr fre:fr ger:de gle:ga gre:el hun:hu
    ice:is isl:is ita:it jpn:ja kor:ko lav:lv lit:lt nld:nl pol:pl por:pt ron:ro rum:ro rus:ru slk:sk slo:sk slv:sl
    spa:es swe:sv tam:ta zho:zh
"""
TWO_LETTERS = dict(pair.split(":") for pair in _BY_THREE_LETTERS.split())
"""Three-letter codes and their two-letter codes (ISO 639-1), for languages with rules in Moses or sacrebleu."""


def check_code(language: str, option: str) -> str:
    """Check and return a language's code of two or three letters.

    Three letters are refused if a code of two exists: for others, Moses' rules and sacrebleu silently use defaults.
    """
    if language in TWO_LETTERS:
        raise UserError(f"{option} {language!r}: give the code of two letters, {TWO_LETTERS[language]}")
    if re.fullmatch("[a-z]{2,3}", language):
        return language
    raise UserError(f"{option} {language!r}: not a code of ISO 639: give two letters, such as en or de")


def check_name(language: str, option: str) -> str:
    """Check and return a language's name for file names (``train.en-de.en.bin``): letters, digits and ``_``."""
    if re.fullmatch("[A-Za-z0-9_]{1,64}", language):
        return language
    raise UserError(f"{option} {language!r}: give letters, digits and _ alone, such as en, de or pt_BR")


def check_folders(*folders: Path) -> None:
    """Check that fairseq takes the folders' names for what they are."""
    for folder in folders:
        if re.search(r":|\$\{|^-", str(folder)):
            problem = "fairseq misreads names that contain ':' or '${' or begin with '-': choose another"
            raise UserError(f"{folder}: {problem}")
