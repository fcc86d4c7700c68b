"""Promise 6, a checkpoint is data: what a file, its options and its parameters may hold; all else is refused."""

import ast
import contextlib
import functools
import inspect
import os
import pickle
import re
import zipfile
from argparse import Namespace
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fairseq
import numpy as np
import pytest
import torch
from builders import build
from crafted import BY_SUBSCRIPT, Call, rewrite, save, state
from fairseq.models import ARCH_CONFIG_REGISTRY

import resmlp_mt
from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin import checkpoints
from resmlp_mt.fairseq_plugin.checkpoints import EVALUATED, OPENED, DoesNotFit, as_data, evaluate, load_checkpoint


def refused(path):
    """Return the one-line error for a checkpoint that is not loaded."""
    with pytest.raises(UserError, match=f"^{path}: not ") as error:
        load_checkpoint(path)
    assert str(error.value).isprintable()
    return str(error.value)


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_what_fairseq_saves_is_loaded(tmp_path, dtype, legacy):
    model = {"w": torch.arange(4).to(dtype), "steps": torch.tensor(3)}
    took = {"previous_training_time": torch.tensor(3.5)}  # a tensor if several processes trained
    path = save(tmp_path / "a.pt", model, {"checkpoint": {"save_dir": "exp(2)"}}, extra_state=took, legacy=legacy)
    loaded = load_checkpoint(path)
    assert loaded["cfg"]["checkpoint"] == {"save_dir": "exp(2)"} and loaded["extra_state"] == took
    assert torch.equal(loaded["model"]["w"], model["w"]) and loaded["model"]["w"].dtype == dtype


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("module", ["numpy.core.multiarray", "numpy._core.multiarray"])
def test_the_counts_of_eval_bleu_load_whichever_numpy_wrote_them(tmp_path, dtype, module):
    counts = np.array([[7, 3], [1, 0]], dtype)
    path = save(tmp_path / "a.pt", extra_state={"metrics": counts})
    rewrite(path, lambda data: data.replace(type(counts).__reduce__(counts)[0].__module__.encode(), module.encode()))
    found = load_checkpoint(path)["extra_state"]["metrics"]
    assert type(found) is np.ndarray and found.dtype == dtype and (found == counts).all()


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize(
    ("function", "arguments", "name"),
    [
        (os.system, ("touch smuggled",), "(posix|nt)\\.system"),
        (eval, ("open('smuggled', 'w')",), "builtins.eval|__builtin__.eval"),
        (functools.partial, (print, "smuggled"), "functools.partial"),
        (pickle.loads, (pickle.dumps(1),), "loads"),
        (np.memmap, ("smuggled", "uint8", "w+", 0, (1,)), "numpy.memmap"),
        (bytearray, (10**13,), "bytearray"),  # PyTorch allows it, and would fill it
        (torch.FloatTensor, (10**13,), "torch.FloatTensor"),
        (Counter, ("text",), "collections.Counter"),
    ],
)
def test_anything_else_is_refused_by_name_and_never_called(tmp_path, monkeypatch, function, arguments, name, legacy):
    monkeypatch.chdir(tmp_path)
    save("a.pt", extra_state={"here": Call(function, *arguments)}, legacy=legacy)
    assert re.match(rf"a.pt: not loaded: it holds \S*({name}), which no checkpoint", refused("a.pt"))
    if not legacy:
        rewrite("a.pt", bytes, named=str.upper)  # PyTorch finds such parts too
        assert re.match(rf"a.pt: not loaded: it holds \S*({name}), which no checkpoint", refused("a.pt"))
    assert os.listdir() == ["a.pt"]


def test_a_file_makes_no_array_of_pointers_and_changes_no_type_of_numpy(tmp_path):
    # pointers to objects at any address that the file gives: reading such an object jumps there
    path = save(tmp_path / "a.pt", extra_state={"x": Call(np.ndarray, (1,), "O", b"ABCDEFGH")})
    refused(path)
    before = path.read_bytes()
    rewrite(path, lambda data: re.sub(rb"(\x87q.)R", rb"\1" + pickle.NEWOBJ, data))
    assert path.read_bytes() != before
    refused(path)
    # with these flags numpy would take the array for one of objects, and read pointers from the file
    dtype = Call(np.dtype, "i8", False, True)
    dtype.call = (*dtype.call, (3, "|", None, None, None, -1, -1, 63))
    assert load_checkpoint(save(tmp_path / "a.pt", extra_state={"x": dtype}))["extra_state"]["x"] is np.dtype(np.int64)
    assert (np.dtype("i8").flags, np.dtype("i8").byteorder, np.arange(2).dtype.hasobject) == (0, "=", False)


