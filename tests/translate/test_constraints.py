"""Words to be said or avoided: compared with all possible translations and with fairseq's ``--constraints``."""

import re
import shutil
import tracemalloc
from itertools import product

import pytest
import torch
from builders import EOS, batch, dictionary, pairs
from fairseq.search import LexicallyConstrainedBeamSearch
from fairseq.sequence_generator import SequenceGenerator
from fairseq.token_generation_constraints import pack_constraints
from sentencepiece import SentencePieceTrainer
from translate.engines import assert_equal
from translate.small_folder import TEXTS
from translate.test_search import SOURCES

from resmlp_mt import Translator
from resmlp_mt.common.errors import UserError
from resmlp_mt.text.subwords import SentencePieces
from resmlp_mt.text.tokenizer import SPECIAL, TextSettings, Tokenizer
from resmlp_mt.translate import lines as line_by_line
from resmlp_mt.translate.constraints import Constraints, Demand, TargetWords
from resmlp_mt.translate.options import Options
from resmlp_mt.translate.rules import Rules, rules_of
from resmlp_mt.translate.search import search
from scripts import in_process

BPE = [*SPECIAL, "a@@", "b", "a", "ab"]
PIECES = [*SPECIAL, "▁a", "b", ".", "▁b"]
MARKED = [*SPECIAL, "▁कम", "ी", ".", "▁b"]
WITHOUT_SPACES = [*SPECIAL, "▁a", "京", ".", "▁京"]
LONG_PIECES = [*SPECIAL, "▁全日本", "日本", ".", "本2"]
A, B, C, D = range(4, 8)
LONGEST = 4
# Forced terms, avoided words, the prefix; what a translation, as words with spaces, must match and must not match.
CASES = [
    (BPE, "bpe", [[[A, B]], [[C]]], [], [], r"(?=.*\ba\b)(?=.*\bab\b)", "never"),
    (BPE, "bpe", [[[A, A, B], [C, C]]], [], [], r"\b(aab|a a)\b", "never"),
    (BPE, "bpe", [[[C], [EOS, A, B]]], [], [], r"\ba\b|^ab\b", "never"),
    (BPE, "bpe", [], ["ab"], [], "", r"\bab\b"),
    (BPE, "bpe", [[[B]]], ["b a"], [C], r"^a\b.*\bb\b", r"\bb a\b"),
    (PIECES, "sentencepiece", [[[A]]], [], [], r"\ba\b", "never"),
    (PIECES, "sentencepiece", [[[A, B]]], ["b"], [], r"\bab\b", r"\bb\b"),
    (PIECES, "sentencepiece", [], ["a", "b."], [D], r"^b\b", r"\ba\b|\bb \."),
    (MARKED, "sentencepiece", [], ["कम"], [], "", r"कम(?!ी)"),
    (WITHOUT_SPACES, "sentencepiece", [[[B], [D]]], ["京."], [], "京", r"京 \."),
    (WITHOUT_SPACES, "sentencepiece", [], ["京"], [], "", "京"),
    (LONG_PIECES, "sentencepiece", [], ["全日", "日本."], [], "", "全日|日本 [.]"),
]


@pytest.mark.parametrize(("symbols", "subwords", "forced", "avoid", "prefix", "wanted", "wrong"), CASES)
def test_all_that_obey_are_found_and_no_other(trained, symbols, subwords, forced, avoid, prefix, wanted, wrong):
    words = TargetWords([*symbols, *(f"<{n}>" for n in range(40 - len(symbols) + 4))], subwords, avoid)

    def text(tokens):
        return " ".join(re.sub(r"([.])", r" \1 ", "".join(words.texts[token] for token in tokens)).split())

    constraints, few = Constraints([Demand(prefix, forced)], words), [A, B, C, D]
    options, candidates = Options(beam=1000, max_len_b=LONGEST), torch.tensor([[EOS, *few]])
    found = search(trained[1], batch(pairs((5, 1))[0]), options, candidates, constraints)[0]
    everything = (tokens for length in range(1, LONGEST + 1) for tokens in product(few, repeat=length))
    whole = [each for each in everything if not symbols[each[-1]].endswith("@@") and [*each][: len(prefix)] == prefix]
    # a forced word comes in the tokenizer's subwords: here "ab" in two
    whole = [each for each in whole if not forced or D not in each or subwords != "bpe"]
    expected = [each for each in whole if re.search(wanted, text(each)) and not re.search(wrong, text(each))]
    assert sorted({tuple(each.tokens) for each in found} & {*whole}) == sorted(expected)
    assert len(expected) > 5


