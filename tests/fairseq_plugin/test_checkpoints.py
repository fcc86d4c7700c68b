"""Promise 6, a checkpoint is data: what a file, its options and its parameters may be, and what becomes of all else."""

import ast
import functools
import inspect
import os
import pickle
import zipfile
from argparse import Namespace
from collections import Counter
from pathlib import Path

import fairseq
import numpy as np
import pytest
import torch
from builders import build
from crafted import BY_SUBSCRIPT, Call, Program, rewrite, save, state
from fairseq.models import ARCH_CONFIG_REGISTRY

import resmlp_mt
from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin import checkpoints
from resmlp_mt.fairseq_plugin.checkpoints import (
    EVALUATED,
    LONGEST,
    OPENED,
    DoesNotFit,
    architecture_of,
    evaluate,
    load_checkpoint,
    settled,
)


def refused(path):
    """The one line that is said of a checkpoint that is not loaded."""
    with pytest.raises(UserError) as error:
        load_checkpoint(path)
    line = str(error.value)
    assert line.startswith(f"{path}: ")
    assert line.isprintable()
    return line


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_what_fairseq_saves_is_loaded(tmp_path, dtype, legacy):
    model = {"w": torch.arange(4).to(dtype), "steps": torch.tensor(3)}
    took = {"previous_training_time": torch.tensor(3.5)}  # a tensor where several processes trained
    saved = state(model, {"checkpoint": {"save_dir": "work/exp(2)"}}, extra_state=took)
    torch.save(saved, tmp_path / "a.pt", _use_new_zipfile_serialization=not legacy)
    loaded = load_checkpoint(tmp_path / "a.pt")
    assert loaded["cfg"] == saved["cfg"] and loaded["extra_state"] == took
    assert torch.equal(loaded["model"]["w"], model["w"])
    assert loaded["model"]["w"].dtype == dtype


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("module", ["numpy.core.multiarray", "numpy._core.multiarray"])
def test_the_counts_of_eval_bleu_load_whichever_numpy_wrote_them(tmp_path, dtype, module):
    counts = np.array([[7, 3], [1, 0]], dtype)
    path = save(tmp_path / "a.pt", extra_state={"metrics": counts})
    mine = type(counts).__reduce__(counts)[0].__module__.encode()
    rewrite(path, lambda data: data.replace(mine, module.encode()))
    found = load_checkpoint(path)["extra_state"]["metrics"]
    assert type(found) is np.ndarray
    assert found.dtype == dtype
    assert (found == counts).all()


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize(
    ("function", "arguments", "name"),
    [
        (os.system, ("touch smuggled",), "(posix|nt)\\.system"),
        (eval, ("open('smuggled', 'w')",), "builtins.eval|__builtin__.eval"),
        (functools.partial, (print, "smuggled"), "functools.partial"),
        (pickle.loads, (pickle.dumps(1),), "loads"),
        (np.memmap, ("smuggled", "uint8", "w+", 0, (1,)), "numpy.memmap"),
        (bytearray, (10**13,), "bytearray"),  # allowed by PyTorch, and it would be filled
        (torch.FloatTensor, (10**13,), "torch.FloatTensor"),
        (Counter, ("text",), "collections.Counter"),
    ],
)
def test_anything_else_is_refused_by_name_and_never_called(tmp_path, monkeypatch, function, arguments, name, legacy):
    monkeypatch.chdir(tmp_path)
    save("a.pt", extra_state={"here": Call(function, *arguments)}, legacy=legacy)
    with pytest.raises(
        UserError, match=rf"^a.pt: not loaded: it holds \S*({name}) \(near 'here'\), which no checkpoint"
    ):
        load_checkpoint("a.pt")
    assert os.listdir() == ["a.pt"]


@pytest.mark.parametrize("array", [np.array([None]), np.zeros(2, "i4,f4"), np.array(["text"]), np.zeros(2, np.float16)])
def test_arrays_of_other_things_than_counts_are_refused(tmp_path, array):
    assert "is in no checkpoint of fairseq" in refused(save(tmp_path / "a.pt", extra_state={"x": array}))


