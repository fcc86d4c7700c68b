"""Worker processes: the order of results, limits on items taken, and every way in which a worker can fail."""

import contextlib
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from functools import partial

import pytest

from resmlp_mt.common import workers as pools
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.workers import IN_FLIGHT, ordered_map, working


@pytest.fixture(autouse=True)
def cores(monkeypatch):
    monkeypatch.setattr(pools, "cores", lambda: 8)


@pytest.fixture(params=[1, 8])
def workers(request):
    with working(request.param) as some:
        yield some


class Failing:
    """A worker's function: returns each item, but fails in the way ``how``, at item 17 or when it is built."""

    def __init__(self, how=""):
        self._how = how
        if how == "unbuildable":
            raise UserError("bpe.codes: not codes")

    def __call__(self, item):
        if item == 17:
            match self._how:
                case "error":
                    raise RuntimeError("worker")
                case "user":
                    raise UserError("line 17: bad")
                case "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
        return item


@pytest.mark.parametrize("items", [0, 1, 200])
def test_the_order_is_kept(workers, items):
    for _ in range(2):
        assert list(ordered_map(Failing, range(items), workers)) == list(range(items))


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("error", RuntimeError, "^worker$"),
        ("user", UserError, "^line 17: bad$"),
        ("unbuildable", UserError, r"^bpe\.codes: not codes$"),
        ("killed", BrokenProcessPool, "abruptly"),
    ],
)
def test_errors_of_workers(capfd, how, error, message):
    before = set(multiprocessing.active_children())
    with pytest.raises(error, match=message), working(2) as workers:
        list(ordered_map(partial(Failing, how), range(200), workers))
    assert set(multiprocessing.active_children()) == before
    assert capfd.readouterr().err == ""


def test_items_are_not_taken_without_end(workers):
    endless = itertools.count()
    results = ordered_map(Failing, endless, workers)
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    assert next(endless) <= 5 + IN_FLIGHT * workers.jobs
    endless = itertools.count()  # without workers, only what is asked for
    assert next(ordered_map(Failing, endless)) == 0 and next(endless) == 1
    results.close()


SLOW = """
import os, sys, time
from resmlp_mt.common import workers
from resmlp_mt.common.errors import one_line_errors

class Slow:
    def __call__(self, item):
        time.sleep(0.1 if item < 8 else 3600)
        return os.getpid()

workers.cores = lambda: 4
with one_line_errors(), workers.working(4) as pool:
    for pid in workers.ordered_map(Slow, range(1000), pool):
        print(pid, flush=True)
"""


@pytest.mark.parametrize("killed", [False, True])
def test_workers_end_with_their_parent_by_ctrl_c_or_when_it_is_killed(killed):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", SLOW], start_new_session=True, **pipes)
    pids = {int(process.stdout.readline()) for _ in range(8)}
    if killed:
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does at Ctrl-C
    _, said = process.communicate()  # if workers stay, this waits until pytest's timeout
    assert killed or (process.returncode, said) == (-signal.SIGINT, "interrupted\n")
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.kill(pid, 0)
                time.sleep(0.05)
