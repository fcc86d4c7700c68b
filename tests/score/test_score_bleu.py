import json
import subprocess
import sys

import pytest
import sacrebleu
from score.generated import CLOSING, REFERENCE, generate_output, moses_tokens, sentence_lines, subwords, worse, write

from resmlp_mt.common.errors import UserError
from resmlp_mt.score.scoring import words_of
from scripts import SCRIPTS, in_process, printed_by

score_bleu = printed_by("score")


@pytest.fixture
def test_set(tmp_path, monkeypatch):
    """The current folder, with a reference, and a system's output, both of fairseq-generate and as tokens."""
    monkeypatch.chdir(tmp_path)
    tokens = moses_tokens(worse(REFERENCE), aggressive_dash_splits=True)  # as in WMT14's corpora
    write(tmp_path / "ref.de", REFERENCE)
    write(tmp_path / "ref.tok", moses_tokens(REFERENCE, aggressive_dash_splits=True))
    write(tmp_path / "sys.tok", tokens)
    write(tmp_path / "gen.out", generate_output({n: subwords(line) for n, line in enumerate(tokens)}))
    return tmp_path


DE = "--reference", "ref.de", "--target-lang", "de"


def scores(output):
    return {name: score["score"] for name, score in json.loads(output)["scores"].items()}


def test_scores_of_generate_output_of_tokens_and_of_text(test_set, score_bleu):
    args = *DE, "--tokenized-reference", "ref.tok", "--json"
    result = json.loads(score_bleu("gen.out", *args, "--split-compounds", "--output", "hyp.de"))
    assert (result["segments"], result["target_lang"]) == (len(REFERENCE), "de")
    assert list(result["scores"]) == ["sacrebleu", "chrf2", "tokenized_bleu", "compound_split_bleu"]
    expected = sacrebleu.corpus_bleu((test_set / "hyp.de").read_text(encoding="utf-8").splitlines(), [REFERENCE])
    assert result["scores"]["sacrebleu"]["score"] == round(expected.score, 4)
    tokens, reference = (moses_tokens(lines, escape=False) for lines in (worse(REFERENCE), REFERENCE))
    expected = sacrebleu.corpus_bleu(tokens, [reference], tokenize="none", smooth_method="none", force=True)
    assert result["scores"]["tokenized_bleu"]["score"] == round(expected.score, 4)
    assert result["scores"].pop("compound_split_bleu")["score"] != result["scores"]["tokenized_bleu"]["score"]
    assert json.loads(score_bleu("--hypotheses", "sys.tok", "--tokenizer", "moses", *args)) == result
    of_text = json.loads(score_bleu("--hypotheses", "hyp.de", *DE, "--json"))
    assert of_text["scores"]["sacrebleu"] == result["scores"]["sacrebleu"]
    (test_set / "bom.de").write_text((test_set / "hyp.de").read_text(encoding="utf-8"), encoding="utf-8-sig")
    assert json.loads(score_bleu("--hypotheses", "bom.de", *DE, "--json")) == of_text


def test_sentencepiece_of_two_shards_with_nbest_lists_makes_finished_text(test_set, score_bleu):
    pieces = [" ".join(f"▁{w[:3]} {w[3:]}".strip() for w in line.split()) for line in REFERENCE]
    for shard in range(2):
        lines = [line for n in range(shard, 8, 2) for line in sentence_lines(n, [pieces[n], "▁falsch ."])]
        write(test_set / f"shard{shard}.out", [*lines, CLOSING])
    out = score_bleu("shard1.out", "shard0.out", "--subwords", "sentencepiece", "--nbest", 2, *DE, "--json")
    assert set(scores(out).values()) == {100.0}


def test_a_test_set_of_sacrebleus_catalog(test_set, score_bleu, monkeypatch):
    monkeypatch.setattr(sacrebleu, "get_reference_files", lambda name, pair: [str(test_set / f"ref.{pair[-2:]}")])
    args = ["gen.out", "--sacrebleu-set", "wmt14/full", "-l", "en-de", "--json"]
    assert score_bleu(*args) == score_bleu("gen.out", *DE, "--json")
    monkeypatch.setattr(sacrebleu, "get_reference_files", lambda *_: sys.exit(1))
    with pytest.raises(UserError, match="wmt14/full for en-de cannot be had"):
        score_bleu(*args)


@pytest.mark.parametrize("kind", ["generated", "finished"])
def test_a_baseline_adds_the_paired_bootstrap(test_set, score_bleu, kind):
    worst = worse(REFERENCE, seed=1, rate=0.5)
    if kind == "generated":
        worst = generate_output(dict(enumerate(moses_tokens(worst))))
    write(test_set / "base", worst)
    assert "paired bootstrap, compared with base" in score_bleu("gen.out", *DE, "--baseline", "base")
    result = json.loads(score_bleu("gen.out", *DE, "--baseline", "base", "--json"))
    for name, test in result["paired_bootstrap"].items():
        assert test["system"]["score"] == pytest.approx(result["scores"][name]["score"], abs=1e-4)
        assert test["baseline"]["score"] < test["system"]["score"] and 0 < test["p_value"] <= 1
    with subprocess.Popen(["cat", test_set / "base"], stdout=subprocess.PIPE) as cat:
        piped = json.loads(score_bleu("gen.out", *DE, "--baseline", f"/dev/fd/{cat.stdout.fileno()}", "--json"))
    assert piped == {**result, "baseline": piped["baseline"]}
    out = score_bleu("gen.out", *DE, "--baseline", "gen.out")
    assert "gen.out, which says the same in every line" in out and out.count("p = 1.0000") == 2


