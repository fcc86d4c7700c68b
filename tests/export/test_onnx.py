"""The exported model: its scores are PyTorch's, and a search with them finds what fairseq's finds."""

import contextlib
import hashlib
import importlib.util
import io
import json
import shutil
import signal
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from builders import OPTIONS, batch, build, dictionary, pairs, shifted
from fairseq.sequence_generator import SequenceGenerator
from trained import SCATTER, save

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.checkpoints.loading import load_checkpoint
from resmlp_mt.fairseq_plugin.presets import PRESETS
from scripts import in_process

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from resmlp_mt.export import checking
from resmlp_mt.export.checking import Runtime, largest_difference
from resmlp_mt.export.graphs import graphs_of

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "onnx" / "translate.py"
SHALLOW = {"encoder_layers": 1, "decoder_layers": 1}
NARROW = {"encoder_embed_dim": 32, "encoder_ffn_embed_dim": 48, "max_source_positions": 20, "max_target_positions": 24}
VARIANTS = {
    **{name: {"preset": name, **NARROW, **SHALLOW} for name in PRESETS},
    "separate dictionaries": {"separate": True},
    "shared embeddings": {"share_all_embeddings": True},
    "decoder wider than encoder": {"encoder_embed_dim": 32, "decoder_embed_dim": 64},
    "more encoder than decoder": {"encoder_layers": 3, "decoder_layers": 1},
    **{name: {**options, **SHALLOW} for name, options in OPTIONS.items()},
    "adaptive softmax": {"adaptive_softmax_cutoff": [10, 30], "criterion": "adaptive_loss", **SHALLOW},
}


@pytest.fixture(scope="module")
def runtime(model):
    return Runtime(graphs_of(model))


@pytest.mark.parametrize("name", VARIANTS, ids=lambda name: name.replace(" ", "-"))
def test_scores_are_pytorch_s(name):
    model = build(scatter=SCATTER, **VARIANTS[name]).float()
    assert largest_difference(model, graphs_of(model)) < 1e-5


def test_a_sentence_is_alone(runtime):
    sources, targets = pairs((5, 4), (3, 6), (9, 2))
    together = runtime.log_probabilities(batch(sources, left_pad=True, extra=7), batch(shifted(targets)))
    for row, source, previous in zip(together, sources, shifted(targets), strict=True):
        alone = runtime.log_probabilities(batch([source]), batch([previous]))[0]
        torch.testing.assert_close(row[: len(previous)], alone, rtol=1e-5, atol=1e-5)


def test_beams_of_a_sentence_share_it(runtime):
    sources, _ = pairs((5, 1), (3, 1))
    _, targets = pairs(*[(1, 4)] * 6)
    got = runtime.log_probabilities(batch(sources), batch(shifted(targets)))
    apart = runtime.log_probabilities(batch([source for source in sources for _ in range(3)]), batch(shifted(targets)))
    torch.testing.assert_close(got, apart, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("source, target", [(65, 3), (3, 65)])
def test_a_sentence_that_is_too_long_is_an_error(runtime, source, target):
    sources, targets = pairs((source, target))
    with pytest.raises(Exception, match=r"MatMul|Gemm|dimension"):
        runtime.log_probabilities(batch(sources), batch(shifted(targets)))


def test_the_model_stays_as_it_is(model):
    before = deepcopy(model.state_dict())
    graphs_of(model)
    assert not model._is_generation_fast
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)


def test_a_difference_is_noticed(model):
    other = deepcopy(model)
    with torch.no_grad():
        other.decoder.layers[1].mixing.mixing.weight[5, 3] += 1
    assert largest_difference(model, graphs_of(other)) > checking.TOLERANCE
    with torch.no_grad():
        other.decoder.layers[1].mixing.mixing.weight[5, 3] = float("nan")
    assert largest_difference(other, graphs_of(other)) == float("inf")


