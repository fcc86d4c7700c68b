import json
import subprocess
import sys

import pytest
import sacrebleu
from score.generated import CLOSING, REFERENCE, generate_output, moses_tokens, sentence_lines, subwords, worse, write

from resmlp_mt.common.errors import UserError
from resmlp_mt.score.scoring import words_of
from scripts import SCRIPTS, in_process, printed


@pytest.fixture
def score_bleu(monkeypatch, capsys):
    """Run the command with these arguments; return what it prints."""
    return printed("score", monkeypatch, capsys)


@pytest.fixture
def test_set(tmp_path):
    """A folder with a reference, and a system as generate output and as the plain texts that go into it."""
    system = worse(REFERENCE)
    tokens = moses_tokens(system, escape=False)
    write(tmp_path / "ref.de", REFERENCE)
    write(tmp_path / "ref.tok", moses_tokens(REFERENCE, escape=False))
    write(tmp_path / "sys.tok", tokens)
    write(tmp_path / "gen.out", generate_output({n: subwords(line) for n, line in enumerate(tokens)}))
    return tmp_path


def scores(output):
    return {name: score["score"] for name, score in json.loads(output)["scores"].items()}


def test_scores_of_generate_output(test_set, score_bleu):
    out = score_bleu(
        test_set / "gen.out", "--reference", test_set / "ref.de", "--target-lang", "de", "--split-compounds", "--json",
        "--output", test_set / "hyp.de",
    )  # fmt: skip
    result = json.loads(out)
    assert (result["segments"], result["target_lang"]) == (len(REFERENCE), "de")
    assert list(result["scores"]) == ["sacrebleu", "chrf2", "tokenized_bleu", "compound_split_bleu"]
    hypotheses = (test_set / "hyp.de").read_text(encoding="utf-8").splitlines()
    assert len(hypotheses) == len(REFERENCE)
    expected = sacrebleu.corpus_bleu(hypotheses, [REFERENCE])
    assert result["scores"]["sacrebleu"]["score"] == round(expected.score, 4)
    tokens, reference = ((test_set / name).read_text(encoding="utf-8").splitlines() for name in ("sys.tok", "ref.tok"))
    expected = sacrebleu.corpus_bleu(tokens, [reference], tokenize="none", smooth_method="none", force=True)
    assert result["scores"]["tokenized_bleu"]["score"] == round(expected.score, 4)
    assert result["scores"]["compound_split_bleu"]["score"] != result["scores"]["tokenized_bleu"]["score"]


def test_a_hypothesis_file_is_finished_text_or_tokens(test_set, score_bleu):
    args = ["--reference", test_set / "ref.de", "--target-lang", "de", "--json"]
    expected = scores(score_bleu(test_set / "gen.out", *args, "--output", test_set / "hyp.de"))
    assert scores(score_bleu("--hypotheses", test_set / "sys.tok", "--tokenizer", "moses", *args)) == expected
    finished = scores(score_bleu("--hypotheses", test_set / "hyp.de", *args))
    assert finished["sacrebleu"] == expected["sacrebleu"]


def test_sentencepiece_of_two_shards_with_nbest_lists_makes_finished_text(test_set, score_bleu):
    pieces = [" ".join(f"▁{w[:3]} {w[3:]}".strip() for w in line.split()) for line in REFERENCE]
    for shard in range(2):
        lines = [line for n in range(shard, 8, 2) for line in sentence_lines(n, [pieces[n], "▁falsch ."])]
        write(test_set / f"shard{shard}.out", [*lines, CLOSING])
    args = ["--subwords", "sentencepiece", "--nbest", "2", "--reference", test_set / "ref.de", "--target-lang", "de"]
    result = scores(score_bleu(test_set / "shard1.out", test_set / "shard0.out", *args, "--json"))
    assert set(result.values()) == {100.0}


def test_a_test_set_of_sacrebleus_catalog(test_set, score_bleu, monkeypatch):
    monkeypatch.setattr(sacrebleu, "get_reference_files", lambda name, pair: [str(test_set / f"ref.{pair[-2:]}")])
    args = ["--sacrebleu-set", "wmt14/full", "-l", "en-de", "--json"]
    expected = score_bleu(test_set / "gen.out", "--reference", test_set / "ref.de", "--target-lang", "de", "--json")
    assert score_bleu(test_set / "gen.out", *args) == expected
    monkeypatch.setattr(sacrebleu, "get_reference_files", lambda *_: sys.exit(1))
    with pytest.raises(UserError, match="wmt14/full for en-de cannot be had"):
        score_bleu(test_set / "gen.out", *args)


