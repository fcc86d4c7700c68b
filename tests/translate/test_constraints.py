"""What must be said: beside all translations that there are, beside fairseq's ``--constraints``, and through Translator."""

import re
from itertools import product

import pytest
import torch
from builders import EOS, batch, dictionary, pairs
from fairseq.search import LexicallyConstrainedBeamSearch
from fairseq.sequence_generator import SequenceGenerator
from fairseq.token_generation_constraints import pack_constraints
from translate.engines import assert_equal
from translate.small_folder import SYMBOLS, TEXTS
from translate.test_search import SOURCES, ready

from resmlp_mt import Translator
from resmlp_mt.common.errors import UserError
from resmlp_mt.text.tokenizer import SPECIAL
from resmlp_mt.translate.constraints import Avoided, Constraints, Demand, Spelling, rules_of
from resmlp_mt.translate.options import Options
from resmlp_mt.translate.search import search

BPE = [*SPECIAL, "a@@", "b", "a", "ab"]
PIECES = [*SPECIAL, "▁a", "b", ".", "▁b"]
A, B, C, D = range(4, 8)
LONGEST = 4
# what is forced, avoided, the prefix, and what a translation must match and not match, words with spaces between
CASES = [
    (BPE, "bpe", [[[A, B]], [[C]]], [], [], r"(?=.*\ba\b)(?=.*\bab\b)", "never"),
    (BPE, "bpe", [[[A, A, B], [C, C]]], [], [], r"\b(aab|a a)\b", "never"),
    (BPE, "bpe", [[[C], [EOS, A, B]]], [], [], r"\ba\b|^ab\b", "never"),
    (BPE, "bpe", [], ["ab"], [], "", r"\bab\b"),
    (BPE, "bpe", [[[B]]], ["b a"], [C], r"^a\b.*\bb\b", r"\bb a\b"),
    (PIECES, "sentencepiece", [[[A]]], [], [], r"\ba\b", "never"),
    (PIECES, "sentencepiece", [[[A, B]]], ["b"], [], r"\bab\b", r"\bb\b"),
    (PIECES, "sentencepiece", [], ["a", "b."], [D], r"^b", r"\ba\b|\bb \."),
]


@pytest.fixture(scope="module")
def trained():
    return ready()


@pytest.mark.parametrize(("symbols", "subwords", "forced", "avoid", "prefix", "wanted", "wrong"), CASES)
def test_all_translations_that_obey_are_found_and_no_other(
    trained, symbols, subwords, forced, avoid, prefix, wanted, wrong
):
    def text(tokens):
        joined = "".join(spelling.texts[token] for token in tokens)
        return " ".join(re.sub(r"([.])", r" \1 ", joined).split())

    spelling = Spelling([*symbols, *(f"<{n}>" for n in range(40 - len(symbols) + 4))], subwords)
    constraints = Constraints([Demand(prefix, forced)], spelling, Avoided(avoid, spelling))
    source, few = batch(pairs((5, 1))[0]), [A, B, C, D]
    candidates = torch.tensor([[EOS, *few]])
    found = search(trained[1], source, EOS, Options(beam=1000, max_len_b=LONGEST), candidates, constraints)[0]
    everything = (tokens for length in range(1, LONGEST + 1) for tokens in product(few, repeat=length))
    whole = [each for each in everything if not symbols[each[-1]].endswith("@@") and [*each][: len(prefix)] == prefix]
    # a forced word comes in the subwords of the tokenizer: here "ab" in two
    whole = [each for each in whole if not forced or D not in each or subwords != "bpe"]
    expected = [each for each in whole if re.search(wanted, text(each)) and not re.search(wrong, text(each))]
    assert sorted({tuple(each.tokens) for each in found} & {*whole}) == sorted(expected)
    assert len(expected) > 5
