"""Raw text split by what data-bin records, compared with what preparation itself made of the text."""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from fairseq.data import Dictionary

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.pipeline import Corpus, CorpusRecipe, prepare
from resmlp_mt.data.raw_text import RawText
from resmlp_mt.data.sources import PlainText
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.fairseq_plugin.raw_text import OF_TARGET, PreparedTextConfig, PreparedTokenizer
from resmlp_mt.text.tokenizer import END, PAD, Tokenizer
from resmlp_mt.text.words import Words

NASTY = [
    "It's a “good” dog – isn't it…",
    "« Oui ! » – 5\u00a0% de l’eau, 1\u00a0000 fois",
    "\ufeffbyte order mark, soft\u00adhyphen, zero\u200bwidth, nul\x00, tab\there",
    "lone\rCR, vertical\vtab, form\ffeed, next\u0085line, line\u2028separator, paragraph\u2029separator",
    "the red-haired man -- and well-known 10-12 @-@ things",
    "Er sagte: \"Ja.\" ,,so`` ''oder'' ´so´",
    "AT&T &amp; <b>[x|y]</b> &apos;",
    "  3.5 m² of ½ ﬁre… \u3000 ﹏ Ａ\u2003 \r",
    "the dog@@ and @@ ▁ <unk> </s>",
    "unknown: 東京 🙂 ß ẞ İ",
]
RECIPES = {
    "bpe": CorpusRecipe(Words(), Subwords("bpe", 60)),
    "bpe, dashes split": CorpusRecipe(Words(dash_splits=True), Subwords("bpe", 60)),
    "bpe, punctuation kept": CorpusRecipe(Words(normalize=False), Subwords("bpe", 60)),
    "sentencepiece": CorpusRecipe(Words("none", normalize=False), Subwords("sentencepiece", 80)),
}


@pytest.fixture(scope="module", params=RECIPES)
def prepared(request, corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    """data-bin alone, moved elsewhere, and the subwords that preparation made of the nasty lines, by language."""
    folder = tmp_path_factory.mktemp("raw text")
    for lang in corpus.langs:
        (folder / f"nasty.{lang}").write_text("".join(f"{line}\n" for line in NASTY), newline="")
    nasty = PlainText(*(folder / f"nasty.{lang}" for lang in corpus.langs))
    prepare(dataclasses.replace(corpus, test=[nasty]), RECIPES[request.param], folder / "out")
    made = {lang: (folder / "out" / "subwords" / f"test.{lang}").read_text().split("\n")[:-1] for lang in corpus.langs}
    shutil.move(folder / "out" / "data-bin", folder / "elsewhere")
    shutil.rmtree(folder / "out")
    return folder / "elsewhere", made


def test_raw_lines_become_the_subwords_of_preparing(prepared: tuple[Path, dict[str, list[str]]]) -> None:
    folder, made = prepared
    text = RawText.of(folder)
    split = text.splitter()
    for lang, subwords in made.items():
        tokenize = text.tokenizer(lang)
        assert [split(tokenize(line.strip())) for line in NASTY] == subwords  # fairseq-interactive strips its lines
        assert [text.join(line) for line in subwords] == [" ".join(tokenize(line).split()) for line in NASTY]


def test_fairseq_interactive_gives_constraints_the_tokenizer_of_the_target(prepared):
    folder, made = prepared
    source, target = made
    tokenizer = PreparedTokenizer(PreparedTextConfig(data=str(folder), source_lang=source, target_lang=target))
    for lang, mark in (source, ""), (target, OF_TARGET):
        tokenize = RawText.of(folder).tokenizer(lang)
        assert [tokenizer.encode(mark + line) for line in NASTY] == [tokenize(line) for line in NASTY]


def test_a_tokenizer_without_fairseq_does_the_same(prepared: tuple[Path, dict[str, list[str]]]) -> None:
    folder, made = prepared
    text = RawText.of(folder)
    dictionaries = {lang: Dictionary.load(str(folder / f"dict.{lang}.txt")) for lang in text.languages}
    symbols = [dictionary.symbols for dictionary in dictionaries.values()]
    tokenizer = Tokenizer(text.settings(*text.languages), folder / text.learned, *symbols)
    running_text, of_target = text.running_text("de"), dictionaries["de"]
    for target, lang in enumerate(text.languages):
        expected = [dictionaries[lang].encode_line(line, add_if_not_exist=False).tolist() for line in made[lang]]
        assert [tokenizer.encode(line, target=bool(target)) for line in NASTY] == expected
        assert [tokenizer.pieces(line, target=bool(target)) for line in NASTY] == [line.split() for line in made[lang]]
    for numbers in expected:
        if PAD not in numbers:  # translations never hold it
            assert tokenizer.decode(numbers) == running_text(of_target.string(numbers, extra_symbols_to_ignore={END}))


@pytest.mark.parametrize(
    ("lang", "sentence"),
    [
        ("de", "Dr. Müller kaufte z.B. 1.000 Äpfel für 3,50 €; oder (vielleicht) nicht? „Ja“ – um 15.30 Uhr."),
        ("fr", "L'homme n'a-t-il pas vu aujourd'hui 5 % des « journaux » ? Qu'est-ce que c'est ?"),
        ("en", "The Joneses' well-known dog (10-12) doesn't cost $5.50. \"Yes,\" he said; \"it's Mr. Smith's.\""),
    ],
)
def test_words_become_running_text_again(lang: str, sentence: str) -> None:
    for dash_splits in False, True:
        words = Words(dash_splits=dash_splits, normalize=False)
        text = RawText(Path(), ("xx", lang), words, Subwords("bpe"), "bpe.codes")
        assert text.detokenizer(lang)(text.tokenizer(lang)(sentence)) == sentence


def test_either_direction_but_no_other_language() -> None:
    text = RawText(Path("data-bin"), ("en", "de"), Words(), Subwords("bpe"), "bpe.codes")
    assert text.check_languages(None, None) == ("en", "de")
    assert text.check_languages("de", None) == text.check_languages(None, "en") == ("de", "en")
    for pair in ("en", "fr"), ("de", "de"), (None, "xx"):
        with pytest.raises(UserError, match=r"text\.json: for en and de, not for"):
            text.check_languages(*pair)


def _values(**changed: object) -> Callable[[Path], object]:
    name = "text.json"
    return lambda folder: (folder / name).write_text(json.dumps(json.loads((folder / name).read_text()) | changed))


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A data-bin with only the record and the codes."""
    folder = tmp_path / "data-bin"
    (tmp_path / "codes").write_text("#version: 0.2\nt h\nth e\n")
    RawText(folder, ("en", "de"), Words(), Subwords("bpe"), "bpe.codes").write(tmp_path / "codes")
    return folder


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "text.json").write_text('{"version": 1'), "text.json: not what preparing writes"),
        (_values(version=2), "version is 2"),
        (_values(learned="../bpe.codes"), r"learned is '\.\./bpe\.codes'"),
        (lambda folder: (folder / "bpe.codes").write_text("#version: 0.2\nt h\n"), "not the file that preparing left"),
    ],
)
def test_a_record_that_is_not_ours_is_refused(recorded: Path, change: Callable[[Path], object], message: str) -> None:
    RawText.of(recorded).splitter()
    change(recorded)
    with pytest.raises(UserError, match=f"{message}.*prepare the data again"):
        RawText.of(recorded).splitter()
