"""Subwords: learned the same every time, undone without loss, and the same as the tools' own."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resmlp_mt.corpora.filtering import PairFilter
from resmlp_mt.corpora.parallel import CHUNK, Chunk, chunks
from resmlp_mt.corpora.splitting import ChunkSplitter, SideCounts
from resmlp_mt.corpora.subwords import Subwords, WordCounter, evenly, learn_bpe, learn_pieces
from resmlp_mt.errors import UserError

TEXT = ["the lower the newer , the wider", "low lower lowest <s> & @-@", "neu neuer am neuesten ä ö ü ß"] * 8
PAIRS = [(line.encode(), line.encode()) for line in TEXT]
COUNTS = Counter(word for line in TEXT for word in line.split())


def test_words_are_counted() -> None:
    counted = WordCounter()(Chunk(1, PAIRS))
    assert (counted.read, *counted.counts) == (24, COUNTS, COUNTS)


@given(st.lists(st.text(st.sampled_from("abcäß@<>s/ "), max_size=12), min_size=1, max_size=4))
def test_bpe_is_that_of_subword_nmt(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    from subword_nmt.apply_bpe import BPE

    codes = tmp_path_factory.getbasetemp() / "codes"
    if not codes.exists():
        assert learn_bpe(COUNTS, codes, symbols=20) == 20
    split = Subwords("bpe").load(codes)
    with codes.open(encoding="utf-8") as file:
        theirs = BPE(file)
    for line in lines * 2:
        assert split(line) == theirs.segment(line)


def test_bpe_round_trip_through_fairseq(tmp_path: Path) -> None:
    from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE

    learn_bpe(COUNTS, tmp_path / "codes", symbols=10)
    split = Subwords("bpe").load(tmp_path / "codes")
    theirs = SubwordNMTBPE(SimpleNamespace(bpe_codes=str(tmp_path / "codes"), bpe_separator="@@"))
    for line in [*TEXT, "unseen Wörter 123"]:
        assert split(line) == theirs.encode(line)
        assert theirs.decode(split(line)) == line


def test_words_at_hand_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learn_bpe(COUNTS, tmp_path / "codes", symbols=10)
    split = Subwords("bpe").load(tmp_path / "codes")
    expected = list(map(split, TEXT))
    monkeypatch.setattr("resmlp_mt.corpora.subwords.REMEMBERED", 2)
    assert list(map(split, TEXT)) == expected
    assert len(split._known) < 10


def test_sentencepiece_round_trip_through_fairseq(tmp_path: Path) -> None:
    from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig

    assert learn_pieces(PAIRS, tmp_path / "model", symbols=30) == 30
    learn_pieces(PAIRS, tmp_path / "again", symbols=30)
    assert (tmp_path / "model").read_bytes() == (tmp_path / "again").read_bytes()
    split = Subwords("sentencepiece").load(tmp_path / "model")
    theirs = SentencepieceBPE(SentencepieceConfig(sentencepiece_model=str(tmp_path / "model")))
    for line in TEXT:
        assert split(line) == theirs.encode(line)
        assert theirs.decode(split(line)) == line


@pytest.mark.parametrize(("total", "most", "kept"), [(10, 10, 10), (11, 10, 6), (95, 10, 10), (0, 10, 0)])
def test_sample_is_spread_evenly(total: int, most: int, kept: int) -> None:
    pairs = [(b"%d" % number, b"") for number in range(total)]
    sample = list(evenly(pairs, total, most))
    assert len(sample) == kept
    distances = {int(b[0]) - int(a[0]) for a, b in pairwise(sample)}
    assert len(distances) <= 1


@pytest.mark.parametrize("words", ["", "a b c", "ab cd"])
def test_too_small_for_bpe(tmp_path: Path, words: str) -> None:
    with pytest.raises(UserError, match="no two letters"):
        learn_bpe(Counter(words.split()), tmp_path / "learned", symbols=10)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("symbols", "lines", "message"),
    [(4000, 9, "sentencepiece learned nothing: .*4000"), (40, 0, "sentencepiece learned nothing")],
)
def test_too_small_for_sentencepiece(tmp_path: Path, symbols: int, lines: int, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        learn_pieces([(b"ab cd", b"")] * lines, tmp_path / "learned", symbols)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


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


def test_a_chunk_is_split_filtered_and_counted(tmp_path: Path) -> None:
    learn_bpe(COUNTS, tmp_path / "codes", symbols=20)
    subwords = Subwords("bpe")
    split = subwords.load(tmp_path / "codes")
    pairs = [(b"lower Lower", b"neu"), (b"", b"neu"), (b"low", b"wider " * 10)]
    done = ChunkSplitter(subwords, tmp_path / "codes", PairFilter(max_length=9))(Chunk(1, pairs))
    assert done.read == 3
    assert done.dropped == {"empty": 1, "too long": 1}
    pieces = split("lower Lower"), split("neu")
    assert done.texts == tuple(f"{line}\n".encode() for line in pieces)
    assert done.symbols == Counter(" ".join(pieces).split())
    lengths = [len(line.split()) for line in pieces]
    assert done.counts == (SideCounts(2, lengths[0], lengths[0]), SideCounts(1, lengths[1], lengths[1]))
    assert ChunkSplitter(subwords, tmp_path / "codes", None)(Chunk(1, pairs)).dropped == {}


def test_chunks() -> None:
    pairs = [(b"%d" % number, b"") for number in range(2 * CHUNK + 1)]
    assert [(chunk.first, len(chunk.pairs)) for chunk in chunks(pairs)] == [
        (1, CHUNK),
        (CHUNK + 1, CHUNK),
        (2 * CHUNK + 1, 1),
    ]
    assert [pair for chunk in chunks(pairs) for pair in chunk.pairs] == pairs