def test_no_array_is_made_of_pointers_from_the_file(tmp_path):
    # numpy.ndarray((1,), "O", b"ABCDEFGH") is an object wherever the file says: to look at it is to jump there
    call = Program().add(
        Program.name("numpy", "ndarray"),
        pickle.MARK, pickle.BININT1 + b"\x01", pickle.TUPLE1, Program.text("O"),
        Program.name("_codecs", "encode"), Program.text("ABCDEFGH"), Program.text("latin1"), pickle.TUPLE2,
        pickle.REDUCE, pickle.TUPLE,
    )  # fmt: skip
    for operation in pickle.REDUCE, pickle.NEWOBJ:
        program = Program().add(bytes(call.code[2:]), operation)
        assert "not loaded" in refused(program.write(tmp_path / "a.pt"))


def test_nothing_in_a_file_changes_the_types_of_numpy(tmp_path):
    # numpy would take these flags for an array of objects and then read pointers from the file
    dtype = Call(np.dtype, "i8", False, True)
    dtype.call = (*dtype.call, (3, "|", None, None, None, -1, -1, 63))
    loaded = load_checkpoint(save(tmp_path / "a.pt", extra_state={"x": dtype}))
    assert loaded["extra_state"]["x"] is np.dtype(np.int64)
    assert (np.dtype(np.int64).flags, np.dtype(np.int64).byteorder, np.arange(2).dtype.hasobject) == (0, "=", False)


def sparse():
    return torch.sparse_coo_tensor([[0], [0]], [1.0], (10**9, 10**9))


