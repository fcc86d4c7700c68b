"""A teacher's translations as binarized data, compared with what fairseq-preprocess makes of the same text."""

import random
import shutil

import pytest
from fairseq.options import get_preprocessing_parser
from fairseq_cli import preprocess as fairseq_preprocess
from score.generated import CLOSING
from score.generated import write as write_text

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.raw_text import RawText
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.lab.distillation import DataBin, distill
from resmlp_mt.text.words import Words

WORDS = [f"w{number}" for number in range(20)]
TRAIN = 31


def lines(number, seed):
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=generator.randint(2, 9))) for _ in range(number)]


def preprocess(folder, name, **options):
    more = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    arguments = ["-s", "xx", "-t", "yy", "--destdir", str(folder / name), *more, "--workers", "1"]
    fairseq_preprocess.main(get_preprocessing_parser().parse_args(arguments))


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Text and its binarized form; words that occur only in the last source sentence are rare, and so unknown."""
    folder = tmp_path_factory.mktemp("data")
    for split, number in ("train", TRAIN), ("valid", 5):
        for language in "xx", "yy":
            text = lines(number, f"{split}{language}")
            if (split, language) == ("train", "xx"):
                text[-1] = "rare words here"
            write_text(folder / f"{split}.{language}", text)
    preprocess(folder, "data-bin", trainpref=folder / "train", validpref=folder / "valid", thresholdsrc=2)
    return folder


@pytest.fixture
def data(original, tmp_path):
    shutil.copytree(original / "data-bin", tmp_path / "data-bin")
    return DataBin(tmp_path / "data-bin", ("xx", "yy"))


@pytest.fixture(scope="module")
def sentences(original):
    """The training sources, rare words as <unk>, and made-up translations, of which the fourth is the reference."""
    sources = (original / "train.xx").read_text().splitlines()
    sources[-1] = "<unk> <unk> <unk>"
    targets = lines(TRAIN, "teacher")
    targets[3] = (original / "train.yy").read_text().splitlines()[3]
    targets[5], targets[7] = "", "w1 <unk> w2"
    return list(zip(sources, targets, strict=True))


@pytest.fixture
def write(sentences, tmp_path):
    """A function that writes fairseq-generate's output as shards, not in order, some sentences changed or left out."""

    def make(shards=1, changed=None):
        numbered = {**dict(enumerate(sentences)), **(changed or {})}
        paths = [tmp_path / f"shard{shard}.txt" for shard in range(shards)]
        for shard, path in enumerate(paths):
            text = "2026-01-01 | INFO | fairseq_cli.generate | loading\n"
            for number in sorted(numbered, key=lambda number: -number):
                if numbered[number] and number % shards == shard:
                    source, target = numbered[number]
                    text += f"S-{number}\t{source}\nT-{number}\tw0\nH-{number}\t-0.5\t{target}\nP-{number}\t-1 -1\n"
            path.write_text(f"{text}{CLOSING}\n")
        return paths

    return make


@pytest.mark.parametrize(("shards", "keep"), [(1, False), (2, True)])
def test_the_data_is_what_fairseq_preprocess_makes(original, data, sentences, write, tmp_path, shards, keep):
    before = {path.name: path.read_bytes() for path in data.folder.iterdir()}
    new = data.folder / "new"  # a folder inside the data is allowed
    (data.folder / ".new.0123abcd.tmp").mkdir()  # a killed run's
    written = distill(write(shards), data, new, keep_original=keep)
    assert written == {"pairs": TRAIN * (2 if keep else 1), "same": 1, "unknown": 1, "empty": 1}
    assert before == {path.name: path.read_bytes() for path in data.folder.iterdir() if path.is_file()}
    text = {"xx": (original / "train.xx").read_text().splitlines(), "yy": [target for _, target in sentences]}
    for language in text:  # the original pairs follow the teacher's
        references = (original / f"train.{language}").read_text().splitlines() if keep else []
        write_text(tmp_path / f"train.{language}", text[language] + references)
    dictionaries = {"srcdict": data.folder / "dict.xx.txt", "tgtdict": data.folder / "dict.yy.txt"}
    preprocess(tmp_path, "expected", trainpref=tmp_path / "train", validpref=original / "valid", **dictionaries)
    expected = {path.name: path.read_bytes() for path in (tmp_path / "expected").iterdir()}
    found = {path.name: path.read_bytes() for path in new.iterdir()}
    assert found | {"preprocess.log": b""} == expected | {"preprocess.log": b""}
    assert not list(data.folder.glob(".*.tmp"))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({4: None}, "no S- line of sentence 4, 1 of 31 are missing"),
        ({8: ("w1 w2 w3", "w1")}, "is not that of the data's train"),
        ({30: ("<unk> <unk> <unk>", "w1 wow")}, "sentence 30: 'wow' is not in the data's dictionary"),
    ],
)
def test_what_does_not_fit_is_refused_and_leaves_nothing(data, write, tmp_path, changed, message):
    paths = write(changed=changed)
    with pytest.raises(UserError, match=message):
        distill(paths, data, tmp_path / "new")
    assert sorted(tmp_path.iterdir()) == [data.folder, *paths]


def test_nothing_is_written_over(data, write, tmp_path):
    (tmp_path / "old").mkdir()
    for name, message in ("data-bin", "over the input"), (".", "over the input"), ("old", "is there already"):
        with pytest.raises(UserError, match=message):
            distill(write(), data, tmp_path / name)


def test_data_of_the_other_direction_is_read_and_train1_refused(data, write, tmp_path):
    for path in data.folder.glob("*.xx-yy.*"):
        path.rename(path.with_name(path.name.replace("xx-yy", "yy-xx")))
    distill(write(), data, tmp_path / "new")
    assert {path.name for path in (tmp_path / "new").iterdir()} == {path.name for path in data.folder.iterdir()}
    for path in data.folder.glob("train.*"):
        shutil.copy(path, path.with_name(path.name.replace("train", "train1")))
    with pytest.raises(UserError, match="training would add train1"):
        distill(write(), data, tmp_path / "other")


def test_sources_may_be_running_text_where_the_data_says_how(data, sentences, write, tmp_path, monkeypatch):
    assert data.running_text()("w@@ 1 , ( w2 )") == "w@@ 1 , ( w2 )"
    (tmp_path / "codes").write_text("#version: 0.2\nw 1\n")
    RawText(data.folder, ("xx", "yy"), Words(), Subwords("bpe"), "bpe.codes").write(tmp_path / "codes")
    assert data.running_text()("w@@ 1 , ( w2 )") == "w1, (w2)"
    monkeypatch.setattr(DataBin, "running_text", lambda self: str.upper)
    source, target = sentences[4]
    distill(write(changed={4: (source.upper(), target)}), data, tmp_path / "new")
    assert {path.name for path in (tmp_path / "new").iterdir()} == {path.name for path in data.folder.iterdir()}
    with pytest.raises(UserError, match="sentence 4 is not that of the data's train"):
        distill(write(changed={4: (source.title() + "x", target)}), data, tmp_path / "other")