def test_a_decoder_without_cross_attention_is_refused():
    with pytest.raises(UserError, match="no cross-attention"):
        graphs_of(build(no_cross_attention=True))


def test_what_pytorch_cannot_export_is_one_line(model, monkeypatch):
    def export(*_, **__):
        raise torch.onnx.errors.UnsupportedOperatorError("aten::new_thing", 17, None)

    monkeypatch.setattr(torch.onnx, "export", export)
    with pytest.raises(UserError, match=r"Encoder: PyTorch cannot export it to ONNX: .*new_thing") as error:
        graphs_of(model)
    assert "\n" not in str(error.value)


# The command, and the example that translates with what it wrote


@pytest.fixture
def export(monkeypatch):
    return in_process("export_onnx", monkeypatch)


@pytest.fixture(scope="module")
def exported(checkpoint, data, tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        out = tmp_path_factory.mktemp("exported") / "onnx"
        in_process("export_onnx", monkeypatch)(checkpoint, "--data", data, "--out", out)
    return out


def test_what_is_written(exported, data, model):
    assert sorted(path.name for path in exported.iterdir()) == [
        "decoder_step.onnx",
        "dict.de.txt",
        "dict.en.txt",
        "encoder.onnx",
        "model.json",
    ]
    assert [path.name for path in exported.parent.iterdir()] == ["onnx"]
    assert (exported / "dict.de.txt").read_bytes() == (data / "dict.de.txt").read_bytes()
    about = json.loads((exported / "model.json").read_text())
    assert about["checkpoint"] == "model.pt"
    assert about["sizes"] == {"L": 2, "H": 2, "D": 32, "C": 64, "V": 44}
    assert (about["max_source_positions"], about["max_target_positions"]) == (64, 64)
    assert (about["pad"], about["eos"], about["unk"]) == (1, 2, 3)
    assert about["decoder_step.onnx"]["outputs"]["longer_past"] == "L x (T + 1) x R x C"
    for name in {path.name for path in exported.iterdir()} - {"model.json"}:
        assert about["sha256"][name] == hashlib.sha256((exported / name).read_bytes()).hexdigest()


def test_the_data_has_to_be_named(checkpoint, export, tmp_path, capsys):
    with pytest.raises(SystemExit):  # what a checkpoint says of it would open any file
        export(checkpoint, "--out", tmp_path / "onnx")
    assert "required: --data" in capsys.readouterr().err


@pytest.fixture
def binarized(data, tmp_path):
    """The data's dictionaries with a file of the pair's."""
    shutil.copytree(data, tmp_path / "data-bin")
    (tmp_path / "data-bin" / "train.en-de.en.idx").touch()
    return tmp_path / "data-bin"


def test_languages_that_the_training_was_not_told_are_those_of_its_data(model, binarized, export, tmp_path):
    path = save(tmp_path / "model.pt", model, (None, None), share_all_embeddings=True)
    export(path, "--out", tmp_path / "onnx", "--data", binarized)
    about = json.loads((tmp_path / "onnx" / "model.json").read_text())
    assert (about["source_language"], about["target_language"]) == ("en", "de")
    assert (about["source_dictionary"], about["target_dictionary"]) == ("dict.en.txt", "dict.de.txt")
    assert (tmp_path / "onnx" / "dict.de.txt").exists()


def test_without_languages_nothing_is_written(model, data, export, tmp_path):
    path = save(tmp_path / "model.pt", model, (None, None), share_all_embeddings=True)
    for folder in data, tmp_path / "model.pt":
        with pytest.raises(UserError, match=r"model\.pt: the training was not told its languages, and .* with --data$"):
            export(path, "--out", tmp_path / "onnx", "--data", folder)
    assert not (tmp_path / "onnx").exists()


@pytest.mark.parametrize("language", ["../en", 5, "e\nn"])
def test_a_language_that_leaves_the_folder_is_refused(model, export, tmp_path, language):
    path = save(tmp_path / "model.pt", model, (language, "de"), share_all_embeddings=True)
    with pytest.raises(UserError, match="is no part of a file's name") as error:
        export(path, "--out", tmp_path / "onnx", "--data", tmp_path)
    assert repr(language) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "trained_with",
    [{"inference_precision": "int8"}, {"checkpoint_activations": True}, {"encoder_layerdrop": 0.2}],
    ids=lambda options: next(iter(options)),
)
def test_options_of_the_training_that_do_not_matter(model, data, export, trained_with, tmp_path):
    path = save(tmp_path / "model.pt", model, share_all_embeddings=True, **trained_with)
    export(path, "--data", data, "--out", tmp_path / "onnx")


