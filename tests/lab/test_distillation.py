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
TRAIN = 30
CLOSING = "Generate train with beam=5: BLEU4 = 12.34, 50.0/20.0/10.0/5.0 (BP=1.000, ratio=1.000, syslen=9, reflen=9)\n"


def lines(number, seed):
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=generator.randint(2, 9))) for _ in range(number)]


def preprocess(folder, name, **options):
    more = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    arguments = ["-s", "xx", "-t", "yy", "--destdir", str(folder / name), *more, "--workers", "1"]
    fairseq_preprocess.main(get_preprocessing_parser().parse_args(arguments))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Text and its binarized form; words that only the sources' rare last sentence has are unknown."""
    folder = tmp_path_factory.mktemp("data")
    texts = {}
    for seed, (split, number) in enumerate((("train", TRAIN), ("valid", 5))):
        for language in "xx", "yy":
            texts[split, language] = lines(number, f"{seed}{language}")
            text = texts[split, language] + (["rare words here"] if (split, language) == ("train", "xx") else [])
            text += ["w1 w2"] if (split, language) == ("train", "yy") else []
            (folder / f"{split}.{language}").write_text("".join(f"{line}\n" for line in text))
    common = {"trainpref": folder / "train", "validpref": folder / "valid"}
    preprocess(folder, "data-bin", **common, thresholdsrc=2)
    return folder


@pytest.fixture(scope="module")
def sentences(data):
    """The training sources as the dictionary has them, and made-up translations, the fourth of them the reference."""
    sources = (data / "train.xx").read_text().splitlines()
    sources[-1] = "<unk> <unk> <unk>"
    targets = lines(TRAIN + 1, "teacher")
    targets[3] = (data / "train.yy").read_text().splitlines()[3]
    targets[5], targets[7] = "", "w1 <unk> w2"
    return list(zip(sources, targets, strict=True))


def generated(sentences):
    """What fairseq-generate prints, in another order."""
    text = ["2026-01-01 | INFO | fairseq_cli.generate | loading\n"]
    for number in sorted(sentences, key=lambda number: (len(sentences[number][0]), number)):
        source, target = sentences[number]
        text += [
            f"S-{number}\t{source}\n",
            f"T-{number}\tw0\n",
            f"H-{number}\t-0.5\t{target}\n",
            f"P-{number}\t-1 -1\n",
        ]
    return "".join([*text, CLOSING])


@pytest.fixture
def write(sentences, tmp_path):
    """Write one or two shards, with some sentences changed or left out (None)."""

    def make(shards=1, **changed):
        numbered = dict(enumerate(sentences)) | {int(key[1:]): value for key, value in changed.items()}
        numbered = {number: each for number, each in numbered.items() if each is not None}
        paths = []
        for shard in range(shards):
            paths.append(tmp_path / f"shard{shard}.txt")
            paths[-1].write_text(generated({n: each for n, each in numbered.items() if n % shards == shard}))
        return paths

    return make


@pytest.mark.parametrize("shards", [1, 2])
def test_the_data_is_what_fairseq_preprocess_makes_of_the_text(data, sentences, write, tmp_path, shards):
    result = distill(write(shards), DataBin(data / "data-bin", "xx", "yy"), tmp_path / "new")
    assert result == Distilled(pairs=TRAIN + 1, same=1, unknown=1, empty=1)
    (tmp_path / "train.xx").write_text((data / "train.xx").read_text())
    (tmp_path / "train.yy").write_text("".join(f"{target}\n" for _, target in sentences))
    dictionaries = {
        f"{side}dict": data / "data-bin" / f"dict.{lang}.txt" for side, lang in (("src", "xx"), ("tgt", "yy"))
    }
    preprocess(tmp_path, "expected", trainpref=tmp_path / "train", validpref=data / "valid", **dictionaries)
    names = {path.name for path in (tmp_path / "expected").iterdir() if path.name != "preprocess.log"}
    assert {path.name for path in (tmp_path / "new").iterdir()} - {"preprocess.log"} == names
    for name in names:
        assert (tmp_path / "new" / name).read_bytes() == (tmp_path / "expected" / name).read_bytes(), name
    assert not list(tmp_path.glob(".*.tmp"))


