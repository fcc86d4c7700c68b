"""Subwords: undone without loss, and the same as the tools' own."""

import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resmlp_mt.data.chunks import CHUNK, Chunk, ChunkSplitter, PairFilter, SideCounts, WordCounter, chunks
from resmlp_mt.data.subwords import Subwords, learn_bpe, learn_pieces, write_counts
from resmlp_mt.text.characters import CharacterCleaner

TEXT = ["the lower the newer , the wider", "low lower lowest <s> & @-@", "neu neuer am neuesten ä ö ü ß"] * 8
PAIRS = [(line.encode(), line.encode()) for line in TEXT]


@pytest.fixture(scope="module")
def codes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """BPE learned from TEXT."""
    folder = tmp_path_factory.mktemp("codes")
    write_counts(WordCounter()(Chunk(1, PAIRS))[1], folder / "words")
    assert learn_bpe(folder / "words", folder / "codes", Subwords("bpe", 20)) == 20
    return folder / "codes"


@given(st.lists(st.text(st.sampled_from("abcäß@<>s/ "), max_size=12), min_size=1, max_size=4))
def test_bpe_is_that_of_subword_nmt(codes: Path, lines: list[str]) -> None:
    from subword_nmt.apply_bpe import BPE

    split = Subwords("bpe").load(codes)
    with codes.open(encoding="utf-8") as file:
        theirs = BPE(file)
    for line in lines * 2:
        assert split(line) == theirs.segment(line)


def test_words_at_hand_are_limited(codes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [f"w{number}" for number in range(300)]
    split = Subwords("bpe").load(codes)
    expected = list(map(split, words))
    assert len(split._known) == 300 and not split._bpe.cache
    monkeypatch.setattr("resmlp_mt.text.subwords.REMEMBERED", 3000)
    assert list(map(Subwords("bpe").load(codes), words * 2)) == expected * 2
    huge = "x" * 5000
    expected = [*expected, split(huge), *expected]
    assert list(map(split, [*words, huge, *words])) == expected
    assert len(split._known) < 20
    assert sum(map(sys.getsizeof, (*split._known, *split._known.values()))) < 3000


# What the tools and fairseq have a use of their own for, and what is not Latin letters of one code point each
NASTY_LINES = [
    "a@@ @@ b@@c @@d @ @@@ @@@@ next",
    "word@@",
    "@@ @@",
    "a</w> </w> </w>b x</w>y w> <w",
    "<s> x<s> <pad> a<pad> </s> <unk> <unk>. <mask>",
    "▁a▁b ▁ ▁▁ c",
    "⁇ ▅ <0x41> ▅▅",
    "m² ½ … ﬁ № Ω Å K ㎏",
    "cafe\u0301 na\u0308ive a\u0300\u0301\u0302",
    "\u0301 \u20dd",
    "👨\u200d👩\u200d👧 👩🏽\u200d🚀 ❤\ufe0f 1\ufe0f\u20e3 🇩🇪",
    "𝒜𝓁𝒾𝒸𝑒 𠀀𠮷 𝟘𝟙 \U0010fffd",
    "שָׁלוֹם עולם \u200fabc",
    "العَرَبِيَّة ١٢٣",
    "می\u200cخواهم",
    "ไทยไม่มีช่องว่างระหว่างคำ",
    "我们没有空格也没有标点符号",
    "日本語、です。 한국어 텍스트",
    "हिन्दी में लिखा है",
    "İstanbul ß ẞ ſ ŉ ǆ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "a a a a a a",
    "\\ \\1 \\g<0> . * + ? ( [ { ^ $ |",
    "#version: 0.2 #fairseq:overwrite madeupword0000",
    "\t tab\u00a0nbsp\u3000wide \u2028 line",
    "'' \" , ,, ;= %s {} $(x) `x`",
]


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], Path]:
    """What is learned of each kind, from text with and without the nasty lines in it."""
    folder = tmp_path_factory.mktemp("learned")
    settle = CharacterCleaner("en", punctuation=False)
    files = {}
    for nasty in (False, True):
        lines = [*TEXT, *[line for line in map(settle, NASTY_LINES) for _ in range(3) if nasty]]
        pairs = [(line.encode(), line.encode()) for line in lines]
        write_counts(WordCounter()(Chunk(1, pairs))[1], folder / "words")
        for kind, symbols in (("bpe", 400), ("sentencepiece", 220 if nasty else 34)):
            subwords, path = Subwords(kind, symbols), folder / f"{kind} {nasty}"
            files[kind, nasty] = path
            assert learn_bpe(folder / "words", path, subwords) if kind == "bpe" else learn_pieces(pairs, path, subwords)
    return files


@pytest.fixture(params=[False, True], ids=["unseen", "seen"])
def nasty(request: pytest.FixtureRequest) -> bool:
    return request.param


def fairseqs(kind: str, path: Path):
    """fairseq's own subwords, as in fairseq-interactive."""
    from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig
    from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE

    if kind == "bpe":
        return SubwordNMTBPE(SimpleNamespace(bpe_codes=str(path), bpe_separator="@@"))
    return SentencepieceBPE(SentencepieceConfig(sentencepiece_model=str(path)))


