"""Subwords: learned the same every time by each library, undone without loss, and the same as the tools' own."""

import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.workers import CHUNK, Chunk, chunks
from resmlp_mt.data.chunks import ChunkSplitter, PairFilter, SideCounts, WordCounter
from resmlp_mt.data.subwords import Subwords, every_nth, learn_bpe, learn_pieces, write_counts
from resmlp_mt.text.words import CharacterCleaner

SETTLE = CharacterCleaner("en", punctuation=False)
TEXT = ["the lower the newer , the wider", "low lower lowest <s> & @-@", "neu neuer am neuesten ä ö ü ß"] * 8
PAIRS = [(line.encode(), line.encode()) for line in TEXT]


# What has a special meaning for the tools or fairseq, and what is not Latin letters of one code point each
NASTY_LINES = [
    "a@@ @@ b@@c @@d @ @@@ @@@@ next word@@",
    "a</w> </w> </w>b x</w>y w> <w",
    "<s> x<s> <pad> a<pad> </s> <unk> <unk>. <mask>",
    "▁a▁b ▁ ▁▁ c ⁇ ▅ <0x41> ▅▅",
    "m² ½ … ﬁ № Ω Å K ㎏",
    "cafe\u0301 na\u0308ive a\u0300\u0301\u0302 \u0301 \u20dd",
    "👨\u200d👩\u200d👧 👩🏽\u200d🚀 ❤\ufe0f 1\ufe0f\u20e3 🇩🇪",
    "𝒜𝓁𝒾𝒸𝑒 𠀀𠮷 𝟘𝟙 \U0010fffd",
    "שָׁלוֹם עולם \u200fabc العَرَبِيَّة ١٢٣ می\u200cخواهم",
    "ไทยไม่มีช่องว่างระหว่างคำ 我们没有空格也没有标点符号 日本語、です。 한국어 텍스트",
    "हिन्दी में लिखा है İstanbul ß ẞ ſ ŉ ǆ",
    "\\ \\1 \\g<0> . * + ? ( [ { ^ $ | #version: 0.2 #fairseq:overwrite madeupword0000",
    "\t tab\u00a0nbsp\u3000wide \u2028 line '' \" , ,, ;= %s {} $(x) `x`",
]


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], Path]:
    """The learned file of each kind, from text without and with the nasty lines."""
    folder = tmp_path_factory.mktemp("learned")
    files = {}
    for nasty in (False, True):
        lines = [*TEXT, *[line for line in map(SETTLE, NASTY_LINES) for _ in range(3) if nasty]]
        pairs = [(line.encode(), line.encode()) for line in lines]
        write_counts(WordCounter()(Chunk(1, pairs))[1], folder / "words")
        for kind, symbols in (("bpe", 400), ("sentencepiece", 215 if nasty else 34)):
            subwords, path = Subwords(kind, symbols), folder / f"{kind} {nasty}"
            files[kind, nasty] = path
            assert learn_bpe(folder / "words", path, subwords) if kind == "bpe" else learn_pieces(pairs, path, subwords)
    return files


@pytest.mark.parametrize("nasty", [False, True], ids=["unseen", "seen"])
@pytest.mark.parametrize("kind", ["bpe", "sentencepiece"])
def test_nasty_lines_come_back(learned: dict[tuple[str, bool], Path], kind: str, nasty: bool) -> None:
    from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig
    from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE

    path = learned[kind, nasty]
    split = Subwords(kind).load(path)
    if kind == "bpe":  # fairseq's own encoders, as in fairseq-interactive
        theirs = SubwordNMTBPE(SimpleNamespace(bpe_codes=str(path), bpe_separator="@@"))
    else:
        theirs = SentencepieceBPE(SentencepieceConfig(sentencepiece_model=str(path)))
    for line in [*TEXT, *map(SETTLE, NASTY_LINES), "unseen Wörter 123"]:
        assert split(line) == theirs.encode(line)
        assert theirs.decode(split(line)) == line
        # fairseq's dictionary would take these for its special symbols
        assert not {"<s>", "<pad>", "</s>", "<unk>"}.intersection(split(line).split())


