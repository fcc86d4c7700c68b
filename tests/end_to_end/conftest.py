"""A made-up language, its data-bin, and a tiny model that has learned its training data."""

import itertools
import json

import pytest
from fairseq_commands import TRAIN, USER_DIR, VALID, run, sentence_pairs, training
from shared import made_once

import resmlp_mt.fairseq_plugin  # noqa: F401  (registers the models)


@pytest.fixture(scope="session")
def fairseq(tmp_path_factory):
    """A function that runs one of fairseq's commands to its end."""
    logs = tmp_path_factory.mktemp("logs")
    numbers = itertools.count()

    return lambda command, *arguments, **options: run(
        logs / f"{next(numbers)}.{command}.log", command, *arguments, **options
    )


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A folder with raw and subword (``bpe``) text, and the subword codes."""
    return made_once(tmp_path_factory, "corpus", make_corpus)


def make_corpus(folder):
    from sacremoses import MosesTokenizer
    from subword_nmt.apply_bpe import BPE
    from subword_nmt.learn_bpe import learn_bpe

    tokenized = []
    for split, number, seed in ("train", TRAIN, 1), ("valid", VALID, 2):
        for side, lines in zip(("de", "en"), zip(*sentence_pairs(number, seed), strict=True), strict=True):
            tokenizer = MosesTokenizer(lang=side)
            (folder / f"{split}.{side}").write_text("\n".join(lines) + "\n")
            tokenized.append((f"{split}.bpe.{side}", [tokenizer.tokenize(line, return_str=True) for line in lines]))
    codes = folder / "codes"
    with codes.open("w") as stream:
        learn_bpe([line for _, lines in tokenized for line in lines], stream, 30)
    with codes.open() as stream:
        bpe = BPE(stream)
    for name, lines in tokenized:
        (folder / name).write_text("".join(bpe.process_line(line) + "\n" for line in lines))


@pytest.fixture(scope="session")
def data_bin(corpus, fairseq, tmp_path_factory):
    def preprocess(folder):
        fairseq(
            "preprocess", "-s", "de", "-t", "en", "--joined-dictionary", "--workers", 1, "--destdir", folder,
            "--trainpref", corpus / "train.bpe", "--validpref", corpus / "valid.bpe",
        ).succeeded()  # fmt: skip

    return made_once(tmp_path_factory, "data-bin", preprocess)


@pytest.fixture(scope="session")
def train(fairseq, data_bin):
    """A function that trains into a folder with a few common options; later options win."""
    return lambda folder, *options, data=data_bin, **more: fairseq("train", *training(data, folder), *options, **more)


@pytest.fixture(scope="session")
def trained(train, tmp_path_factory):
    """The folder of a trained model, with its ``checkpoint_best.pt``, and the training's log."""

    def train_into(folder):
        done = train(
            folder, "--optimizer", "adam", "--lr", 0.02, "--lr-scheduler", "polynomial_decay",
            "--total-num-update", 200, "--max-update", 200, "--dropout", 0, "--share-all-embeddings",
            "--valid-subset", "train", "--validate-interval", 21, "--save-interval", 21, "--no-epoch-checkpoints",
            "--eval-bleu", "--eval-bleu-args", json.dumps({"beam": 4}), "--eval-bleu-detok", "moses",
            "--eval-bleu-remove-bpe", "--best-checkpoint-metric", "bleu", "--maximize-best-checkpoint-metric",
            "--log-interval", 50,
        ).succeeded()  # fmt: skip
        (folder / "log").write_text(done.output)

    folder = made_once(tmp_path_factory, "trained", train_into)
    return folder, (folder / "log").read_text()


@pytest.fixture(scope="session")
def generate(fairseq, data_bin, trained):
    """A function that translates the validation set by beam search with a few common options; later options win."""

    def translate(*options, path=trained[0] / "checkpoint_best.pt", data=data_bin, **more):
        return fairseq(
            "generate", data, "--user-dir", USER_DIR, "--path", path, "--gen-subset", "valid", "--beam", 4, "--cpu",
            "--required-batch-size-multiple", 1, *options, **more,
        ).succeeded()  # fmt: skip

    return translate
