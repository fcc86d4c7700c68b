"""Promise 6, a checkpoint is data, and promise 7 for the files that fairseq copies."""

import functools
import os
import pickle
import resource
import shutil
import signal
import zipfile
from argparse import Namespace

import numpy as np
import pytest
import torch
from fairseq.file_io import PathManager

import resmlp_mt


class Smuggled:
    """Pickles as a call of something else."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def save(value, path):
    torch.save({"args": None, "cfg": {"model": Namespace(dropout=0.1)}, "extra": value}, path)


def rewrite(path, old, new):
    """Replace bytes of the pickle inside a checkpoint, and say whether there were any."""
    with zipfile.ZipFile(path) as archive:
        entries = [(info, archive.read(info)) for info in archive.infolist()]
    found = False
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for info, data in entries:
            found = found or old in data
            archive.writestr(info.filename, data.replace(old, new) if info.filename.endswith("data.pkl") else data)
    return found


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("module", ["numpy.core.multiarray", "numpy._core.multiarray"])
def test_the_counts_of_eval_bleu_load_whichever_numpy_wrote_them(tmp_path, dtype, module):
    path = tmp_path / "checkpoint.pt"
    counts = np.array([[7, 3], [1, 0]], dtype)
    save(counts, path)
    mine = type(counts).__reduce__(counts)[0].__module__
    assert rewrite(path, mine.encode(), module.encode())
    loaded = torch.load(path)
    assert type(loaded["extra"]) is np.ndarray
    assert loaded["extra"].dtype == dtype
    assert (loaded["extra"] == counts).all()
    assert loaded["cfg"]["model"] == Namespace(dropout=0.1)


@pytest.mark.parametrize(
    ("function", "arguments", "name"),
    [
        (os.system, ("touch smuggled",), "system"),
        (os.mkdir, ("smuggled",), "mkdir"),
        (eval, ("open('smuggled', 'w')",), "eval"),
        (getattr, (Namespace, "__init__"), "getattr"),
        (functools.partial, (print, "smuggled"), "functools.partial"),
        (pickle.loads, (pickle.dumps(1),), "loads"),
        (np.memmap, ("smuggled", "uint8", "w+", 0, (1,)), "numpy.memmap"),
        (np.load, ("smuggled",), "numpy.load"),
    ],
)
def test_anything_else_is_refused_by_name_and_never_called(tmp_path, monkeypatch, function, arguments, name):
    monkeypatch.chdir(tmp_path)
    save(Smuggled(function, *arguments), "checkpoint.pt")
    with pytest.raises(pickle.UnpicklingError, match=rf"\b{name}\b"):
        torch.load("checkpoint.pt")
    assert not os.path.exists("smuggled")


@pytest.mark.parametrize("array", [np.array([None]), np.zeros(2, "i4,f4"), np.array(["text"]), np.zeros(2, np.float16)])
def test_arrays_of_other_things_than_counts_are_refused(tmp_path, array):
    save(array, tmp_path / "checkpoint.pt")
    with pytest.raises(pickle.UnpicklingError, match=r"numpy\.dtype .* is in no checkpoint of fairseq"):
        torch.load(tmp_path / "checkpoint.pt")


def test_nothing_in_a_file_changes_the_types_of_numpy(tmp_path):
    # numpy would take these flags for an array of objects and then read pointers from the file
    path = tmp_path / "checkpoint.pt"
    dtype = Smuggled(np.dtype, "i8", False, True)
    dtype.call = (*dtype.call, (3, "|", None, None, None, -1, -1, 63))
    save(dtype, path)
    assert torch.load(path)["extra"] is np.dtype(np.int64)
    assert (np.dtype(np.int64).flags, np.dtype(np.int64).byteorder, np.arange(2).dtype.hasobject) == (0, "=", False)


def test_unsafe_loading_is_switched_on_nowhere():
    assert "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD" not in os.environ
    root = os.path.dirname(resmlp_mt.__file__)
    for folder, _, names in os.walk(root):
        for name in names:
            if name.endswith(".py"):
                with open(os.path.join(folder, name), encoding="utf-8") as stream:
                    assert "weights_only=False" not in stream.read(), name


@pytest.fixture
def files(tmp_path):
    source, target = tmp_path / "checkpoint3.pt", tmp_path / "checkpoint_last.pt"
    source.write_bytes(b"new" * 10_000)
    target.write_bytes(b"old")
    return source, target


def copy(source, target, overwrite=True):
    return PathManager.copy(str(source), str(target), overwrite=overwrite)


def test_a_copy_replaces_the_file_and_leaves_nothing_beside_it(files):
    source, target = files
    assert copy(source, target)
    assert target.read_bytes() == source.read_bytes()
    assert sorted(os.listdir(target.parent)) == ["checkpoint3.pt", "checkpoint_last.pt"]


def test_a_copy_killed_half_way_leaves_the_old_file(files, monkeypatch):
    source, target = files

    def half(src, dst):
        with open(src, "rb") as whole, open(dst, "wb") as part:
            part.write(whole.read(15_000))
            part.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfile", half)
        child = os.fork()
        if child == 0:
            try:
                copy(source, target)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert target.read_bytes() == b"old"
    assert (target.parent / "checkpoint_last.pt.tmp").stat().st_size == 15_000
    copy(source, target)  # the next save takes no harm from what lies there, and clears it away
    assert target.read_bytes() == source.read_bytes()
    assert not (target.parent / "checkpoint_last.pt.tmp").exists()


def test_a_disk_that_fills_up_leaves_the_old_file_and_one_line(files):
    source, target = files
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))  # the nearest thing to a full disk without being root
    try:
        with pytest.raises(ValueError, match=r"checkpoint_last\.pt: cannot be written: File too large") as caught:
            copy(source, target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "\n" not in str(caught.value)
    assert target.read_bytes() == b"old"
    assert sorted(os.listdir(target.parent)) == ["checkpoint3.pt", "checkpoint_last.pt"]