def test_the_original_pairs_follow_the_teacher_s(data, sentences, write, tmp_path):
    result = distill(write(), DataBin(data / "data-bin", "xx", "yy"), tmp_path / "both", keep_original=True)
    assert result.pairs == 2 * (TRAIN + 1)
    targets = [target for _, target in sentences] + (data / "train.yy").read_text().splitlines()
    for language, expected in ("xx", [source for source, _ in sentences] * 2), ("yy", targets):
        dictionary = Dictionary.load(str(data / "data-bin" / f"dict.{language}.txt"))
        found = data_utils.load_indexed_dataset(str(tmp_path / "both" / f"train.xx-yy.{language}"), dictionary)
        assert [dictionary.string(sentence) for sentence in found] == expected


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"s4": None}, "no S- line of sentence 4, 1 of 31 are missing"),
        ({"s4": ("w1 w2 w3 w4 w5 w6 w7 w8 w9 w10", "w1")}, "sentence 4 is not that of the data's train"),
        ({"s31": ("w1", "w1")}, "sentence 31 is not that of the data's train"),
        ({"s30": ("<unk> <unk> <unk>", "w1 wow")}, "sentence 30: 'wow' is not in the data's dictionary"),
    ],
)
def test_what_does_not_fit_is_refused_and_leaves_nothing(data, write, tmp_path, changed, message):
    paths = write(**changed)
    with pytest.raises(UserError, match=message):
        distill(paths, DataBin(data / "data-bin", "xx", "yy"), tmp_path / "new")
    assert list(tmp_path.iterdir()) == paths


def test_a_sentence_twice_and_two_sentences_exchanged_are_refused(data, sentences, write, tmp_path):
    (path,) = write()
    with pytest.raises(UserError, match=r"sentence .* again, first seen at"):
        distill([path, path], DataBin(data / "data-bin", "xx", "yy"), tmp_path / "new")
    exchanged = {"s8": sentences[9], "s9": sentences[8]}
    with pytest.raises(UserError, match="is not that of the data's train"):
        distill(write(**exchanged), DataBin(data / "data-bin", "xx", "yy"), tmp_path / "new")


@pytest.mark.parametrize("name", ["data-bin", "data-bin/../data-bin", "."])
def test_the_data_is_not_written_over(data, write, name):
    with pytest.raises(UserError, match="would be written over the input"):
        distill(write(), DataBin(data / "data-bin", "xx", "yy"), data / name)


def test_a_folder_within_the_data(data, write, tmp_path):
    shutil.copytree(data / "data-bin", tmp_path / "data-bin")
    before = {path.name: path.read_bytes() for path in (tmp_path / "data-bin").iterdir()}
    distill(write(), DataBin(tmp_path / "data-bin", "xx", "yy"), tmp_path / "data-bin" / "new")
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "data-bin").iterdir() if path.is_file()}


@pytest.mark.parametrize("language", ["", "../xx", "x-x", "x.x"])
@pytest.mark.parametrize("option", ["--source-lang", "--target-lang"])
def test_names_of_languages_are_looked_at_first(monkeypatch, option, language):
    options = {"--source-lang": "xx", "--target-lang": "yy", option: language}
    with pytest.raises(UserError, match=f"{option} '{re.escape(language)}': give letters"):
        in_process("distill", monkeypatch)(
            "nowhere", "--data", "nowhere", "--out", "new", *(word for pair in options.items() for word in pair)
        )


def test_the_references_are_no_teacher_s(data, write, tmp_path):
    (path,) = write()
    path.write_text(re.sub(r"^(T-\d+\t).*\n(H-.*\t)(.*)", r"\1\3\n\2\3", path.read_text(), flags=re.MULTILINE))
    with pytest.raises(UserError, match=r"every hypothesis .*--score-reference"):
        distill([path], DataBin(data / "data-bin", "xx", "yy"), tmp_path / "new")


def cut(path):
    path.write_bytes(path.read_bytes()[:-3])


