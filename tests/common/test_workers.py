"""Work by several processes: order, bounds, and every way in which a worker can fail."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from resmlp_mt.common import workers as pools
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.workers import IN_FLIGHT, Workers, ordered_map, working

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=[1, 8])
def workers(request, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    monkeypatch.setattr(pools, "cores", lambda: 8)
    with working(request.param) as some:
        yield some


class Failing:
    """Gives items back, but what happens at 70 is told by name."""

    def __init__(self, how: str = "") -> None:
        self._how = how

    def __call__(self, item: int) -> int:
        if item == 70:
            match self._how:
                case "error":
                    raise RuntimeError("worker")
                case "user":
                    raise UserError("line 70: bad")
                case "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
        return item


def _unbuildable() -> Failing:
    raise UserError("bpe.codes: not codes")


@pytest.mark.parametrize("items", [0, 1, 200])
def test_the_order_is_kept(workers: Workers, items: int) -> None:
    for _ in range(2):
        assert list(ordered_map(Failing, range(items), workers)) == list(range(items))


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("error", RuntimeError, "^worker$"),
        ("user", UserError, "^line 70: bad$"),
        ("killed", UserError, "^a worker process was killed"),
    ],
)
def test_errors_of_workers(monkeypatch: pytest.MonkeyPatch, how: str, error: Any, message: str) -> None:
    monkeypatch.setattr(pools, "cores", lambda: 2)
    before = set(multiprocessing.active_children())
    with pytest.raises(error, match=message), working(2) as workers:
        list(ordered_map(partial(Failing, how), range(200), workers))
    assert set(multiprocessing.active_children()) == before


def test_errors_of_building_arrive_as_they_are(workers: Workers, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=r"^bpe\.codes: not codes$"):
        list(ordered_map(_unbuildable, range(9), workers))
    assert capfd.readouterr().err == ""


def test_items_are_not_taken_without_end(workers: Workers) -> None:
    taken = 0

    def endless() -> Iterator[int]:
        nonlocal taken
        while True:
            taken += 1
            yield taken

    results = ordered_map(Failing, endless(), workers)
    assert [next(results) for _ in range(5)] == [1, 2, 3, 4, 5]
    assert taken <= 5 + IN_FLIGHT * workers.jobs
    results.close()


class Pid:
    def __call__(self, item: int) -> int:
        time.sleep(0.05)
        return os.getpid()


@pytest.mark.parametrize(("items", "cores", "most"), [(1, 8, 0), (40, 3, 3), (40, 1, 0)])
def test_no_more_workers_than_cores(items: int, cores: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "cores", lambda: cores)
    with working(3000) as workers:
        pids = set(ordered_map(Pid, range(items), workers))
    assert len(pids - {os.getpid()}) <= most
    assert (os.getpid() in pids) == (most == 0)


SLOW = """
    import os, sys, time
    from resmlp_mt.common import workers
    from resmlp_mt.common.errors import told_in_one_line

    class Slow:
        def __call__(self, item):
            time.sleep(0.1 if item < 8 else 3600)
            return os.getpid()

    workers.cores = lambda: 4
    with told_in_one_line(), workers.working(4) as pool:
        for pid in workers.ordered_map(Slow, range(1000), pool):
            print(pid, flush=True)
"""


def _started() -> tuple[subprocess.Popen[str], set[int]]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SLOW)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    return process, {int(process.stdout.readline()) for _ in range(8)}


def _wait_for_the_end_of(pids: set[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            while True:  # pytest ends a test that waits in vain
                os.kill(pid, 0)
                time.sleep(0.05)


def test_ctrl_c_says_one_line_and_does_not_wait_for_what_workers_are_at() -> None:
    process, pids = _started()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, said = process.communicate()  # pytest ends a test that waits in vain
    assert (process.returncode, said) == (-signal.SIGINT, "interrupted\n")
    _wait_for_the_end_of(pids)


def test_workers_end_with_a_parent_that_was_killed() -> None:
    process, pids = _started()
    process.kill()
    process.communicate()
    _wait_for_the_end_of(pids)