ARRAYS = np.array([None]), np.zeros(2, "i4,f4"), np.array(["text"]), np.zeros(2, np.float16)
WEIGHTS = {
    "holds torch._utils._rebuild_sparse": torch.sparse_coo_tensor([[0], [0]], [1.0], (10**9, 10**9)),
    "holds torch._utils._rebuild_meta_tensor_no_storage": torch.ones(4, device="meta"),
    "holds torch.ComplexFloatStorage": torch.ones(4, dtype=torch.complex64),
    "enc.w has more values than the file holds": torch.ones(1).expand(10**6, 10**7),
    "enc.w of its model is no tensor with a name": None,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *(({"extra_state": {"x": array}}, "is in no checkpoint of fairseq") for array in ARRAYS),
        *(({"model": {"enc.w": weight}}, message) for message, weight in WEIGHTS.items()),
        ({"model": {"evil\x1b[2J\nname": 1.0}}, "evil [2J name of its model is no tensor"),
        ({"model": {}}, "it has no model, parameters by name"),
        ({"cfg": [1]}, "its cfg is no dict"),
        ({"optimizer_history": []}, "it has no optimizer_history"),
    ],
)
def test_what_fairseq_s_checkpoints_do_not_hold_is_one_line(tmp_path, change, message):
    torch.save({**state(), **change}, tmp_path / "a.pt")
    assert message in refused(tmp_path / "a.pt")


def test_archives_that_are_larger_than_their_file_are_refused(tmp_path):
    path = save(tmp_path / "a.pt", {"w": torch.zeros(10**6)})
    rewrite(path, lambda data: data, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 100_000  # and 4 MB when unpacked
    assert "claim to be larger than the file" in refused(path)


@pytest.mark.parametrize("kept", [0, 10, 400, -30])
@pytest.mark.parametrize("legacy", [False, True])
def test_a_truncated_file_is_one_line(tmp_path, kept, legacy):
    path = save(tmp_path / "a.pt", {"w": torch.ones(500)}, legacy=legacy)
    path.write_bytes(path.read_bytes()[:kept])
    assert "truncated, or not a checkpoint" in refused(path)


def test_what_is_allowed_is_allowed_while_loading_alone(tmp_path):
    good, bad = save(tmp_path / "good.pt"), save(tmp_path / "bad.pt", extra_state={"x": np.array([None])})
    before = set(torch.serialization.get_safe_globals())  # torch lists a set, in any order
    with ThreadPoolExecutor(8) as pool:  # as rows of a table do that end at the same time
        assert all(pool.map(load_checkpoint, [good] * 200))
    refused(bad)
    assert set(torch.serialization.get_safe_globals()) == before
    with pytest.raises(pickle.UnpicklingError, match="Namespace"):
        torch.load(good)


def test_unsafe_loading_is_switched_on_nowhere(tmp_path, monkeypatch):
    for file in Path(resmlp_mt.__file__).parent.rglob("*.py"):
        assert "weights_only=False" not in file.read_text(encoding="utf-8"), file
    save(tmp_path / "a.pt", extra_state={"x": Call(os.mkdir, str(tmp_path / "smuggled"))})
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")  # not even by the environment
    monkeypatch.setattr(checkpoints, "_check_names_in_file", lambda stream: None)
    refused(tmp_path / "a.pt")
    assert not (tmp_path / "smuggled").exists()


def test_what_fairseq_s_presets_say_is_read_as_python_reads_it():
    texts = {"10000,20000", " True ", "None", "-1", "{'name': 'x'}", "[True]*3+[False]", "[1] * -1"}
    for configure in ARCH_CONFIG_REGISTRY.values():
        args = Namespace()
        with contextlib.suppress(AttributeError, TypeError):  # some need more than options
            configure(args)
        texts |= {value for value in vars(args).values() if isinstance(value, str) and value[:1] in ("[", "(")}
    assert len(texts) >= 17
    for text in texts:
        assert evaluate(text) == eval(text.strip())


@pytest.mark.parametrize(
    "text",
    [
        BY_SUBSCRIPT, "__import__('os').mkdir('owned')", "x", "torch.os", "x[0]", "1; 2", "[x for x in ()]",
        "lambda: 0", "f'{1}'", "1 if 1 else 2", "(x := 1)", "2 ** 9", "'a' * 3", "[*[1]]", "{[]: 1}", "", "\0",
        "[0] * 10 ** 12", "[0] * 1000000000000", "[[]] * 1000000000000", "[0] * 4000 * 4000",
        "(" * 300 + ")" * 300, "-" * 3000 + "1", "'" + "x" * 5000 + "'",
    ],
    ids=lambda text: text[:20] or "empty",
)  # fmt: skip
def test_all_else_is_refused(text):
    with pytest.raises(UserError, match="fairseq would run this option as Python") as error:
        evaluate(text)
    assert len(str(error.value)) < 500


def test_every_module_that_evaluates_is_changed():
    """Check all modules of fairseq except those that read only the command line or data."""
    root = Path(inspect.getfile(fairseq)).parent
    elsewhere = "fairseq.optim", "fairseq.examples", "fairseq.data.codedataset"
    found = set()
    for file in root.rglob("*.py"):
        name, text = ".".join(file.relative_to(root.parent).with_suffix("").parts), file.read_text(encoding="utf-8")
        if not name.startswith(elsewhere) and ("eval" in text or "exec" in text):
            names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
            if names & {"eval", "exec"}:
                found.add(name)
    assert found == set(EVALUATED)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": {"data": "${oc.env:HOME}"}}, r"option data, '\$\{oc.env:HOME\}', would be replaced"),
        ({"model": Namespace(encoder_layers=np.frombuffer(b"[1, 2]  ", np.int64))}, "encoder_layers holds a ndarray"),
        ({"model": {("a",): 1}}, "option model holds a dict"),
        ({"bpe": "../../../../tmp/evil"}, "option bpe, '../../../../tmp/evil', is no name"),
    ],
)
def test_options_that_are_no_plain_values_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        as_data(options)


