"""From text to text: fairseq-interactive, and ``from_pretrained`` in Python."""

import re

import pytest
from fairseq_commands import USER_DIR
from made_up_language import sentence_pairs

from resmlp_mt import ResMLPTransformerModel

TOO_LONG = (
    r"Size of sample #0 is invalid \(=\(.*\b\d+\)?, 0\)\) since max_positions=\(64, 64\)"  # numpy 2 writes np.int64(66)
)


def pipeline(corpus):
    return {"tokenizer": "moses", "bpe": "subword_nmt", "bpe_codes": str(corpus / "codes")}


def text_options(corpus):
    return [text for key, value in pipeline(corpus).items() for text in (f"--{key.replace('_', '-')}", value)]


@pytest.fixture
def interactive(fairseq, data_bin, corpus, trained, tmp_path):
    def run(lines, *options):
        (tmp_path / "stdin").write_text("".join(f"{line}\n" for line in lines))
        return fairseq(
            "interactive", data_bin, "--user-dir", USER_DIR, "--path", trained[0] / "checkpoint_best.pt", "--cpu",
            "--source-lang", "de", "--target-lang", "en", "--beam", 4, "--buffer-size", 8, "--batch-size", 8,
            *text_options(corpus), *options, stdin=str(tmp_path / "stdin"),
        )  # fmt: skip

    return run


@pytest.fixture(scope="module")
def known():
    """Sentences of the training data, which the model has learned by heart."""
    return list(sentence_pairs(8, seed=1))


def test_interactive_and_python_translate_text_alike(
    interactive, corpus, data_bin, trained, known, tmp_path, monkeypatch
):
    sources = [source for source, _ in known]
    done = interactive(sources)
    assert done.status == 0, done.output
    by_command = [done.lines("D")[number][0][1] for number in range(len(sources))]
    assert sum(one == other for one, (_, other) in zip(by_command, known, strict=True)) >= 6

    monkeypatch.chdir(tmp_path)
    model = ResMLPTransformerModel.from_pretrained(
        str(trained[0]), "checkpoint_best.pt", str(data_bin), **pipeline(corpus)
    )
    assert model.translate(sources, beam=4) == by_command
    assert model.translate(sources[0], beam=4) == by_command[0]
    with pytest.raises(Exception, match=TOO_LONG):
        model.translate([" ".join(sources) + " " + " ".join(sources)])


def test_interactive_takes_empty_lines_and_constraints(interactive, known):
    (source, target), (other, _) = known[:2]
    wanted = next(word for word in other[:-1].upper().split() if word not in target)
    done = interactive([source, "", f"{source}\t{wanted}"], "--constraints")
    assert done.status == 0, done.output
    found = done.lines("D")
    assert sorted(found) == [0, 1, 2]
    assert found[0][0][1] == target
    assert wanted in found[2][0][1]


def test_interactive_refuses_what_is_too_long(interactive, known):
    done = interactive([" ".join(source for source, _ in known)])
    assert done.status == 1
    assert re.search(TOO_LONG, done.last_line)
    assert "Traceback" not in done.output
