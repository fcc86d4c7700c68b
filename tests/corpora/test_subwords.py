"""Subwords: learned the same every time, undone without loss, and the same as the tools' own."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from resmlp_mt.corpora.filtering import PairFilter
from resmlp_mt.corpora.parallel import ordered_map
from resmlp_mt.corpora.subwords import PairSplitter, Subwords
from resmlp_mt.errors import UserError

TEXT = ["the lower the newer , the wider", "low lower lowest <s> & @-@", "neu neuer am neuesten ä ö ü ß"] * 8


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text"
    path.write_text("".join(f"{line}\n" for line in TEXT))
    return path


def test_bpe_is_that_of_the_commands(text: Path, tmp_path: Path) -> None:
    subwords = Subwords("bpe", symbols=20)
    assert subwords.learn([text, text], tmp_path / "codes") == 20
    command = [sys.executable, "-c", "from subword_nmt.subword_nmt import main; main()"]
    learn = ["learn-joint-bpe-and-vocab", "-s", "20", "--input", text, text, "--output", tmp_path / "theirs"]
    subprocess.run([*command, *learn, "--write-vocabulary", tmp_path / "v1", tmp_path / "v2"], check=True)
    assert (tmp_path / "codes").read_bytes() == (tmp_path / "theirs").read_bytes()
    with text.open() as lines:
        done = subprocess.run([*command, "apply-bpe", "-c", tmp_path / "codes"], stdin=lines, capture_output=True)
    assert done.stdout.decode().splitlines() == list(map(subwords.load(tmp_path / "codes"), TEXT))


def test_bpe_round_trip_through_fairseq(text: Path, tmp_path: Path) -> None:
    from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE

    subwords = Subwords("bpe", symbols=10)
    subwords.learn([text], tmp_path / "codes")
    split = subwords.load(tmp_path / "codes")
    theirs = SubwordNMTBPE(SimpleNamespace(bpe_codes=str(tmp_path / "codes"), bpe_separator="@@"))
    for line in [*TEXT, "unseen Wörter 123"]:
        pieces = split(line)
        assert pieces == theirs.encode(line)
        assert theirs.decode(pieces) == line
        assert sum(map(subwords.marks_word, pieces.split())) == len(line.split())


def test_sentencepiece_round_trip_through_fairseq(text: Path, tmp_path: Path) -> None:
    from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig

    subwords = Subwords("sentencepiece", symbols=30)
    assert subwords.learn([text], tmp_path / "model") == 30
    subwords.learn([text], tmp_path / "again")
    assert (tmp_path / "model").read_bytes() == (tmp_path / "again").read_bytes()
    split = subwords.load(tmp_path / "model")
    theirs = SentencepieceBPE(SentencepieceConfig(sentencepiece_model=str(tmp_path / "model")))
    for line in TEXT:
        assert split(line) == theirs.encode(line)
        assert theirs.decode(split(line)) == line
        assert sum(map(subwords.marks_word, split(line).split())) == len(line.split())


@pytest.mark.parametrize(
    ("subwords", "lines", "message"),
    [
        (Subwords("bpe"), "", "no two letters"),
        (Subwords("bpe"), "a b c\n", "no two letters"),
        (Subwords("bpe"), "ab cd\n", "no two letters"),
        (Subwords("sentencepiece", 4000), "ab cd\n" * 9, "sentencepiece learned nothing: .*4000"),
        (Subwords("sentencepiece", 40), "", "sentencepiece learned nothing"),
    ],
)
def test_too_small_to_learn_from(tmp_path: Path, subwords: Subwords, lines: str, message: str) -> None:
    (tmp_path / "text").write_text(lines)
    with pytest.raises(UserError, match=message) as error:
        subwords.learn([tmp_path / "text"], tmp_path / "learned")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "learned").exists()


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("", "a", "empty"),
        ("", "", "empty"),
        ("a b c", "a b c", None),
        ("a b c d", "a", "too long"),
        ("a", "a b c", "ratio"),
        ("a b", "a b c", None),
    ],
)
def test_filter(source: str, target: str, reason: str | None) -> None:
    pair_filter = PairFilter(max_length=3, max_ratio=1.5)
    assert pair_filter.why_dropped((source, target)) == reason
    assert pair_filter.why_dropped((target, source)) == reason
    assert PairFilter().why_dropped((source, target)) == (reason if reason == "empty" else None)


class _Failing:
    def __call__(self, item: int) -> int:
        if item == 700:
            raise RuntimeError("worker")
        return item


def test_workers_keep_the_order_and_pass_on_errors(text: Path, tmp_path: Path) -> None:
    assert list(ordered_map(_Failing, range(700), workers=2)) == list(range(700))
    with pytest.raises(RuntimeError, match="worker"):
        list(ordered_map(_Failing, range(2000), workers=2))


def test_both_sides_are_split(text: Path, tmp_path: Path) -> None:
    subwords = Subwords("bpe", 20)
    subwords.learn([text], tmp_path / "codes")
    split = subwords.load(tmp_path / "codes")
    assert PairSplitter(subwords, tmp_path / "codes")(("lower", "Lower")) == (split("lower"), split("Lower"))