@pytest.mark.parametrize("kind", ["generated", "finished"])
def test_a_baseline_adds_the_paired_bootstrap(test_set, score_bleu, kind):
    worst = worse(REFERENCE, seed=1, rate=0.5)
    if kind == "generated":
        worst = generate_output(dict(enumerate(moses_tokens(worst))))
    args = ["--reference", test_set / "ref.de", "--target-lang", "de", "--baseline", write(test_set / "base", worst)]
    out = score_bleu(test_set / "gen.out", *args)
    assert f"paired bootstrap, compared with {test_set / 'base'}" in out
    result = json.loads(score_bleu(test_set / "gen.out", *args, "--json"))
    for name, test in result["paired_bootstrap"].items():
        assert test["system"]["score"] == pytest.approx(result["scores"][name]["score"], abs=1e-4)
        assert test["baseline"]["score"] < test["system"]["score"]
        assert 0 < test["p_value"] <= 1
    out = score_bleu(test_set / "gen.out", *args[:-1], test_set / "gen.out")
    assert "gen.out, which says the same in every line" in out and out.count("p = 1.0000") == 2


@pytest.mark.parametrize("name", ["gen.out", "ref.de", "ref.tok", "base", "link", "."])
def test_an_input_is_never_written_over(test_set, score_bleu, monkeypatch, name):
    monkeypatch.chdir(test_set)
    write(test_set / "base", worse(REFERENCE, seed=1))
    (test_set / "link").symlink_to("ref.de")
    before = {path: path.read_bytes() for path in test_set.iterdir()}
    args = ["gen.out", "--reference", "ref.de", "--tokenized-reference", "ref.tok", "--baseline", "base"]
    with pytest.raises(UserError, match=f"^{name}: would be written over the input "):
        score_bleu(*args, "--target-lang", "de", "--output", name)
    assert {path: path.read_bytes() for path in test_set.iterdir()} == before


def test_blank_lines_and_scores_near_zero_are_remarked_on(test_set, monkeypatch, capsys):
    run = in_process("score", monkeypatch)
    args = ["--target-lang", "de", "--reference", write(test_set / "blanks", ["", *REFERENCE[1:-1], " "])]
    run("--hypotheses", write(test_set / "sys", [*worse(REFERENCE)[:-1], ""]), *args)
    remarks = capsys.readouterr().err.splitlines()
    assert [line for line in remarks if line.startswith("remark: ")] == [
        f"remark: {test_set / 'blanks'}: 2 of 8 lines are blank, the first is 1: scored as they are",
        f"remark: {test_set / 'sys'}: 1 of 8 lines are blank, the first is 8: scored as they are",
    ]
    run("--hypotheses", write(test_set / "other", ["Ничего не общего здесь нет."] * len(REFERENCE)), *args)
    assert "remark: next to nothing of the reference" in capsys.readouterr().err