@pytest.mark.parametrize(
    ("lengths", "reason"), [((0, 1), "empty"), ((3, 3), None), ((4, 1), "too long"), ((1, 3), "ratio"), ((2, 3), None)]
)
def test_filter(lengths: tuple[int, int], reason: str | None) -> None:
    pair_filter = PairFilter(max_length=3, max_ratio=1.5)
    assert pair_filter.why_dropped(lengths) == pair_filter.why_dropped(lengths[::-1]) == reason
    assert PairFilter().why_dropped(lengths) == (reason if reason == "empty" else None)


def test_a_chunk_is_split_filtered_and_counted(learned: dict[tuple[str, bool], Path]) -> None:
    subwords, codes = Subwords("bpe"), learned["bpe", False]
    split = subwords.load(codes)
    pairs = [(b"lower Lower", b"neu"), (b"", b"neu"), (b"low", b"wider " * 10)]
    done = ChunkSplitter(subwords, codes, PairFilter(max_length=9))(Chunk(1, pairs))
    assert done.read == 3
    assert done.dropped == {"empty": 1, "too long": 1}
    pieces = split("lower Lower"), split("neu")
    assert done.texts == tuple(f"{line}\n".encode() for line in pieces)
    assert done.symbols == Counter(" ".join(pieces).split())
    lengths = [len(line.split()) for line in pieces]
    assert done.counts == (SideCounts(2, lengths[0], lengths[0]), SideCounts(1, lengths[1], lengths[1]))
    assert ChunkSplitter(subwords, codes, None)(Chunk(1, pairs)).dropped == {}


def test_a_line_that_must_be_too_long_is_not_split(learned: dict[tuple[str, bool], Path]) -> None:
    splitter = ChunkSplitter(Subwords("bpe"), learned["bpe", False], PairFilter(max_length=9))
    done = splitter(Chunk(1, [(b"l" * 10_000_000, b"low"), (b"lower " * 9, b"low"), (b"lower " * 10, b"low")]))
    assert (done.dropped, done.counts[0].words) == ({"too long": 2}, 9)
    pairs = [(b"low", b"l" * letters + b" low") for letters in (10_000, 10_001)]
    done = ChunkSplitter(Subwords("bpe"), learned["bpe", False], PairFilter(max_length=10**6))(Chunk(1, pairs))
    assert (done.dropped, done.counts[1].words) == ({"too long": 1}, 2)


def test_only_pieces_are_for_the_dictionary(tmp_path: Path) -> None:
    learn_pieces(PAIRS, tmp_path / "model", Subwords("sentencepiece", 32))
    splitter = ChunkSplitter(Subwords("sentencepiece"), tmp_path / "model", PairFilter())
    done = splitter(Chunk(1, [("low 文字 low文".encode(), b"<unk> low")]))
    assert "文字" in done.texts[0].decode().split()
    assert not [symbol for symbol in done.symbols if "文" in symbol]
    assert done.symbols and set(done.symbols) <= splitter._split.symbols


def test_chunks(monkeypatch):
    pairs = [(b"%d" % number, b"") for number in range(2 * CHUNK + 1)]
    made = list(chunks(pairs))
    assert [(chunk.first, len(chunk.lines)) for chunk in made] == [(1, CHUNK), (CHUNK + 1, CHUNK), (2 * CHUNK + 1, 1)]
    assert [pair for chunk in made for pair in chunk.lines] == pairs
    assert list(chunks([])) == []
    monkeypatch.setattr("resmlp_mt.common.workers.CHUNK_BYTES", 30)
    pairs = [(b"x", b"y"), (b"x" * 40, b""), (b"", b"y" * 29), (b"x", b"y")]
    assert [(chunk.first, chunk.lines) for chunk in chunks(pairs)] == [(1, pairs[:2]), (3, pairs[2:])]


def made_up(words: int, seed: int = 1) -> Counter[str]:
    """Return made-up words of syllables, with counts by Zipf's law."""
    chance = Random(seed)
    syllables = [a + b + c for a in "bdfgklmnprst" for b in "aeiouäé" for c in ("", "n", "r", "st")]
    counts: Counter[str] = Counter()
    for rank in range(1, words + 1):
        counts["".join(chance.choices(syllables, k=chance.randint(1, 4)))] += 1 + 20_000 // rank
    return counts


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("words") / "words.txt"
    write_counts(made_up(3000), path)
    return path


