"""A teacher's translations as binarized data, beside what fairseq-preprocess makes of the same text."""

import random
import re
import shutil

import pytest
import torch
from fairseq.data import Dictionary, data_utils, indexed_dataset
from fairseq.options import get_preprocessing_parser
from fairseq_cli import preprocess as fairseq_preprocess

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.raw_text import RawText
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.lab.distillation import DataBin, Distilled, distill
from resmlp_mt.text.words import Words
from scripts import in_process

WORDS = [f"w{number}" for number in range(20)]
TRAIN = 31
CLOSING = "Generate train with beam=5: BLEU4 = 12.34, 50.0/20.0/10.0/5.0 (BP=1.000, ratio=1.000, syslen=9, reflen=9)\n"


def lines(number, seed):
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=generator.randint(2, 9))) for _ in range(number)]


def write_text(path, text):
    path.write_text("".join(f"{line}\n" for line in text))


def preprocess(folder, name, **options):
    more = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    arguments = ["-s", "xx", "-t", "yy", "--destdir", str(folder / name), *more, "--workers", "1"]
    fairseq_preprocess.main(get_preprocessing_parser().parse_args(arguments))


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Text and its binarized form; words that only the sources' rare last sentence has are unknown."""
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
    return DataBin(tmp_path / "data-bin", "xx", "yy")


@pytest.fixture(scope="module")
def sentences(original):
    """The training sources as the dictionary has them, and made-up translations, the fourth of them the reference."""
    sources = (original / "train.xx").read_text().splitlines()
    sources[-1] = "<unk> <unk> <unk>"
    targets = lines(TRAIN, "teacher")
    targets[3] = (original / "train.yy").read_text().splitlines()[3]
    targets[5], targets[7] = "", "w1 <unk> w2"
    return list(zip(sources, targets, strict=True))


def generated(sentences):
    """What fairseq-generate prints, in another order."""
    text = ["2026-01-01 | INFO | fairseq_cli.generate | loading\n"]
    for number in sorted(sentences, key=lambda number: (len(sentences[number][0]), number)):
        source, target = sentences[number]
        text.append(f"S-{number}\t{source}\nT-{number}\tw0\nH-{number}\t-0.5\t{target}\nP-{number}\t-1 -1\n")
    return "".join([*text, CLOSING])


@pytest.fixture
def write(sentences, tmp_path):
    """Write one or two shards, with some sentences changed, exchanged (a number) or left out (None)."""

    def make(shards=1, changed=()):
        numbered = dict(enumerate(sentences)) | {
            number: sentences[new] if isinstance(new, int) else new for number, new in dict(changed).items()
        }
        paths = []
        for shard in range(shards):
            paths.append(tmp_path / f"shard{shard}.txt")
            here = {n: each for n, each in numbered.items() if each is not None and n % shards == shard}
            paths[-1].write_text(generated(here))
        return paths

    return make


@pytest.mark.parametrize("shards", [1, 2])
def test_the_data_is_what_fairseq_preprocess_makes_of_the_text(original, data, sentences, write, tmp_path, shards):
    before = {path.name: path.read_bytes() for path in data.folder.iterdir()}
    new = data.folder / "new"  # also within the data
    assert distill(write(shards), data, new) == Distilled(pairs=TRAIN, same=1, unknown=1, empty=1)
    assert before == {path.name: path.read_bytes() for path in data.folder.iterdir() if path.is_file()}
    shutil.copyfile(original / "train.xx", tmp_path / "train.xx")
    write_text(tmp_path / "train.yy", [target for _, target in sentences])
    dictionaries = {"srcdict": data.folder / "dict.xx.txt", "tgtdict": data.folder / "dict.yy.txt"}
    preprocess(tmp_path, "expected", trainpref=tmp_path / "train", validpref=original / "valid", **dictionaries)
    expected = {path.name: path.read_bytes() for path in (tmp_path / "expected").iterdir()}
    found = {path.name: path.read_bytes() for path in new.iterdir()}
    assert found | {"preprocess.log": b""} == expected | {"preprocess.log": b""}
    assert not list(data.folder.glob(".*.tmp"))