@pytest.mark.parametrize("name", ["gen.out", "base", "link", "."])
def test_an_input_is_never_written_over(test_set, score_bleu, name):
    write(test_set / "base", worse(REFERENCE, seed=1))
    (test_set / "link").symlink_to("ref.de")
    before = {path: path.read_bytes() for path in test_set.iterdir()}
    with pytest.raises(UserError, match=f"^{name}: would be written over the input "):
        score_bleu("gen.out", *DE, "--tokenized-reference", "ref.tok", "--baseline", "base", "--output", name)
    assert {path: path.read_bytes() for path in test_set.iterdir()} == before


def test_blank_lines_and_scores_near_zero_are_remarked_on(test_set, monkeypatch, capsys):
    run = in_process("score", monkeypatch)
    write(test_set / "ref.de", ["", *REFERENCE[1:-1], " "])
    run("--hypotheses", write(test_set / "sys", [*worse(REFERENCE)[:-1], ""]), *DE)
    told = capsys.readouterr().err
    assert "remark: ref.de: 2 of 8 lines are blank, the first is 1" in told
    assert "sys: 1 of 8 lines are blank, the first is 8" in told
    run("--hypotheses", write(test_set / "other", ["Ничего не общего здесь нет."] * len(REFERENCE)), *DE)
    assert "remark: sacreBLEU is below 1" in capsys.readouterr().err


def test_words_that_moses_does_not_find_are_not_counted(test_set, monkeypatch, capsys):
    run = in_process("score", monkeypatch)
    tokens, reference = ["我 爱 你们 。"] * 8, write(test_set / "ref.zh", ["我爱你们。"] * 8)
    args = ["--reference", reference, "--json", "--target-lang"]
    run("--hypotheses", reference, *args, "zh")
    out = capsys.readouterr()
    assert scores(out.out) == {"sacrebleu": 100.0, "chrf2": 100.0}
    assert "remark: no tokenized BLEU" in out.err
    run("--hypotheses", reference, *args, "th")
    assert "remark: sacreBLEU takes what is between spaces for a word" in capsys.readouterr().err
    generated = write(test_set / "zh.out", generate_output(dict(enumerate(tokens))))
    run(generated, *args, "zh", "--tokenized-reference", write(test_set / "tok.zh", tokens))
    assert scores(capsys.readouterr().out) == {"sacrebleu": 100.0, "chrf2": 100.0, "tokenized_bleu": 100.0}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("gen.out --target-lang de --reference subwords", "^subwords: subwords, not words: give the text as it was"),
        ("--hypotheses gen.out --target-lang de --reference ref.de", "gen.out:2: a line of fairseq-generate, not"),
        ("--hypotheses ref.de --target-lang de --reference short.de", "ref.de: 8 lines, but the reference has 7"),
        ("gen.out --target-lang de --reference only.tok --output ref.de/x", "ref.de is no folder that can be written"),
        ("gen.out --target-lang de --reference only.tok", "only.tok: tokens, not running text"),
        ("gen.out --target-lang de --reference ref.de --tokenized-reference ref.de", "running text, not tokens"),
        ("gen.out --target-lang de --reference ref.de --baseline -", "^/dev/stdin: empty"),  # pytest's is
        ("--hypotheses joined --target-lang de --reference ref.de", "^joined: subwords joined"),
        ("gen.out --reference r", "--target-lang is needed"),
        ("gen.out --reference r --target-lang fr --split-compounds", "German alone"),
    ],
)
def test_bad_input_and_options_are_one_line(test_set, score_bleu, args, message):
    write(test_set / "short.de", REFERENCE[:-1])
    write(test_set / "only.tok", ["Ein Haus ."] * len(REFERENCE))
    write(test_set / "subwords", map(subwords, REFERENCE))
    write(test_set / "joined", [line.replace(" ", "") for line in REFERENCE])
    with pytest.raises(UserError, match=message):
        score_bleu(*args.split())


def test_the_command_itself_reads_stdin_and_ends_without_a_traceback(test_set, commands_on_path):
    command = ["python", SCRIPTS / "score_bleu.py", "-", *DE]
    output = (test_set / "gen.out").read_bytes()
    here = {"cwd": test_set, "env": commands_on_path(), "capture_output": True}
    result = subprocess.run(command, input=output, check=True, **here)
    assert result.stderr == b""
    assert b"\ntokenized BLEU  " in result.stdout
    result = subprocess.run(command, input=output[:-200], **here)
    assert result.returncode == 1 and result.stderr.count(b"\n") == 1
    assert result.stderr.startswith(b"/dev/stdin: unfinished")


def test_a_full_stop_behind_half_a_word_is_a_token():
    lines = ["Ein Ha@@ u@@ .", "Der Man@@ .", "Ja ."]  # of a model that has learned little
    assert words_of("de", lines, "subword_nmt", True, lines, "x") == ["Ein Hau.", "Der Man.", "Ja ."]
    with pytest.raises(UserError, match="running text, not tokens"):
        words_of("de", ["Ein Ha@@ us.", "Der Mann."], "subword_nmt", True, lines[:2], "x")