def test_paths_are_dropped_wherever_they_stand_and_other_options_say_what_they_like():
    options = {"checkpoint": {"save_dir": "exp(2)"}, "model": Namespace(data="f(x)[0]", layers=6, lr=[0.1])}
    assert as_data(options) == options and as_data(options) is not options
    assert OPENED.keys() >= {"pretrained_checkpoint", "load_pretrained_encoder_from", "w2v_path", "sentencepiece_model"}
    for option, none in OPENED.items():
        named = {option: "/etc/passwd"}
        found = as_data({"model": Namespace(**named), "bpe": {"_name": "b", **named}, "more": [{option: ""}]})
        assert vars(found["model"]) == {option: none}
        assert found["bpe"] == {"_name": "b", option: none} and found["more"] == [{option: ""}]


FC1, EMBEDDING = "encoder.layers.0.mlp.fc1.weight", "decoder.embed_tokens.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({FC1: None}, f"it lacks the parameter {FC1}, which the model has"),
        ({"w": torch.ones(1)}, "it has the parameter w, which the model lacks"),
        ({FC1: torch.ones(3, 64)}, rf"{FC1} is \(3, 64\) in it, but \(256, 64\) in the model"),
        ({EMBEDDING: torch.ones(95, 64)}, "its target dictionary has 95 symbols, .* has 44"),
        ({FC1: torch.full((256, 64), float("nan"))}, f"{FC1} is not finite: the training diverged"),
    ],
)
def test_parameters_that_are_not_the_model_s(change, message):
    model = build(scatter=0).float()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    parameters = {name: tensor + 1 for name, tensor in before.items()} | change
    with pytest.raises(DoesNotFit, match=message):
        model.load_state_dict({name: tensor for name, tensor in parameters.items() if tensor is not None})
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_other_precisions_are_taken_and_names_may_differ_where_that_is_asked_for():
    model, other = build(scatter=0).float(), build(scatter=0, seed=1).float()
    parameters = {name: tensor.half() for name, tensor in model.state_dict().items()}
    other.load_state_dict(parameters)
    for name, tensor in other.state_dict().items():
        torch.testing.assert_close(tensor, model.state_dict()[name], rtol=1e-2, atol=1e-2)
    other.load_state_dict({"w": torch.ones(1), FC1: parameters[FC1]}, strict=False)
