import json
import subprocess
import sys

import fairseq_cli.score
import pytest
from score.generated import REFERENCE, moses_tokens, worse, write

from resmlp_mt.score.scoring import detokenized_scores, paired_bootstrap, split_compounds, tokenized_bleu


def sacrebleu(*args):
    command = [sys.executable, "-m", "sacrebleu", *args, "-m", "bleu", "chrf", "-w", "4"]
    return subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout


def test_detokenized_scores_are_those_of_sacrebleus_command(tmp_path):
    system = worse(REFERENCE)
    expected = sacrebleu(write(tmp_path / "ref", REFERENCE), "-i", write(tmp_path / "sys", system), "-f", "json")
    assert list(detokenized_scores(system, REFERENCE, "de").values()) == json.loads(expected)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("rate", [0.0, 0.15, 0.95])  # the last without a single matching 4-gram
def test_tokenized_bleu_is_that_of_fairseq_score(tmp_path, monkeypatch, capsys, split, rate):
    system = moses_tokens(worse(REFERENCE, rate=rate), escape=False)
    reference = moses_tokens(REFERENCE, escape=False)
    if split:
        system, reference = ([split_compounds(line) for line in lines] for lines in (system, reference))
    files = write(tmp_path / "sys", system), write(tmp_path / "ref", reference)
    monkeypatch.setattr(sys, "argv", ["fairseq-score", "-s", str(files[0]), "-r", str(files[1])])
    fairseq_cli.score.cli_main()
    # BLEU4 = 77.45, 100.0/90.9/82.7/75.3 (BP=0.893, ratio=0.898, syslen=10872, reflen=12102)
    theirs = capsys.readouterr().out.splitlines()[-1]
    ours = tokenized_bleu(system, reference)
    assert theirs.startswith(f"BLEU4 = {ours['score']:.2f}, {ours['verbose_score'].split()[0]} (BP=")
    assert "tok:none|smooth:none" in ours["signature"]


def test_compounds_are_split_as_ott_et_al_do():
    assert split_compounds("der Ost-West Dialog") == "der Ost ##AT##-##AT## West Dialog"
    assert split_compounds("a - b -c d- e") == "a - b -c d- e"
    # perl -ple 's{(\S)-(\S)}{$1 ##AT##-##AT## $2}g' takes the b with the first hyphen
    assert split_compounds("a-b-c") == "a ##AT##-##AT## b-c"


def test_paired_bootstrap_is_that_of_sacrebleus_command(tmp_path):
    system, baseline = worse(REFERENCE), worse(REFERENCE, seed=1, rate=0.5)
    files = [write(tmp_path / name, lines) for name, lines in (("baseline", baseline), ("system", system))]
    # As text: its -f json fails on the numpy numbers of chrF.
    expected = sacrebleu(write(tmp_path / "ref", REFERENCE), "-i", *files, "--paired-bs", "-f", "text")
    for metric in paired_bootstrap(system, baseline, REFERENCE, "de").values():
        for side in (metric["baseline"], metric["system"]):
            assert f"{side['score']:.4f} ({side['mean']:.4f} ± {side['ci']:.4f})" in expected
        assert f"(p = {metric['p_value']:.4f})" in expected
        assert f" {metric['signature']}\n" in expected