@pytest.mark.parametrize("kind", ["bpe", "sentencepiece"])
def test_nasty_lines_come_back(learned: dict[tuple[str, bool], Path], kind: str, nasty: bool) -> None:
    split = Subwords(kind).load(learned[kind, nasty])
    theirs = fairseqs(kind, learned[kind, nasty])
    settle = CharacterCleaner("en", punctuation=False)
    for line in [*TEXT, *map(settle, NASTY_LINES), "unseen Wörter 123"]:
        assert split(line) == theirs.encode(line)
        assert theirs.decode(split(line)) == line
        # fairseq's dictionary would take these for its own
        assert not {"<s>", "<pad>", "</s>", "<unk>"}.intersection(split(line).split())


@pytest.mark.parametrize("kind", ["bpe", "sentencepiece"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("@@@ </w>▁▁²½ab"), max_size=40))
def test_any_settled_line_comes_back(learned: dict[tuple[str, bool], Path], kind: str, nasty: bool, line: str) -> None:
    settled = SETTLE(line)
    pieces = Subwords(kind).load(learned[kind, nasty])(settled)
    # fairseq's own decoders, in two lines
    if kind == "bpe":
        assert f"{pieces} ".replace("@@ ", "").rstrip() == settled
    else:
        assert pieces.replace(" ", "").replace("▁", " ").strip() == settled


SETTLE = CharacterCleaner("en", punctuation=False)


@pytest.mark.parametrize(
    ("lengths", "reason"),
    [
        ((0, 1), "empty"),
        ((0, 0), "empty"),
        ((3, 3), None),
        ((4, 1), "too long"),
        ((1, 3), "ratio"),
        ((2, 3), None),
    ],
)
def test_filter(lengths: tuple[int, int], reason: str | None) -> None:
    pair_filter = PairFilter(max_length=3, max_ratio=1.5)
    assert pair_filter.why_dropped(lengths) == reason
    assert pair_filter.why_dropped(lengths[::-1]) == reason
    assert PairFilter().why_dropped(lengths) == (reason if reason == "empty" else None)


def test_a_chunk_is_split_filtered_and_counted(codes: Path) -> None:
    subwords = Subwords("bpe")
    split = subwords.load(codes)
    pairs = [(b"lower Lower", b"neu"), (b"", b"neu"), (b"low", b"wider " * 10)]
    done = ChunkSplitter(subwords, codes.read_bytes(), PairFilter(max_length=9))(Chunk(1, pairs))
    assert done.read == 3
    assert done.dropped == {"empty": 1, "too long": 1}
    pieces = split("lower Lower"), split("neu")
    assert done.texts == tuple(f"{line}\n".encode() for line in pieces)
    assert done.symbols == Counter(" ".join(pieces).split())
    lengths = [len(line.split()) for line in pieces]
    assert done.counts == (SideCounts(2, lengths[0], lengths[0]), SideCounts(1, lengths[1], lengths[1]))
    assert ChunkSplitter(subwords, codes.read_bytes(), None)(Chunk(1, pairs)).dropped == {}


def test_a_line_that_must_be_too_long_is_not_split(codes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    splitter = ChunkSplitter(Subwords("bpe"), codes.read_bytes(), PairFilter(max_length=9))
    monkeypatch.setattr(splitter._split._known, "_split", lambda word: pytest.fail("split"))
    assert splitter(Chunk(1, [(b"l" * 10_000_000, b"lower"[:0])])).dropped == {"empty": 1}
    monkeypatch.undo()
    longest = splitter._split.longest
    assert longest == max(len(first + second) for first, second in splitter._split._bpe.bpe_codes)
    pairs = [(b"l" * 10_000_000, b"low"), (b"lower " * 9, b"low"), (b"lower " * 10, b"low")]
    done = splitter(Chunk(1, pairs))
    assert (done.dropped, done.counts[0].words) == ({"too long": 2}, 9)
    assert "l" * 10_000_000 not in splitter._split._known


def test_only_pieces_are_for_the_dictionary(tmp_path: Path) -> None:
    learn_pieces(PAIRS, tmp_path / "model", Subwords("sentencepiece", 32))
    splitter = ChunkSplitter(Subwords("sentencepiece"), (tmp_path / "model").read_bytes(), PairFilter())
    done = splitter(Chunk(1, [("low 文字 low文".encode(), b"<unk> low")]))
    assert "文字" in done.texts[0].decode().split()
    assert not [symbol for symbol in done.symbols if "文" in symbol]
    assert done.symbols and set(done.symbols) <= splitter._split.symbols


def test_chunks() -> None:
    pairs = [(b"%d" % number, b"") for number in range(2 * CHUNK + 1)]
    assert [(chunk.first, len(chunk.pairs)) for chunk in chunks(pairs)] == [
        (1, CHUNK),
        (CHUNK + 1, CHUNK),
        (2 * CHUNK + 1, 1),
    ]
    assert [pair for chunk in chunks(pairs) for pair in chunk.pairs] == pairs
    assert list(chunks([])) == []


def test_chunks_of_long_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resmlp_mt.data.chunks.CHUNK_BYTES", 30)
    pairs = [(b"x", b"y"), (b"x" * 40, b""), (b"", b"y" * 29), (b"x", b"y")]
    assert [(chunk.first, chunk.pairs) for chunk in chunks(pairs)] == [(1, pairs[:2]), (3, pairs[2:])]
