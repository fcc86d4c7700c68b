"""From replicas of WMT14's archives to a score, by the project's and fairseq's commands, for both pairs."""

import json

import pytest
from data import replicas
from data.misbehaving_server import running
from data.replicas import Command
from fairseq_commands import USER_DIR, training

from scripts import in_process

POSITIONS = ("--max-source-positions", 256, "--max-target-positions", 256)


@pytest.mark.parametrize(("pair", "subwords", "symbols"), [("en-de", "bpe", 100), ("en-fr", "sentencepiece", 110)])
def test_archives_to_score(pair, subwords, symbols, fairseq, tmp_path, monkeypatch, capsys):
    work, target = tmp_path / "work", pair[-2:]
    with running() as server:
        arguments = [pair, "--out", work, "--subwords", subwords, "--symbols", symbols]
        done = Command(tmp_path, replicas.serve(server), arguments).run()
    assert done.status == 0, done.error

    save = work / "resmlp"
    fairseq(
        "train", *training(work / "data-bin", save), *POSITIONS, "--share-all-embeddings", "--max-update", 9,
        "--save-interval-updates", 4, "--no-epoch-checkpoints", "--batch-size", 64, "--disable-validation",
    ).succeeded()  # fmt: skip
    in_process("average", monkeypatch)("--inputs", save, "--num-update-checkpoints", 2, "--output", save / "average.pt")
    done = fairseq(
        "generate", work / "data-bin", "--user-dir", USER_DIR, "--path", save / "average.pt", "--cpu",
        "--beam", 4, "--lenpen", 0.6, "--max-len-b", 20, "--gen-subset", "test", "--required-batch-size-multiple", 1,
    ).succeeded()  # fmt: skip
    (work / "generated").write_text(done.output)
    capsys.readouterr()
    in_process("score", monkeypatch)(
        work / "generated", "--reference", work / f"newstest2014.{target}", "--target-lang", target, "--json",
        "--subwords", "subword_nmt" if subwords == "bpe" else subwords, "--tokenizer", "moses",
        *(["--split-compounds"] if target == "de" else []),
    )  # fmt: skip
    result = json.loads(capsys.readouterr().out)
    assert result["segments"] == replicas.SETS["newstest2014"]
    of_german = {"compound_split_bleu"} if target == "de" else set()
    assert result["scores"].keys() == {"sacrebleu", "chrf2", "tokenized_bleu"} | of_german
