"""``--cpu-matmul``: which library multiplies, how exactly, and who chooses it."""

import pytest
import torch
from builders import build

from resmlp_mt.common import matmul, workers
from resmlp_mt.common.matmul import choose, exact


@pytest.fixture(autouse=True)
def own_setting():
    with matmul.matmul("blas"):
        matmul._set_here = False
        yield
    matmul._set_here = False


def on_a_machine(monkeypatch, is_exact, slow, bfloat16=True):
    monkeypatch.setattr(matmul, "has_bfloat16", lambda: bfloat16)
    monkeypatch.setattr(matmul, "exact", lambda: is_exact)
    monkeypatch.setattr(matmul, "mkl_is_slow", lambda: slow)


@pytest.mark.parametrize(
    ("is_exact", "slow", "bfloat16", "setting"),
    [(1, 1, 1, "medium"), (1, 0, 1, "highest"), (0, 1, 1, "highest"), (1, 1, 0, "highest")],
)
def test_by_itself_it_takes_onednn_where_that_is_exact_and_mkl_slow(monkeypatch, is_exact, slow, bfloat16, setting):
    on_a_machine(monkeypatch, is_exact, slow, bfloat16)
    build()
    assert torch.get_float32_matmul_precision() == setting


@pytest.mark.parametrize(("library", "setting"), [("onednn", "medium"), ("blas", "highest")])
def test_the_option_decides(monkeypatch, caplog, library, setting):
    on_a_machine(monkeypatch, False, True)
    with caplog.at_level("INFO"):
        build(cpu_matmul=library)
    assert torch.get_float32_matmul_precision() == setting
    assert ("by oneDNN, in bfloat16" in caplog.text) == (library == "onednn")


def test_what_the_process_chose_stays_but_not_an_earlier_models_choice(monkeypatch):
    on_a_machine(monkeypatch, False, True)
    choose("onednn")
    choose("auto")
    assert torch.get_float32_matmul_precision() == "highest"
    torch.set_float32_matmul_precision("high")
    choose("auto")
    assert torch.get_float32_matmul_precision() == "high"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    choose("onednn")  # on a GPU this setting would mean TF32
    assert torch.get_float32_matmul_precision() == "high"


@pytest.mark.parametrize(("vendor", "slow"), [("AuthenticAMD", True), ("GenuineIntel", False)])
def test_the_processor_s_name_decides_and_no_clock(monkeypatch, tmp_path, vendor, slow):
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nvendor_id\t: {vendor}\n")
    monkeypatch.setattr(workers, "Path", lambda name: tmp_path / name.rpartition("/")[2])
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    assert matmul.mkl_is_slow.__wrapped__() == slow  # without its cache


def test_exactness_is_found_by_float64():
    """``exact`` agrees with another comparison with float64; on processors with AMX, oneDNN rounds to bfloat16."""
    a, b = torch.randn(300, 700), torch.randn(700, 200)
    with matmul.matmul("onednn"):
        differs = (a @ b).double().sub(a.double() @ b.double()).abs().max() > 1e-2
    assert exact() == (not differs)
    assert torch.get_float32_matmul_precision() == "highest"