def test_terms_are_forced_as_well_as_by_fairseq(trained):
    """Both obey, and our best translations are at least as probable, on average over sentences and terms."""
    model, ours = trained
    words = TargetWords([*SPECIAL, *(f"<{n}>" for n in range(40))], "bpe")
    how = {"search_strategy": LexicallyConstrainedBeamSearch(dictionary(40), "unordered"), "max_len_b": 20}
    generator = SequenceGenerator([model], dictionary(40), 6, normalize_scores=False, **how)
    gained = []
    for term, source in product([[[10, 11]], [[20], [12, 13]], [[30, 31, 32]]], SOURCES):
        tokens = batch([source])
        sample = {"net_input": {"src_tokens": tokens, "src_lengths": tokens.ne(1).sum(1)}}
        asked = pack_constraints([[torch.tensor(each) for each in term]])
        theirs = generator.generate([model], sample, constraints=asked)[0][0]
        constraints = Constraints([Demand((), [[each] for each in term])], words)
        found = search(ours, tokens, Options(max_len_b=20, length_penalty=0), None, constraints)[0][0]
        for said in found.tokens, theirs["tokens"].tolist():
            assert all(str(each)[1:-1] in str(said) for each in term)
        gained.append(found.score - float(theirs["score"]))
    assert sum(gained) / len(gained) > -0.01


def test_neither_the_batch_nor_a_phrase_that_never_comes_changes_a_translation(translator):
    options = {"glossary": {"man": ["in", "inn"], "the other": "er"}, "avoid": ["sings"]}
    constrained = translator.translate(TEXTS, prefix="the", **options)
    assert_equal([translator.translate(text, prefix="the", **options) for text in TEXTS], constrained, 1e-5)
    assert_equal(translator.translate(TEXTS, prefix="the", batch_tokens=1, **options), constrained, 1e-5)
    assert re.search(r"\binn?\b", constrained[1].text) and re.search(r"\ber\b", constrained[3].text)
    assert all(each.text.startswith("the") for each in constrained if each.source_tokens)
    plain = translator.translate(TEXTS, beam=2, n_best=2)
    avoided = translator.translate(TEXTS, beam=2, n_best=2, avoid=["nobody says this"])
    for got, expected in zip(avoided, plain, strict=True):
        assert_equal(got, expected, 1e-5)
    said = translator.translate(TEXTS[0]).tokens[0].removesuffix("@@")
    long = "a b c d e f g h i j k l m n o p q r s t u v"  # more tokens than places
    assert long in translator.translate("A man.", glossary={"man": long}).text
    assert said not in translator.translate(TEXTS[0], avoid=[said]).text.split()


def test_a_long_phrase_to_avoid_takes_little_memory():
    tracemalloc.start()
    words = TargetWords(BPE, "bpe", ["a b " * 5_000 + "ab"])
    assert tracemalloc.get_traced_memory()[1] < 1e6
    tracemalloc.stop()
    assert words.barred([0, *[C, B] * 5_000]) == [D]


def test_terms_are_among_the_candidates_of_a_shortlist(folder, tmp_path):
    place = shutil.copytree(folder, tmp_path / "folder")
    (place / "shortlist.txt").write_text("\tthe in\nA\tA\n")
    found = Translator(place).translate(TEXTS, glossary={"man": "O'Wow", "the": "Ton"}, prefix="l'äöü", beam=2)
    texts = [each.text for each in found]
    assert [("O'Wow" in one, "Ton" in one) for one in texts] == [("man" in text, "the" in text) for text in TEXTS]
    assert all(each.text.startswith("l'äöü ") for each in found if each.source_tokens)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("A fire truck .", ["truck of fires"]),
        ("Fire !", ["fire"]),
        ("a Fire , a fireman in Fire-red", []),
        ('He cried : " Dog \' s fire "', ["dog", "fire"]),
        ("US the us", ["USA"]),
    ],
)
def test_which_terms_a_source_has(translator, source, expected):
    glossary = (("fire", "fire"), ("fire truck", "truck of fires"), ("dog's", "dog"), ("US", "USA"))
    demand = rules_of(translator.tokenizer, None, glossary, ()).demand(source.split(), True)
    forms = [] if demand is None else [forms[0] for forms in demand.forced]
    assert forms == [translator.tokenizer.encode(text, target=True)[:-1] for text in expected]


