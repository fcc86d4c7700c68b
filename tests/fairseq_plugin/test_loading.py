"""Promise 6, a checkpoint is data: what a file may hold, and what becomes of all else."""

import functools
import io
import os
import pickle
import tarfile
import zipfile
from argparse import Namespace
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from crafted import Call, Program, rewrite, save, state

import resmlp_mt
from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.checkpoints import loading
from resmlp_mt.fairseq_plugin.checkpoints.loading import architecture_of, load_checkpoint


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
    saved = state(model, {"checkpoint": {"save_dir": "work/exp(2)"}}, extra_state={"train_iterator": None})
    torch.save(saved, tmp_path / "a.pt", _use_new_zipfile_serialization=not legacy)
    loaded = load_checkpoint(tmp_path / "a.pt")
    assert loaded["cfg"] == saved["cfg"]
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
        (os.mkdir, ("smuggled",), "(posix|nt)\\.mkdir"),
        (eval, ("open('smuggled', 'w')",), "builtins.eval|__builtin__.eval"),
        (getattr, (Namespace, "__init__"), "getattr"),
        (functools.partial, (print, "smuggled"), "functools.partial"),
        (pickle.loads, (pickle.dumps(1),), "loads"),
        (np.memmap, ("smuggled", "uint8", "w+", 0, (1,)), "numpy.memmap"),
        (np.load, ("smuggled",), "numpy.load"),
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


def test_the_time_that_several_processes_took_is_a_tensor(tmp_path):
    torch.save({**state(), "extra_state": {"previous_training_time": torch.tensor(3.5)}}, tmp_path / "a.pt")
    assert load_checkpoint(tmp_path / "a.pt")["extra_state"]["previous_training_time"] == 3.5


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
        ({"cfg": {"model": "resmlp_transformer"}}, "its options of the model are not by name"),
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


def test_tar_files_are_refused(tmp_path):
    with tarfile.open(tmp_path / "tar.pt", "w") as archive:
        archive.addfile(tarfile.TarInfo("storages"), io.BytesIO())
    assert "not a checkpoint" in refused(tmp_path / "tar.pt")


@pytest.mark.parametrize("kept", [0, 3, 10, 400, -30])
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
    assert not set(loading._ALLOWED) & before
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
    monkeypatch.setattr(loading, "_check_names_in_file", lambda stream: None)
    refused(tmp_path / "a.pt")
    assert not (tmp_path / "smuggled").exists()


def test_the_architecture_is_the_one_that_fairseq_builds():
    assert architecture_of({"cfg": {"model": Namespace(arch="resmlp_transformer", _name="fconv")}}) == "fconv"
    assert architecture_of({"args": Namespace(arch="fconv")}) == "fconv"