def quantized():
    return torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (sparse, r"holds torch\._utils\._rebuild_sparse_tensor \(near 'enc\.w'\)"),
        (quantized, r"holds torch\._utils\._rebuild_qtensor \(near 'enc\.w'\)"),
        (
            lambda: torch.ones(4, device="meta"),
            r"holds torch\._utils\._rebuild_meta_tensor_no_storage \(near 'enc\.w'\)",
        ),
        (lambda: torch.ones(4, dtype=torch.complex64), r"holds torch\.ComplexFloatStorage \(near 'enc\.w'\)"),
        (lambda: torch.ones(4).to(torch.float8_e4m3fn), r"holds torch\._utils\._rebuild_tensor_v3 \(near 'enc\.w'\)"),
        (lambda: torch.ones(1).expand(10**6, 10**7), r"enc\.w has more values than the file holds"),
        (lambda: None, "enc.w of its model is no tensor with a name"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_parameters_that_are_no_plain_tensors_are_named(tmp_path, tensor, message):
    with pytest.raises(UserError, match=rf"a.pt: not loaded: (it )?{message}"):
        load_checkpoint(save(tmp_path / "a.pt", {"enc.w": tensor()}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": None}, "it has no model, parameters by name"),
        ({"model": {}}, "it has no model, parameters by name"),
        ({"model": {7: torch.ones(1)}}, "7 of its model is no tensor with a name"),
        ({"cfg": [1]}, "its cfg is a list"),
        ({"args": {"arch": "fconv"}}, "its args is a dict"),
        ({"extra_state": torch.ones(1)}, "its extra_state is a Tensor"),
        ({"optimizer_history": [1]}, "its optimizer_history is broken"),
        ({"cfg": {"model": "resmlp_transformer"}}, "its model options is a str"),
        ({"optimizer_history": []}, "it has no optimizer_history"),
    ],
)
def test_a_frame_that_is_not_fairseq_s_is_one_line(tmp_path, change, message):
    torch.save({**state(), **change}, tmp_path / "a.pt")
    assert message in refused(tmp_path / "a.pt")


def test_names_in_a_file_do_not_break_the_line(tmp_path):
    assert "evil [2J name" in refused(save(tmp_path / "a.pt", {"evil\x1b[2J\nname": 1.0})).replace("  ", " ")


def test_archives_that_are_larger_than_their_file_are_refused(tmp_path):
    path = save(tmp_path / "a.pt", {"w": torch.zeros(10**6)})
    rewrite(path, lambda data: data, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 100_000  # and 4 MB once it is there
    assert "claim to be larger than the file" in refused(path)


def test_names_of_parts_are_no_paths(tmp_path, monkeypatch):
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    save("a.pt")
    with zipfile.ZipFile("a.pt", "a") as archive:
        archive.writestr("../../escaped", b"x")
        archive.writestr("/tmp/../escaped.pkl", b"cos\nsystem\n.")
    assert "it holds os.system" in refused(Path("a.pt"))
    assert os.listdir("..") == ["inner"]


@pytest.mark.parametrize("kept", [0, 10, 400, -30])
@pytest.mark.parametrize("legacy", [False, True])
def test_a_truncated_file_is_one_line(tmp_path, kept, legacy):
    path = save(tmp_path / "a.pt", {"w": torch.ones(500)}, legacy=legacy)
    path.write_bytes(path.read_bytes()[:kept])
    assert "truncated, or not a checkpoint" in refused(path)


def test_what_is_allowed_is_allowed_while_loading_alone(tmp_path, monkeypatch):
    def allowed():
        return set(torch.serialization.get_safe_globals())

    good, bad = save(tmp_path / "good.pt"), save(tmp_path / "bad.pt", extra_state={"x": np.array([None])})
    before = allowed()
    assert not set(checkpoints._ALLOWED) & before
    load_checkpoint(good)
    refused(bad)
    assert allowed() == before
    with pytest.raises(pickle.UnpicklingError, match="Namespace"):
        torch.load(good)


def test_unsafe_loading_is_switched_on_nowhere(tmp_path, monkeypatch):
    for file in Path(resmlp_mt.__file__).parent.rglob("*.py"):
        assert "weights_only=False" not in file.read_text(encoding="utf-8"), file
    save(tmp_path / "a.pt", extra_state={"x": Call(os.mkdir, str(tmp_path / "smuggled"))})
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")  # not even by the environment
    assert "mkdir" in refused(tmp_path / "a.pt")
    monkeypatch.setattr(checkpoints, "_check_names_in_file", lambda stream: None)
    refused(tmp_path / "a.pt")
    assert not (tmp_path / "smuggled").exists()


def test_the_architecture_is_the_one_that_fairseq_builds():
    assert architecture_of({"cfg": {"model": Namespace(arch="resmlp_transformer", _name="fconv")}}) == "fconv"
    assert architecture_of({"args": Namespace(arch="fconv")}) == "fconv"


# options


def presets():
    """Every text in the options of fairseq's own architectures that Python reads as a list."""
    found = set()
    for configure in ARCH_CONFIG_REGISTRY.values():
        args = Namespace()
        try:
            configure(args)
        except (AttributeError, TypeError):
            continue  # it needs more than options
        found |= {value for value in vars(args).values() if isinstance(value, str) and value[:1] in ("[", "(")}
    return sorted(found)


def test_what_fairseq_s_presets_say_is_read_as_python_reads_it():
    texts = presets()
    assert len(texts) >= 10
    assert any("+" in text and "*" in text for text in texts)
    for text in texts:
        assert evaluate(text) == eval(text)


@pytest.mark.parametrize(
    "text",
    ["10000,20000", " True ", "None", "-1", "1+2j", "3 * [1]", "(1,) + (2, 'a')", "{'name': 'x'}",
     "[True]*3+[False]", "[[1] * 2] * 2", "[1] * -1", "{1, 2}", "b'x'", "(0.9, 1-0.02)", "2 * 3e-4 / 4"],
)  # fmt: skip
def test_data_is_read_as_python_reads_it(text):
    assert evaluate(text) == eval(text.strip())


@pytest.mark.parametrize(
    "text",
    [
        BY_SUBSCRIPT, "__import__('os').mkdir('owned')", "x", "torch.os", "x[0]", "1; 2",
        "[x for x in ()]", "lambda: 0", "f'{1}'", "1 if 1 else 2", "(x := 1)", "not True", "1 < 2", "2 ** 9",
        "1 / 0", "'a' * 3", "(1,) * 3", "[1] + (1,)", "True * [1]", "[*[1]]", "{**{}}", "{[]: 1}", "", "\0",
        "[0] * 10 ** 12", "[0] * 1000000000000", "[[]] * 1000000000000",
        "(" * 300 + ")" * 300, "-" * 3000 + "1", "'" + "x" * LONGEST + "'",
    ],
    ids=lambda text: text[:20] or "empty",
)  # fmt: skip
def test_all_else_is_refused(text):
    with pytest.raises(UserError, match="fairseq would run this option as Python") as error:
        evaluate(text)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("value", [b"1+1", np.frombuffer(b"[1, 2]  ", np.int64), None, [1]])
def test_what_is_no_text_is_not_evaluated(value):
    # Python's eval would take the first two for source code; fairseq expects its TypeError for the others
    with pytest.raises(TypeError):
        evaluate(value)


def test_every_module_that_evaluates_is_changed():
    """All of fairseq's but those that read the command line or data alone."""
    root = Path(inspect.getfile(fairseq)).parent
    elsewhere = {"fairseq.optim", "fairseq.examples", "fairseq.data.codedataset"}
    found = set()
    for file in root.rglob("*.py"):
        name = ".".join(["fairseq", *file.relative_to(root).with_suffix("").parts])
        text = file.read_text(encoding="utf-8")
        if any(name.startswith(each) for each in elsewhere) or not ("eval" in text or "exec" in text):
            continue
        if any(isinstance(node, ast.Name) and node.id in ("eval", "exec") for node in ast.walk(ast.parse(text))):
            found.add(name)
    assert found == set(EVALUATED)


def test_other_options_may_say_what_they_like():
    options = {
        "checkpoint": {"save_dir": "work/exp(2)"},
        "model": Namespace(data="f(x)[0]", encoder_layers=6, lr=[0.1]),
    }
    assert settled(options) == options
    assert settled(options) is not options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": {"data": "${oc.env:HOME}"}}, r"option data, '\$\{oc.env:HOME\}', would be replaced"),
        ({"model": {"layers": torch.ones(1)}}, "option layers holds a Tensor"),
        ({"model": Namespace(encoder_layers=np.frombuffer(b"[1, 2]  ", np.int64))}, "holds a ndarray"),
        ({"model": Namespace(encoder_layers=b"[1]")}, "holds a bytes"),
        ({"model": {("a",): 1}}, "option model holds a dict"),
        ({"bpe": "../../../../tmp/evil"}, "option bpe, '../../../../tmp/evil', is no name"),
    ],
)
def test_options_that_are_no_plain_values_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        settled(options)