DAMAGED = {
    # what becomes of the data's file
    "no index": ("train.xx-yy.xx.idx", lambda path: path.unlink(), r"xx\.idx: no such file"),
    "no sentences": ("train.xx-yy.yy.bin", lambda path: path.unlink(), r"yy\.bin: no such file"),
    "index cut": ("train.xx-yy.xx.idx", cut, r"xx\.idx: cut short or damaged"),
    "sentences cut": ("train.xx-yy.yy.bin", cut, r"yy\.bin: has .* bytes, .* asks for"),
    "garbage": ("train.xx-yy.yy.idx", lambda path: path.write_bytes(b"\xff" * 100), r"yy\.idx: cut short or damaged"),
    "legacy": ("train.xx-yy.xx.idx", lambda path: path.write_bytes(b"TNTIDX\0\0"), None),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_data_is_one_line(data, write, tmp_path, name):
    shutil.copytree(data / "data-bin", tmp_path / "data-bin")
    file, change, message = DAMAGED[name]
    change(tmp_path / "data-bin" / file)
    if message is None:
        dataset = indexed_dataset.make_builder(str(tmp_path / "data-bin" / "train.xx-yy.xx.bin"), "lazy")
        dataset.add_item(torch.tensor([4, 2]))
        dataset.finalize(str(tmp_path / "data-bin" / "train.xx-yy.xx.idx"))
        message = r"not of fairseq-preprocess --dataset-impl mmap"
    with pytest.raises(UserError, match=message) as error:
        distill(write(), DataBin(tmp_path / "data-bin", "xx", "yy"), tmp_path / "new")
    assert "\n" not in str(error.value)


def test_sides_of_unequal_length_are_refused(data, write, tmp_path):
    shutil.copytree(data / "data-bin", tmp_path / "data-bin")
    for kind in "bin", "idx":
        shutil.copy(data / "data-bin" / f"valid.xx-yy.yy.{kind}", tmp_path / "data-bin" / f"train.xx-yy.yy.{kind}")
    with pytest.raises(UserError, match=r"data-bin: train has 31 sources, but 5 targets"):
        distill(write(), DataBin(tmp_path / "data-bin", "xx", "yy"), tmp_path / "new")


def test_a_number_of_too_many_digits_is_no_sentence_s(data, write, tmp_path):
    (path,) = write()
    path.write_text(f"S-{'9' * 5000}\tx\n{path.read_text()}")
    assert distill([path], DataBin(data / "data-bin", "xx", "yy"), tmp_path / "new").pairs == TRAIN + 1


def test_a_folder_that_exists_or_data_that_does_not(data, write, tmp_path):
    (tmp_path / "old").mkdir()
    with pytest.raises(UserError, match="old: exists already"):
        distill(write(), DataBin(data / "data-bin", "xx", "yy"), tmp_path / "old")
    with pytest.raises(UserError, match=r"dict\.zz\.txt: no such file"):
        distill(write(), DataBin(data / "data-bin", "zz", "yy"), tmp_path / "new")


def test_sources_may_be_running_text_where_the_data_says_how(data, sentences, write, tmp_path, monkeypatch):
    folder = tmp_path / "data-bin"
    shutil.copytree(data / "data-bin", folder)
    assert DataBin(folder, "xx", "yy").running_text()("w@@ 1 , ( w2 )") == "w@@ 1 , ( w2 )"
    (tmp_path / "codes").write_text("#version: 0.2\nw 1\n")
    RawText(folder, ("xx", "yy"), Words(), Subwords("bpe"), "bpe.codes").write(tmp_path / "codes")
    assert DataBin(folder, "xx", "yy").running_text()("w@@ 1 , ( w2 )") == "w1, (w2)"

    monkeypatch.setattr(DataBin, "running_text", lambda self: str.upper)
    source, target = sentences[4]
    distill(write(s4=(source.upper(), target)), DataBin(folder, "xx", "yy"), tmp_path / "new")
    assert {path.name for path in (tmp_path / "new").iterdir()} == {path.name for path in folder.iterdir()}
    with pytest.raises(UserError, match="sentence 4 is not that of the data's train"):
        distill(write(s4=(source.title() + "x", target)), DataBin(folder, "xx", "yy"), tmp_path / "other")
