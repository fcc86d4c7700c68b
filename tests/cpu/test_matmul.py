"""``--cpu-matmul``: which library multiplies, what it computes, and who decides."""

import pytest
import torch
from builders import build

from resmlp_mt.cpu import matmul
from resmlp_mt.cpu.matmul import MATMULS, choose, exact
from resmlp_mt.errors import UserError


@pytest.fixture(autouse=True)
def own_setting():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    matmul._set_here = False
    yield
    torch.set_float32_matmul_precision(before)
    matmul._set_here = False


def on_a_machine(monkeypatch, is_exact: bool, times: float) -> None:
    monkeypatch.setattr(matmul, "exact", lambda: is_exact)
    monkeypatch.setattr(matmul, "speed", lambda: times)


@pytest.mark.parametrize(
    ("is_exact", "times", "setting"),
    [(True, 2.0, "medium"), (True, 0.9, "highest"), (True, 1.1, "highest"), (False, 2.5, "highest")],
)
def test_by_itself_it_takes_onednn_where_that_is_exact_and_faster(monkeypatch, is_exact, times, setting):
    on_a_machine(monkeypatch, is_exact, times)
    build()
    assert torch.get_float32_matmul_precision() == setting


@pytest.mark.parametrize(("library", "setting"), [("onednn", "medium"), ("blas", "highest")])
def test_the_option_decides(monkeypatch, caplog, library, setting):
    on_a_machine(monkeypatch, False, 2.5)
    with caplog.at_level("INFO"):
        build(cpu_matmul=library)
    assert torch.get_float32_matmul_precision() == setting
    assert ("by oneDNN, in bfloat16, 2.5 times as fast as BLAS" in caplog.text) == (library == "onednn")


def test_what_the_process_chose_stays(monkeypatch):
    on_a_machine(monkeypatch, False, 2.5)
    torch.set_float32_matmul_precision("high")
    choose("auto")
    assert torch.get_float32_matmul_precision() == "high"


def test_an_earlier_models_choice_does_not_stay(monkeypatch):
    on_a_machine(monkeypatch, False, 2.5)
    choose("onednn")
    choose("auto")
    assert torch.get_float32_matmul_precision() == "highest"


def test_exactness_is_found_by_float64():
    """The same judgement as by the processor's features: AMX is where PyTorch lets oneDNN round."""
    a, b = torch.randn(300, 700), torch.randn(700, 200)
    with matmul.matmul("onednn"):
        differs = (a @ b).double().sub(a.double() @ b.double()).abs().max() > 1e-2
    assert exact() == (not differs)
    assert torch.get_float32_matmul_precision() == "highest"


def test_an_unknown_library_is_one_line():
    with pytest.raises(UserError, match=f"--cpu-matmul mkl: give one of {', '.join(MATMULS)}$"):
        build(cpu_matmul="mkl")
