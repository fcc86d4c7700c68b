"""Work by several processes: order, bounds, and every way in which a worker can fail."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.data import parallel
from resmlp_mt.data.parallel import ordered_map
from resmlp_mt.data.progress import Progress

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "cores", lambda: 2)


class Unpicklable(Exception):
    """Arrives as bytes that nobody can make an error of."""

    def __init__(self, number: int, what: str):
        super().__init__(f"{number} {what}")


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
                case "unpicklable":
                    raise Unpicklable(70, "lines")
                case "local":

                    class Local(Exception):
                        pass

                    raise Local("line 70")
                case "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                case "exits":
                    os._exit(0)
                case "file":
                    Path("/nonexistent/bpe.codes").read_text()
                case "memory":
                    raise MemoryError
                case "stop":
                    raise StopIteration
        return item


def _unbuildable() -> Failing:
    raise UserError("bpe.codes: not codes")


def test_the_order_is_kept() -> None:
    assert list(ordered_map(Failing, range(200), jobs=2)) == list(range(200))


@pytest.fixture
def left_over() -> Callable[[], set[Any]]:
    """Tells which processes are left of those that a test has started."""
    before = set(multiprocessing.active_children())
    return lambda: set(multiprocessing.active_children()) - before


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("error", RuntimeError, "^worker$"),
        ("user", UserError, "^line 70: bad$"),
        ("unpicklable", (RuntimeError, Unpicklable), "70 lines"),
        ("local", Exception, "line 70"),
        ("killed", UserError, "^a worker process was killed"),
        ("exits", UserError, "^a worker process was killed"),
        ("memory", UserError, "^a worker process has no memory left: try again with fewer"),
        ("file", UserError, "^/nonexistent/bpe.codes: No such file or directory$"),
        ("stop", RuntimeError, "StopIteration"),
    ],
)
def test_errors_of_workers(how: str, error: Any, message: str, left_over: Callable[[], set[Any]]) -> None:
    with pytest.raises(error, match=message):
        list(ordered_map(partial(Failing, how), range(200), jobs=2))
    assert not left_over()


def test_a_function_that_ends_its_stream_loses_nothing_in_one_process() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(ordered_map(partial(Failing, "stop"), range(200)))


@pytest.mark.parametrize("jobs", [1, 2])
def test_errors_of_building_arrive_as_they_are(jobs: int, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=r"^bpe\.codes: not codes$"):
        list(ordered_map(_unbuildable, range(9), jobs))
    assert capfd.readouterr().err == ""


def test_items_are_not_taken_without_end(left_over: Callable[[], set[Any]]) -> None:
    taken = 0

    def endless() -> Iterator[int]:
        nonlocal taken
        while True:
            taken += 1
            yield taken

    results = ordered_map(Failing, endless(), jobs=2)
    assert [next(results) for _ in range(5)] == [1, 2, 3, 4, 5]
    assert taken < 15
    results.close()
    assert not left_over()


class Pid:
    def __call__(self, item: int) -> int:
        time.sleep(0.05)
        return os.getpid()


@pytest.mark.parametrize(
    ("items", "cores", "most"),
    [(0, 8, 0), (1, 8, 0), (3, 8, 3), (40, 3, 3), (40, 1, 0)],
)
def test_no_more_workers_than_items_or_cores(
    items: int, cores: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "cores", lambda: cores)
    forks = []
    fork = os.fork
    monkeypatch.setattr(os, "fork", lambda: (forks.append(1), fork())[1])
    pids = list(ordered_map(Pid, range(items), jobs=3000))
    assert len(pids) == items
    assert len(forks) == most
    assert set(pids) == {os.getpid()} if items and not most else os.getpid() not in pids


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_ways_to_start_processes(method: str) -> None:
    # In a process of its own: the method is one for all.
    code = """
        import multiprocessing, sys
        from resmlp_mt.data import parallel
        from tests.data.test_parallel import Failing
        if __name__ == "__main__":
            parallel.cores = lambda: 2
            multiprocessing.set_start_method(sys.argv[1])
            assert list(parallel.ordered_map(Failing, range(50), jobs=2)) == list(range(50))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), method], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_processes_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch, left_over: Callable[[], set[Any]]) -> None:
    forks = 0
    fork = os.fork

    def scarce() -> int:
        nonlocal forks
        forks += 1
        if forks > 1:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return fork()

    monkeypatch.setattr(os, "fork", scarce)
    with pytest.raises(UserError, match=r"cannot be started \(Resource temporarily unavailable\): .*fewer --jobs"):
        list(ordered_map(Failing, range(9), jobs=2))
    assert not left_over()


SLOW = """
    import os, sys, time
    from resmlp_mt.data import parallel
    from resmlp_mt.common.errors import told_in_one_line

    class Slow:
        def __call__(self, item):
            time.sleep(0.1)
            return os.getpid()

    parallel.cores = lambda: 4
    with told_in_one_line():
        for pid in parallel.ordered_map(Slow, range(1000), jobs=4):
            print(pid, flush=True)
"""


def _started(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def _wait_for_the_end_of(pids: set[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            while True:  # pytest ends a test that waits in vain
                os.kill(pid, 0)
                time.sleep(0.05)


def test_ctrl_c_says_one_line_and_ends_all() -> None:
    process = _started(SLOW)
    pids = {int(process.stdout.readline()) for _ in range(8)}
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, said = process.communicate()
    assert process.returncode == -signal.SIGINT
    assert said == "interrupted\n"
    _wait_for_the_end_of(pids)


BUSY = textwrap.dedent(SLOW).replace("time.sleep(0.1)", "time.sleep(0.1 if item < 8 else 3600)")  # after 8 results


def test_ctrl_c_does_not_wait_for_what_workers_are_at() -> None:
    process = _started(BUSY)
    pids = {int(process.stdout.readline()) for _ in range(8)}
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate()  # pytest ends a test that waits in vain
    assert (process.returncode, said) == (-signal.SIGINT, "interrupted\n")
    _wait_for_the_end_of(pids)


@pytest.mark.parametrize("end", ["break", "raise KeyboardInterrupt", "raise ValueError"])
def test_nor_does_the_end_of_who_takes_the_results(end: str) -> None:
    code = BUSY.replace("range(1000)", "range(10)") + f"        {end}\n"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    pid, _ = done.stdout.split("\n")
    assert done.returncode == {"break": 0, "raise ValueError": 1}.get(end, -signal.SIGINT)
    _wait_for_the_end_of({int(pid)})


def test_ctrl_c_while_workers_start() -> None:
    # A worker must not see it before its own first line: it would tell a traceback.
    code = textwrap.dedent(SLOW).replace(
        "parallel.cores",
        "os.register_at_fork(after_in_child=lambda: (os.killpg(0, 2), time.sleep(0.2)))\nparallel.cores",
    )
    process = _started(code)
    _, said = process.communicate()
    assert (process.returncode, said) == (-signal.SIGINT, "interrupted\n")


def test_workers_end_with_a_parent_that_was_killed() -> None:
    process = _started(SLOW)
    pids = {int(process.stdout.readline()) for _ in range(8)}
    process.kill()
    process.communicate()
    _wait_for_the_end_of(pids)


def test_no_thread_runs_where_workers_are_forked() -> None:
    before = set(threading.enumerate())
    with Progress("tokenize", 5) as progress:
        progress.add(1)
        assert set(threading.enumerate()) == before