def test_the_original_pairs_follow_the_teacher_s(original, data, sentences, write, tmp_path):
    assert distill(write(), data, tmp_path / "both", keep_original=True).pairs == 2 * TRAIN
    targets = [target for _, target in sentences] + (original / "train.yy").read_text().splitlines()
    for language, expected in ("xx", [source for source, _ in sentences] * 2), ("yy", targets):
        dictionary = Dictionary.load(str(data.folder / f"dict.{language}.txt"))
        found = data_utils.load_indexed_dataset(str(tmp_path / "both" / f"train.xx-yy.{language}"), dictionary)
        assert [dictionary.string(sentence) for sentence in found] == expected


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({4: None}, "no S- line of sentence 4, 1 of 31 are missing"),
        ({8: 9, 9: 8}, "is not that of the data's train"),
        ({31: ("w1", "w1")}, "sentence 31 is not that of the data's train"),
        ({30: ("<unk> <unk> <unk>", "w1 wow")}, "sentence 30: 'wow' is not in the data's dictionary"),
    ],
)
def test_what_does_not_fit_is_refused_and_leaves_nothing(data, write, tmp_path, changed, message):
    paths = write(changed=changed)
    with pytest.raises(UserError, match=message):
        distill(paths, data, tmp_path / "new")
    assert sorted(tmp_path.iterdir()) == [data.folder, *paths]


def test_shards_given_twice_and_references_are_refused(data, write, tmp_path):
    (path,) = write()
    with pytest.raises(UserError, match=r"sentence .* again, first seen at"):
        distill([path, path], data, tmp_path / "new")
    path.write_text(re.sub(r"^(T-\d+\t).*\n(H-.*\t)(.*)", r"\1\3\n\2\3", path.read_text(), flags=re.MULTILINE))
    with pytest.raises(UserError, match=r"every hypothesis .*--score-reference"):
        distill([path], data, tmp_path / "new")


@pytest.mark.parametrize(
    ("name", "message"),
    [("data-bin", "over the input"), (".", "over the input"), ("old", "exists already")],
)
def test_nothing_is_written_over(data, write, tmp_path, name, message):
    (tmp_path / "old").mkdir()
    with pytest.raises(UserError, match=message):
        distill(write(), data, tmp_path / name)


@pytest.mark.parametrize("option", ["--source-lang", "--target-lang"])
def test_names_of_languages_are_looked_at_first(monkeypatch, option):
    options = {"--source-lang": "xx", "--target-lang": "yy", option: "../xx"}
    with pytest.raises(UserError, match=f"{option} '../xx': give letters"):
        in_process("distill", monkeypatch)(
            "nowhere", "--data", "nowhere", "--out", "new", *(word for pair in options.items() for word in pair)
        )


def cut(path):
    path.write_bytes(path.read_bytes()[:-3])


def make_legacy(path):
    dataset = indexed_dataset.make_builder(str(path.with_suffix(".bin")), "lazy")
    dataset.add_item(torch.tensor([4, 2]))
    dataset.finalize(str(path))


def make_shorter(path):
    for kind in ".bin", ".idx":
        shutil.copy(path.with_name(f"valid.xx-yy.yy{kind}"), path.with_suffix(kind))


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("dict.xx.txt", lambda path: path.unlink(), r"dict\.xx\.txt: no such file"),
        ("train.xx-yy.xx.idx", lambda path: path.unlink(), r"xx\.idx: no such file"),
        ("train.xx-yy.xx.idx", cut, r"xx\.idx: cut short or damaged"),
        ("train.xx-yy.yy.bin", cut, r"yy\.bin: has .* bytes, .* asks for"),
        ("train.xx-yy.yy.idx", lambda path: path.write_bytes(b"\xff" * 100), r"yy\.idx: cut short or damaged"),
        ("train.xx-yy.xx.idx", make_legacy, "not of fairseq-preprocess --dataset-impl mmap"),
        ("train.xx-yy.yy.idx", make_shorter, "data-bin: train has 31 sources, but 5 targets"),
    ],
)
def test_damaged_data_is_one_line(data, write, tmp_path, file, change, message):
    change(data.folder / file)
    with pytest.raises(UserError, match=message) as error:
        distill(write(), data, tmp_path / "new")
    assert "\n" not in str(error.value)


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