def test_mistakes_are_one_line_and_nothing_is_written(checkpoint, model, data, export, tmp_path, monkeypatch):
    def refused(message, folder=data, path=checkpoint, out=tmp_path / "onnx"):
        with pytest.raises(UserError, match=message) as error:
            export(path, "--out", out, "--data", folder)
        assert "\n" not in str(error.value)
        assert not (tmp_path / "onnx").exists()

    refused("exists already", out=tmp_path)
    refused("dict.en.txt: no such file", tmp_path)
    dictionary(words=7).save(str(tmp_path / "dict.en.txt"))
    refused("has 11 entries, the model has 44", tmp_path)
    (tmp_path / "dict.en.txt").write_text("no count\n")
    refused("not a dictionary", tmp_path)
    refused("cannot be read", path=tmp_path / "missing.pt")
    other = tmp_path / "other.pt"
    state = load_checkpoint(checkpoint)
    state["cfg"]["model"].arch = state["cfg"]["model"]._name = "transformer"
    torch.save(state, other)
    refused("holds a transformer", path=other)
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnx" else find_spec(name))
    refused("needs onnx: pip install onnx onnxruntime")
    monkeypatch.undo()
    monkeypatch.setattr(checking, "largest_difference", lambda *_: 0.1)
    refused("are not PyTorch's")
    monkeypatch.setattr(checking, "largest_difference", lambda *_: float("nan"))
    refused("are not PyTorch's")


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("translate", EXAMPLE)
    translate = importlib.util.module_from_spec(spec)
    sys.modules["translate"] = translate
    spec.loader.exec_module(translate)
    return translate


@pytest.fixture(scope="module")
def translator(example, exported):
    return example.Translator(exported, threads=1)


def fairseq_s(model, sources, **options):
    generator = SequenceGenerator([model], model.decoder.dictionary, **options)
    lengths = torch.tensor([len(source) for source in sources])
    with torch.no_grad():
        out = generator({"net_input": {"src_tokens": batch(sources, left_pad=True), "src_lengths": lengths}})
    return [(best["tokens"].tolist()[:-1], best["score"].item()) for best, *_ in out]


@pytest.mark.parametrize("beam, lenpen, longest", [(1, 1.0, 12), (2, 0.6, 30), (5, 1.0, 200), (8, 2.0, 7)])
def test_the_search_finds_what_fairseq_s_finds(model, translator, beam, lenpen, longest):
    sources, _ = pairs(*[(length, 1) for length in (3, 9, 1, 5, 14, 2, 7, 30)])
    expected = fairseq_s(model, sources, beam_size=beam, len_penalty=lenpen, max_len_b=longest)
    found = translator.search(sources, beam, lenpen, longest)
    assert [each.tokens for each in found] == [tokens for tokens, _ in expected]
    assert [each.score for each in found] == pytest.approx([score for _, score in expected], abs=1e-4)


