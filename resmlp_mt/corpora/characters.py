"""Settled characters: what every later tool reads as one line of words."""

import re

from sacremoses import MosesPunctNormalizer

# fairseq-preprocess reads in Python's text mode, which ends a line at a lone CR; `str.splitlines` and `codecs` also end
# one at the others. The tab is a control character too, but one that stands between words.
_SPACES = re.compile("[\t\v\f\r\x1c-\x1e\x85\u2028\u2029]")


class Settler:
    """Makes any line safe for line- and word-based tools, and its punctuation plain.

    Characters at which some tool would break the line, and tabs, become spaces; other characters of Unicode's category
    C (control, format such as soft hyphen and byte order mark, private use, unassigned) are dropped; punctuation is
    normalised by sacremoses' port of Moses' ``normalize-punctuation.perl``; runs of white space of any kind become one
    space, none at the ends.

    Args:
        lang: two-letter language code; decides about quotes beside commas, and spaces in numbers
        punctuation: normalise it; if false, quotes, dashes and so on stay as they are
    """

    def __init__(self, lang: str, punctuation: bool = True):
        self._normalizer = MosesPunctNormalizer(lang)
        self._punctuation = punctuation

    def __call__(self, line: str) -> str:
        line = self._normalizer.remove_control_chars(_SPACES.sub(" ", line))
        if self._punctuation:
            line = self._normalizer.normalize(line)
        return " ".join(line.split())