def test_words_are_counted_and_written_in_one_order(tmp_path):
    read, counts = WordCounter()(Chunk(1, PAIRS))
    expected = Counter({word: 2 * count for word, count in Counter(" ".join(TEXT).split()).items()})
    del expected["<s>"]  # it could be learned whole, and fairseq's dictionary would take it for its own
    assert (read, counts) == (24, expected)
    for order in "b a c", "c b a":
        write_counts({word: 2 + (word == "c") for word in order.split()}, tmp_path / "words")
        assert (tmp_path / "words").read_text() == "c 3\na 2\nb 2\n"


def test_subword_nmt_learns_what_its_command_does(words: Path, tmp_path: Path) -> None:
    assert learn_bpe(words, tmp_path / "codes", Subwords("bpe", 100)) == 100
    command = [sys.executable, "-m", "subword_nmt.learn_bpe", "--dict-input", "--symbols", "100"]
    subprocess.run([*command, "--input", words, "--output", tmp_path / "theirs"], check=True, capture_output=True)
    assert (tmp_path / "codes").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_tokenizers_learn_merges_as_good(words: Path, tmp_path: Path) -> None:
    sizes = {}
    for learner in ("subword-nmt", "tokenizers"):
        assert learn_bpe(words, tmp_path / learner, Subwords("bpe", 400, learner), jobs=2) == 400
        assert (tmp_path / learner).read_text().startswith("#version: 0.2\n")
        split = Subwords("bpe").load(tmp_path / learner)
        sizes[learner] = sum(count * len(split(word).split()) for word, count in made_up(3000).items())
        assert len(split._bpe.bpe_codes) == 400
        assert any(second.endswith("</w>") for _, second in split._bpe.bpe_codes)
    assert abs(sizes["tokenizers"] / sizes["subword-nmt"] - 1) < 0.02


def test_subwords_are_learned_the_same_every_time(tmp_path):
    # tokenizers' hash tables have another order in every process; it matters where pairs are equally frequent.
    write_counts(dict.fromkeys(made_up(400), 2), tmp_path / "words")
    learned = set()
    for jobs in (1, 2, 2):
        learn_bpe(tmp_path / "words", tmp_path / "codes", Subwords("bpe", 200, "tokenizers"), jobs)
        assert learn_pieces(PAIRS, tmp_path / "model", Subwords("sentencepiece", 34)) == 34
        learned.add((tmp_path / "codes").read_bytes() + (tmp_path / "model").read_bytes())
    assert len(learned) == 1


@pytest.mark.parametrize("learner", ["subword-nmt", "tokenizers"])
def test_too_small_for_bpe(tmp_path, learner):
    write_counts(Counter(["ab", "cd"]), tmp_path / "words")
    with pytest.raises(UserError, match="no two letters"):
        learn_bpe(tmp_path / "words", tmp_path / "codes", Subwords("bpe", 10, learner))
    assert [path.name for path in tmp_path.iterdir()] == ["words"]
    write_counts({"ab": 3, "abc": 2}, tmp_path / "words")  # fewer merges than asked for
    assert learn_bpe(tmp_path / "words", tmp_path / "codes", Subwords("bpe", 10, learner)) == 3


def test_too_small_for_sentencepiece(tmp_path):
    with pytest.raises(UserError, match=r"--symbols 4000: sentencepiece learned nothing: .*4000"):
        learn_pieces([(b"ab cd", b"")] * 9, tmp_path / "learned", Subwords("sentencepiece", 4000))
    assert not list(tmp_path.iterdir())


def test_options_that_do_not_go_together(monkeypatch):
    with pytest.raises(UserError, match="--bpe-learner tokenizers: learns BPE"):
        Subwords("sentencepiece", learner="tokenizers")
    monkeypatch.setattr("resmlp_mt.data.subwords.find_spec", lambda name: None)
    with pytest.raises(UserError, match="--bpe-learner tokenizers: is not installed: pip install"):
        Subwords(learner="tokenizers")


@pytest.mark.parametrize(("total", "kept"), [(10, 10), (11, 6), (95, 10), (0, 0)])
def test_sample_is_spread_evenly(total, kept):
    sample = [int(source) for source, _ in every_nth([(b"%d" % number, b"") for number in range(total)], total, 10)]
    assert len(sample) == kept
    assert len({b - a for a, b in pairwise(sample)}) <= 1