def without_torch(exported, text, *arguments):
    """The example in a Python in which PyTorch and fairseq cannot be imported."""
    code = (
        "import runpy, sys; sys.modules.update(dict.fromkeys(['torch', 'fairseq', 'resmlp_mt'])); "
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-c", code, str(EXAMPLE), str(exported), "--threads", "1", *arguments]
    return subprocess.run(command, input=text.encode(), capture_output=True)


def test_the_example_needs_no_pytorch(model, exported):
    sources, _ = pairs((5, 1), (2, 1), (9, 1))
    symbols = model.encoder.dictionary
    text = "".join(" ".join(symbols[token] for token in source[:-1]) + "\n" for source in sources)
    result = without_torch(exported, text, "--beam", "3", "--max-len", "20", "--batch-size", "2")
    assert result.returncode == 0, result.stderr.decode()
    expected = [symbols.string(tokens) for tokens, _ in fairseq_s(model, sources, beam_size=3, max_len_b=20)]
    assert result.stdout.decode() == "".join(f"{line}\n" for line in expected)


@pytest.fixture
def translate(example, monkeypatch, capfdbinary):
    """Run the example in this process: its status or last words, what it printed, what it said on stderr."""

    def run(folder, text, *arguments):
        monkeypatch.setattr(sys, "argv", ["translate.py", str(folder), "--threads", "1", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))
        with pytest.raises(SystemExit) as end:
            example.main()
        sys.stdout.flush()
        return end.value.code, sys.stdout.buffer.getvalue().decode(), capfdbinary.readouterr().err.decode()

    return run


def test_a_line_that_cannot_be_translated_leaves_the_others_in_their_places(translate, exported):
    good = [b"w1 w2 w3", b"w4", b"w5 w6"]
    _, alone, _ = translate(exported, b"\n".join(good))
    a, b, c = alone.splitlines()
    lines = [good[0], b"w2 " * 64, b"", good[1], b" \t", b"w1 \xff", good[2]]
    status, out, errors = translate(exported, b"\n".join(lines), "--batch-size", 4)
    assert out == f"{a}\n\n\n{b}\n\n\n{c}\n"
    assert status == 1
    first, second = errors.splitlines()
    assert first.startswith("line 2: 64 subwords and </s>, but the model has 64 positions: split the sentence")
    assert second.startswith("line 6: 'utf-8' codec can't decode byte 0xff")


def test_text_that_was_not_split_as_the_training_s_is_told_once(translate, exported):
    text = b"w1 w2 w3\nThe man sleeps .\nw4 unknown w5\n"
    status, out, errors = translate(exported, text, "--batch-size", 1)
    assert (status, out.count("\n")) == (0, 3)
    assert errors == (
        "from line 2 on: 4 of 4 words are none of the model's, such as 'The': it reads text split into subwords as its "
        "training text was\n"
    )
    _, _, errors = translate(exported, b"w1 " * 60 + b"rare\n")
    assert errors == ""


@pytest.mark.parametrize(("mark", "symbol"), [("@@", "ab@@"), ("▁", "▁ab")])
def test_the_marks_of_subwords_are_told(translator, monkeypatch, mark, symbol):
    assert translator.marks == ""
    monkeypatch.setattr(translator, "source_symbols", ["w1", symbol])
    assert translator.marks == f" ({mark})"


def json_of(**changed):
    """model.json with changes; None takes a key out."""

    def change(content):
        about = {key: value for key, value in (json.loads(content) | changed).items() if value is not None}
        return json.dumps(about).encode()

    return change


UNSUMMED = json_of(sha256=None)
BROKEN = {
    "garbage": lambda content: b"garbage",
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "missing": None,
}
MODEL = {
    "a list": lambda content: b"[1, 2]",
    "a number": lambda content: b"5",
    "too deep": lambda content: b"[" * 100_000 + b"]" * 100_000,
    "sizes missing": json_of(sizes=None),
    "sizes a list": json_of(sizes=[1, 2]),
    "positions text": json_of(max_source_positions="64"),
    "pad beyond": json_of(pad=10**6),
    "eos negative": json_of(eos=-1),
    "unk true": json_of(unk=True),
    "dictionary elsewhere": json_of(source_dictionary="../dict.en.txt"),
    "dictionary a number": json_of(target_dictionary=5),
    "sums a list": json_of(sha256=["encoder.onnx"]),
    "sum elsewhere": json_of(sha256={"../model.json": "0"}),
}


@pytest.fixture
def broken(exported, tmp_path):
    def make(name, change):
        folder = tmp_path / "onnx"
        shutil.copytree(exported, folder, dirs_exist_ok=True)
        if change is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(change((exported / name).read_bytes()))
        return folder

    return make


@pytest.mark.parametrize("summed", [True, False])
@pytest.mark.parametrize("name", ["encoder.onnx", "decoder_step.onnx", "dict.en.txt", "dict.de.txt", "model.json"])
@pytest.mark.parametrize("kind", BROKEN)
def test_a_folder_broken_in_one_part_is_one_line(broken, translate, kind, name, summed):
    change = BROKEN[kind]
    folder = broken(name, change)
    if not summed and name != "model.json":
        folder = broken("model.json", UNSUMMED)
        broken(name, change)
    words, out, errors = translate(folder, b"w1 w2\n")
    assert str(words).startswith(f"{folder / name}: ")
    assert (words.count("\n"), out, errors) == (0, "", "")


@pytest.mark.parametrize("kind", MODEL)
def test_a_description_of_another_shape_is_one_line(broken, translate, kind):
    folder = broken("model.json", MODEL[kind])
    words, out, errors = translate(folder, b"w1 w2\n")
    assert str(words).startswith(f"{folder / 'model.json'}: ")
    assert (words.count("\n"), out, errors) == (0, "", "")


def test_parts_of_another_model_are_one_line(broken, translate, exported, data, model, export, tmp_path):
    with torch.no_grad():  # of the same size
        other = deepcopy(model)
        other.decoder.layers[0].mixing.mixing.bias += 1
    path = save(tmp_path / "other.pt", other, share_all_embeddings=True)
    export(path, "--data", data, "--out", tmp_path / "other")
    folder = broken("decoder_step.onnx", lambda content: (tmp_path / "other" / "decoder_step.onnx").read_bytes())
    words, _, _ = translate(folder, b"w1 w2\n")
    assert words == f"{folder / 'decoder_step.onnx'}: not the file that was exported: copy the whole folder again"

    wide = build(scatter=SCATTER, share_all_embeddings=True, decoder_layers=3).float()
    (folder / "decoder_step.onnx").write_bytes(graphs_of(wide).decoder_step)
    (folder / "model.json").write_bytes(UNSUMMED((exported / "model.json").read_bytes()))
    words, out, errors = translate(folder, b"w1 w2\n")
    assert words.startswith("the model does not run (")
    assert (words.count("\n"), out, errors) == (0, "", "")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--beam", 0),
        ("--batch-size", -1),
        ("--max-len", 0),
        ("--lenpen", "nan"),
        ("--threads", -1),
        ("--threads", 10**9),
    ],
)
def test_numbers_that_are_none_are_refused(translate, exported, option, value):
    status, _, errors = translate(exported, b"w1\n", option, value)
    assert status == 2
    assert f"{option} {value}" in errors


@pytest.mark.parametrize(("end", "status"), [("interrupt", -signal.SIGINT), ("reader", -signal.SIGPIPE)])
def test_it_ends_without_a_word_when_nobody_wants_more(exported, end, status):
    command = [sys.executable, str(EXAMPLE), str(exported), "--threads", "1", "--batch-size", "1"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write(b"w1 w2\n")
    process.stdin.flush()
    assert process.stdout.readline()
    if end == "interrupt":
        process.send_signal(signal.SIGINT)
    else:
        process.stdout.close()
        process.stdin.write(b"w1 w2\n")
        process.stdin.flush()
    assert process.wait() == status
    assert process.stderr.read() == b""
    for stream in process.stdin, process.stdout, process.stderr:
        with contextlib.suppress(BrokenPipeError):
            stream.close()
