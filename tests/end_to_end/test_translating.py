"""From text to text: fairseq-interactive, fairseq-generate, and ``from_pretrained`` in Python."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from fairseq_commands import USER_DIR, sentence_pairs, training

from resmlp_mt import ResMLPTransformerModel
from resmlp_mt.common.errors import UserError
from resmlp_mt.data.raw_text import RawText

TYPOGRAPHIC = "It's a “good” dog – isn't it…"
CHECKPOINT = ("checkpoints", "checkpoint_best.pt", "my work/data-bin")
TOO_LONG = r"a source sentence has \d+ positions .* but the model has 64: .* --max-source-positions \d+ or more"
KNOWN = list(sentence_pairs(8, seed=1))  # part of the training data, which the model has learned by heart


@pytest.fixture
def interactive(fairseq, tmp_path):
    """A function that runs fairseq-interactive on lines, or on bytes."""

    def run(lines, *options, path="checkpoints/checkpoint_best.pt", data="my work/data-bin"):
        stdin = tmp_path / "stdin"
        stdin.write_bytes(lines if isinstance(lines, bytes) else "".join(f"{line}\n" for line in lines).encode())
        return fairseq(
            "interactive", data, "--user-dir", USER_DIR, "--path", path, "--cpu", "--beam", 4,
            "--buffer-size", 8, "--batch-size", 8, *options, stdin=str(stdin), cwd=os.getcwd(),
        )  # fmt: skip

    return run


@pytest.fixture(scope="module")
def prepared_and_trained(tmp_path_factory, fairseq, commands_on_path):
    """A user's folder with prepared typographic text and a model of two updates; and what preparation printed."""
    here = tmp_path_factory.mktemp("user")
    command = ["python", Path(USER_DIR).parent / "scripts" / "prepare_text.py"]
    command += ["--source-lang", "de", "--target-lang", "en", "--symbols", "40", "--out", "my work"]
    for split, number, seed in ("train", 60, 1), ("valid", 8, 2), ("test", 8, 3):
        for side, lines in zip(("de", "en"), zip(*sentence_pairs(number, seed), strict=True), strict=True):
            (here / f"{split}.{side}").write_text("".join(f"{line}\n" for line in (*lines, TYPOGRAPHIC)))
        command += [f"--{split}", f"{split}.de", f"{split}.en"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        done = subprocess.run(command, env=commands_on_path(), text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
        fairseq("train", *training("my work/data-bin", "checkpoints"), "--max-update", 2, cwd=here).succeeded()
        yield here, done.stdout


def test_interactive_and_python_translate_text_alike(interactive, corpus, data_bin, trained, tmp_path, monkeypatch):
    """The model has learned these lines; its data was made without this toolkit and does not record how."""
    options = {"tokenizer": "moses", "bpe": "subword_nmt", "bpe_codes": str(corpus / "codes")}
    words = [text for key, value in options.items() for text in (f"--{key.replace('_', '-')}", value)]
    sources = [source for source, _ in KNOWN]
    done = interactive(sources, *words, path=trained[0] / "checkpoint_best.pt", data=data_bin).succeeded()
    by_command = [done.lines("D")[number][0][1] for number in range(len(sources))]
    assert sum(one == other for one, (_, other) in zip(by_command, KNOWN, strict=True)) >= 6

    monkeypatch.chdir(tmp_path)
    model = ResMLPTransformerModel.from_pretrained(trained[0], "checkpoint_best.pt", data_bin, **options)
    assert model.translate(sources, beam=4) == by_command
    assert model.tokenizer.tok.lang == "de" and model.tokenizer.detok.lang == "en"


def test_what_preparing_prints_works_when_pasted_and_makes_its_subwords(prepared_and_trained, commands_on_path):
    here, said = prepared_and_trained
    (here / "raw").write_text(f"{TYPOGRAPHIC}\n")
    command = f"{said.splitlines()[-1]} --cpu < raw"
    done = subprocess.run(["bash", "-c", command], cwd=here, text=True, capture_output=True, env=commands_on_path())
    assert done.returncode == 0, done.stderr
    assert f"S-0\t{(here / 'my work/subwords/test.de').read_text().splitlines()[-1]}\n" in done.stdout
    assert "data-bin/text.json says" in done.stdout + done.stderr
    assert "D-0\t" in done.stdout and "@@" not in done.stdout.split("D-0\t")[1].splitlines()[0]


def test_python_needs_folder_file_and_data_alone(prepared_and_trained, interactive):
    here, _ = prepared_and_trained
    model = ResMLPTransformerModel.from_pretrained(*CHECKPOINT)
    subwords = (here / "my work" / "subwords" / "test.de").read_text().splitlines()
    lines = (here / "test.de").read_text().splitlines()
    assert [model.src_dict.string(model.encode(line)) for line in lines] == subwords
    lines = [TYPOGRAPHIC, "baluta."]
    done = interactive(lines)
    assert model.translate(lines, beam=4) == [done.lines("D")[number][0][1] for number in (0, 1)]
    constrained = interactive(["baluta.\tsoluta", "\tsoluta"], "--constraints").lines("D")
    assert [("soluta" in best[0][1]) for best in constrained.values()] == [True, False]

    other_way = ResMLPTransformerModel.from_pretrained(*CHECKPOINT, source_lang="en", target_lang="de")
    assert (other_way.task.cfg.source_lang, other_way.task.cfg.target_lang) == ("en", "de")
    with pytest.raises(UserError, match=r"^\.: no dict.LANGUAGE.txt: give .* as the third argument"):
        ResMLPTransformerModel.from_pretrained(*CHECKPOINT[:2])


def test_generate_prints_running_text_beside_the_model_s_subwords(prepared_and_trained, fairseq):
    here, _ = prepared_and_trained
    command = ["my work/data-bin", "--user-dir", USER_DIR, "--path", "checkpoints/checkpoint_best.pt", "--cpu"]
    command += ["--required-batch-size-multiple", 1]
    by_itself, as_it_is, joined = (
        fairseq("generate", *command, *more, cwd=here) for more in ([], ["--tokenizer", "space"], ["--remove-bpe"])
    )
    assert by_itself.status == as_it_is.status == joined.status == 0, by_itself.output
    assert by_itself.lines("H") == as_it_is.lines("H")
    assert as_it_is.lines("D") == as_it_is.lines("H") and joined.lines("D") == joined.lines("H")
    text = RawText.of("my work/data-bin")
    detokenize = text.detokenizer("en")
    for number, ((score, subwords),) in by_itself.lines("H").items():
        assert by_itself.lines("D")[number] == [[score, detokenize(text.join(subwords))]]
    targets = Path("test.en").read_text().splitlines()
    assert [by_itself.lines("T")[number][0][0] for number in range(8)] == targets[:8]
    assert by_itself.last_line.split(": ", 1)[1] == as_it_is.last_line.split(": ", 1)[1]  # BLEU of the subwords


def test_a_bad_line_harms_no_other(interactive, prepared_and_trained):
    lines = ["baluta.", "", "baluta " * 70, "mineta.", "\u200b", "x" * 20_000, "so\rluta."]
    done = interactive(lines)
    assert done.status == 1
    assert "Traceback" not in done.output
    assert re.search(rf"^sentence 2 \(line 3\): {TOO_LONG}$", done.output, re.MULTILINE)
    assert "\nsentence 5 (line 6): a word of 20,000 letters" in f"\n{done.output}"
    assert done.output.count("\nlines without a translation, as told above: 2") == 1
    found = {number: best[0][1] for number, best in done.lines("D").items()}
    assert sorted(found) == list(range(7))
    assert [number for number in found if not found[number]] == [1, 2, 4, 5]
    alone = interactive(["baluta.", "mineta.", "so luta."])
    assert [best[0][1] for best in alone.lines("D").values()] == [found[0], found[3], found[6]]

    skipping = interactive(lines[:4], "--skip-invalid-size-inputs-valid-test").succeeded()
    assert re.search(rf"^sentence 2 \(line 3\): skipped: {TOO_LONG}$", skipping.output, re.MULTILINE)


def test_a_translation_for_each_sentence_and_one_for_one(prepared_and_trained):
    model = ResMLPTransformerModel.from_pretrained(*CHECKPOINT)
    one = model.translate("baluta.", beam=4)
    assert isinstance(one, str) and one
    assert model.translate(["", "mineta.", "baluta."], beam=4)[::2] == ["", one]
    assert model.translate("baluta.", beam=2, max_len_b=3, sampling=True, sampling_topk=5)
    with pytest.raises(UserError, match=r"sentence 2 has 71 and 0 positions .* raise --max-source-positions"):
        model.translate(["baluta.", "baluta " * 70])