@pytest.mark.parametrize("option", sorted(OPENED))
def test_paths_are_dropped_wherever_they_stand(option):
    options = {
        "model": Namespace(**{option: "/etc/passwd"}),
        "bpe": {"_name": "b", option: "http://x"},
        "more": [{option: ""}],
    }
    found = settled(options)
    assert vars(found["model"]) == {option: OPENED[option]}
    assert found["bpe"] == {"_name": "b", option: OPENED[option]}
    assert found["more"] == [{option: ""}]


# parameters


@pytest.fixture(scope="module")
def model():
    return build(scatter=0).float()


def without(parameters, *names):
    return {name: tensor for name, tensor in parameters.items() if name not in names}


FC1, ALPHA, EMBEDDING = "encoder.layers.0.mlp.fc1.weight", "encoder.layer_norm.alpha", "decoder.embed_tokens.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda state: without(state, FC1, ALPHA),
            rf"it lacks the parameter {ALPHA} \(2 differ\), which the model has",
        ),
        (lambda state: {**state, "w": torch.ones(1)}, "it has the parameter w, which the model lacks"),
        (lambda state: {**state, FC1: torch.ones(3, 64)}, f"{FC1} is 3 x 64 in it, but 256 x 64 in the model"),
        (lambda state: {**state, EMBEDDING: torch.ones(95, 64)}, "its target dictionary has 95 symbols, .* has 44"),
        (lambda state: {**state, FC1: state[FC1].int()}, f"{FC1} is of torch.int32, the model's of floating-point"),
        (lambda state: {**state, FC1: state[FC1] * float("nan")}, f"{FC1} is not finite .* training diverged"),
    ],
)
def test_parameters_that_are_not_the_model_s(model, change, message):
    parameters = change(model.state_dict())
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(DoesNotFit, match=message):
        model.load_state_dict(parameters)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_are_taken(model, dtype):
    other = build(scatter=0, seed=1).float()
    other.load_state_dict({name: tensor.to(dtype) for name, tensor in model.state_dict().items()})
    for name, tensor in other.state_dict().items():
        torch.testing.assert_close(tensor, model.state_dict()[name], rtol=1e-2, atol=1e-2)


def test_names_may_differ_where_that_is_asked_for(model):
    model.load_state_dict({**without(model.state_dict(), FC1), "w": torch.ones(1)}, strict=False)