def test_words_that_moses_does_not_find_are_not_counted(test_set, monkeypatch, capsys):
    run = in_process("score", monkeypatch)
    lines, tokens = ["我 爱 你 们 。".replace(" ", "")] * 8, ["我 爱 你们 。"] * 8
    reference = write(test_set / "ref.zh", lines)
    args = ["--reference", reference, "--json", "--target-lang"]
    run("--hypotheses", reference, *args, "zh")
    out = capsys.readouterr()
    assert scores(out.out) == {"sacrebleu": 100.0, "chrf2": 100.0}
    assert "remark: no tokenized BLEU" in out.err and "chrF2 instead" not in out.err
    run("--hypotheses", reference, *args, "th")
    assert "remark: sacreBLEU takes what is between spaces for a word" in capsys.readouterr().err
    generated = write(test_set / "zh.out", generate_output(dict(enumerate(tokens))))
    run(generated, *args, "zh", "--tokenized-reference", write(test_set / "tok.zh", tokens))
    assert scores(capsys.readouterr().out) == {"sacrebleu": 100.0, "chrf2": 100.0, "tokenized_bleu": 100.0}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["gen.out", "--reference", "blank"], r"^blank: blank lines alone$"),
        (["gen.out", "--reference", "subwords"], r"^subwords: subwords, not words: give the text as it was"),
        (["joined.out", "--reference", "ref.de"], r"joined.out: subwords joined as another kind's"),
        (["targets.out", "--reference", "ref.de"], r"targets.out: every hypothesis .*--score-reference"),
        (
            ["--hypotheses", "gen.out", "--reference", "ref.de"],
            r"gen.out:2: a line of fairseq-generate, not plain text",
        ),
        (["--hypotheses", "ref.de", "--reference", "short.de"], r"ref.de: 8 lines, but the reference has 7"),
        (["gen.out", "--reference", "long.de"], r"no hypothesis for sentence 8 \(line 9 .* 1 of 9 are missing"),
        (["gen.out", "--reference", "only.tok"], r"only.tok: tokens, not running text"),
        (["gen.out", "--reference", "ref.de", "--baseline", "short.de"], r"short.de: 7 lines"),
    ],
)
def test_bad_input_is_one_line(test_set, score_bleu, monkeypatch, args, message):
    monkeypatch.chdir(test_set)
    write(test_set / "short.de", REFERENCE[:-1])
    write(test_set / "long.de", [*REFERENCE, "Mehr."])
    write(test_set / "only.tok", ["Ein Haus ."] * len(REFERENCE))
    write(test_set / "blank", ["", " "] * 4)
    write(test_set / "subwords", map(subwords, REFERENCE))
    write(test_set / "joined.out", generate_output({n: line.replace(" ", "") for n, line in enumerate(REFERENCE)}))
    lines = [line for n, text in enumerate(REFERENCE) for line in (f"T-{n}\t{text}", f"H-{n}\t-1\t{text}")]
    write(test_set / "targets.out", [*lines, CLOSING])
    with pytest.raises(UserError, match=message) as error:
        score_bleu(*args, "--target-lang", "de")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["gen.out", "--reference", "r"], "--target-lang is needed"),
        (["gen.out", "--reference", "r", "--target-lang", "../../etc"], "--target-lang '../../etc': not a code of ISO"),
        (["--reference", "r", "--target-lang", "de"], "either what fairseq-generate printed, or --hypotheses"),
        (["gen.out", "--reference", "r", "--target-lang", "fr", "--split-compounds"], "German alone"),
        (["gen.out", "--sacrebleu-set", "wmt14/full"], "go together"),
        (["gen.out", "--sacrebleu-set", "wmt14/full", "-l", "en-fr", "--target-lang", "de"], "contradicts"),
    ],
)
def test_options_that_do_not_go_together_are_refused(score_bleu, args, message):
    with pytest.raises(UserError, match=message):
        score_bleu(*args)


def test_the_command_itself_reads_stdin_and_ends_without_a_traceback(test_set, commands_on_path):
    command = ["python", SCRIPTS / "score_bleu.py", "-", "--reference", "ref.de", "--target-lang", "de"]
    output = (test_set / "gen.out").read_bytes()
    here = {"cwd": test_set, "env": commands_on_path(), "capture_output": True}
    result = subprocess.run(command, input=output, check=True, **here)
    assert result.stderr == b""
    labels = [line.split("  ")[0] for line in result.stdout.decode().splitlines()]
    assert labels[1:] == ["sacreBLEU (detokenized)", "chrF2 (detokenized)", "tokenized BLEU"]

    result = subprocess.run(command, input=output[:-200], **here)
    assert result.returncode == 1
    assert result.stderr.decode().count("\n") == 1
    assert result.stderr.startswith(b"/dev/stdin: unfinished")


def test_a_full_stop_behind_half_a_word_is_a_token():
    lines = ["Ein Ha@@ u@@ .", "Der Man@@ .", "Ja ."]  # of a model that has learned little
    assert words_of("de", lines, "subword_nmt", True, lines, "x") == ["Ein Hau.", "Der Man.", "Ja ."]
    with pytest.raises(UserError, match="running text, not tokens"):
        words_of("de", ["Ein Ha@@ us.", "Der Mann."], "subword_nmt", True, lines[:2], "x")