def test_what_is_forced_is_spelled_as_it_was_given_and_a_prefix_only_at_the_beginning(tmp_path):
    (tmp_path / "codes").write_text("#version: 0.2\na b</w>\n")
    symbols = [*SPECIAL, '"']
    tokenizer = Tokenizer(TextSettings("en", "de"), tmp_path / "codes", symbols, symbols)
    assert Rules(tokenizer, "„", (), ()).respelled('"A," he said. "B."') == '„A," he said. "B."'
    assert Rules(tokenizer, None, [('"', "„")], ()).respelled('"A"') == "„A„"


def test_a_term_of_text_without_spaces_is_found_within_it_and_comes_without_one(tmp_path):
    (tmp_path / "text").write_text("我住在北京\n北京很大\n" * 9)
    SentencePieceTrainer.train(input=tmp_path / "text", model_prefix=tmp_path / "m", vocab_size=12, minloglevel=2)
    model = tmp_path / "m.model"
    symbols = [*SPECIAL, *sorted(SentencePieces(model).symbols - {*SPECIAL})]
    tokenizer = Tokenizer(TextSettings("zh", "zh", "none", subwords="sentencepiece"), model, symbols, symbols)
    (forms,) = Rules(tokenizer, None, [("北京", "北京")], ()).demand(tokenizer.pieces("我住在北京。"), True).forced
    assert {"".join(symbols[number] for number in form) for form in forms} == {"▁北京", "</s>▁北京", "北京"}
    assert tokenizer.running_text(["北京", "很大"]) == tokenizer.running_text(["▁北京", "很大"]) == "北京很大"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prefix": " "}, "prefix: ' ' has no word"),
        ({"prefix": "in Ω"}, "prefix: 'in Ω': the model's vocabulary has no 'Ω': choose another word"),
        ({"avoid": "a"}, "avoid 'a': give a list of str"),
        ({"glossary": {"man": ["in", "Ω"]}}, "glossary: 'man': 'Ω': the model's vocabulary has no 'Ω'"),
        ({"avoid": None}, "avoid None: give a list of str"),
        *(({"glossary": {"man": x}}, "glossary: give for each source term a target term") for x in ([], 5, [5])),
        ({"glossary": {"man": "an old man"}, "avoid": ["old"]}, "texts[1]: there is no translation within the limit"),
    ],
)
def test_mistakes(translator, options, message):
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        translator.translate(TEXTS, **options)


def test_the_command_takes_them_and_goes_on_only_with_the_same(folder, translator, tmp_path, monkeypatch):
    monkeypatch.setattr(line_by_line, "FIRST_WINDOW", 2)
    terms, text, out = (tmp_path / name for name in ("terms", "in", "out"))
    terms.write_text("\ufeffman\tin\tinn\nthe\tTon\n")
    options = {"prefix": "A", "glossary": {"man": ["in", "inn"], "the": "Ton"}, "avoid": ["the", "er er"]}
    given = ["--prefix", "A", "--glossary", terms, "--avoid", "the", "er er"]
    run = in_process("translate", monkeypatch)
    whole = "".join(f"{each}\n" for each in TEXTS).encode()
    text.write_bytes(whole + b"\xff\n")
    with pytest.raises(UserError, match="in:6: not UTF-8"):
        run(folder, "--input", text, "--output", out, *given)
    text.write_bytes(whole)
    with pytest.raises(UserError, match="begun with avoid"):
        run(folder, "--input", text, "--output", out, "--resume", *given[:4])
    run(folder, "--input", text, "--output", out, "--resume", *given)
    assert out.read_text().splitlines() == [each.text for each in translator.translate(TEXTS, **options)]
    with pytest.raises(UserError, match=f"^{text}:1: there is no translation within the limit of tokens, with all"):
        run(folder, "--input", text, "--prefix", "the", "--avoid", "the")
    terms.write_bytes(b"a\tb\n\n")
    with pytest.raises(UserError, match="terms:2: is not a source term"):
        run(folder, "--input", text, *given)
