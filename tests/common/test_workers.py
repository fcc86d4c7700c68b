"""Work by processes or a Dask cluster: order, bounds, the same bytes, and every way in which a worker can fail."""

import contextlib
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import distributed
import pytest
from data import conftest as of_data

from resmlp_mt.common import workers as pools
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.progress import Progress
from resmlp_mt.common.workers import IN_FLIGHT, Cluster, ordered_map, working
from resmlp_mt.data import chunks
from resmlp_mt.data.chunks import PairFilter
from resmlp_mt.data.pipeline import CorpusRecipe, prepare
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.text.words import Words

ROOT = Path(__file__).parents[2]
corpus = of_data.corpus  # a fixture


@pytest.fixture(autouse=True)
def cores(monkeypatch):
    monkeypatch.setattr(pools, "cores", lambda: 8)


@pytest.fixture(params=[1, 8])
def workers(request):
    with working(request.param) as some:
        yield some


@pytest.fixture(scope="module")
def dask():
    """Two worker processes, each of which is replaced if it dies."""
    with distributed.LocalCluster(n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None) as started:
        yield started


class Failing:
    """Gives items back, but what happens at 17 is told by name."""

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


ERRORS = [
    ("error", RuntimeError, "^worker$"),
    ("user", UserError, "^line 17: bad$"),
    ("unbuildable", UserError, r"^bpe\.codes: not codes$"),
]


@pytest.mark.parametrize(("how", "error", "message"), [*ERRORS, ("killed", UserError, "^a worker process was killed")])
def test_errors_of_workers(capfd, how, error, message):
    before = set(multiprocessing.active_children())
    with pytest.raises(error, match=message), working(2) as workers:
        list(ordered_map(partial(Failing, how), range(200), workers))
    assert set(multiprocessing.active_children()) == before
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("how", "error", "message"), [*ERRORS[1:], ("killed", UserError, "^--cluster tcp.*: workers were killed in a row")]
)
def test_errors_of_dask_s_workers(dask, monkeypatch, how, error, message):
    monkeypatch.setattr(pools, "WAITING", 3.0)
    with Cluster(dask.scheduler_address) as cluster:
        # not three: each worker takes seconds to be replaced
        cluster._client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 1))
        with pytest.raises(error, match=message):
            list(ordered_map(partial(Failing, how), range(40), cluster))


def test_items_are_not_taken_without_end(workers):
    endless = itertools.count()
    results = ordered_map(Failing, endless, workers)
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    assert next(endless) <= 5 + IN_FLIGHT * workers.jobs
    results.close()


def started(code):
    """A process that runs this code."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}:{Path(__file__).parent}"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code], env=environment, start_new_session=True, **pipes)


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
SCHEDULER = """
import distributed, time
options = {"host": "127.0.0.1", "protocol": "tcp://", "dashboard_address": None}
with distributed.LocalCluster(n_workers=1, processes=False, **options) as dask:
    print(dask.scheduler_address, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("killed", [False, True])
def test_workers_end_with_their_parent_by_ctrl_c_or_when_it_is_killed(killed):
    process = started(SLOW)
    pids = {int(process.stdout.readline()) for _ in range(8)}
    if killed:
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, said = process.communicate()  # pytest ends a test that waits in vain
    assert killed or (process.returncode, said) == (-signal.SIGINT, "interrupted\n")
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.kill(pid, 0)
                time.sleep(0.05)


def test_same_bytes_though_workers_are_killed(dask, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK", 10)
    recipe = CorpusRecipe(Words(), Subwords("bpe", 60), PairFilter(max_ratio=8.0))
    prepare(corpus, recipe, tmp_path / "one")
    killed, calls, add = [], itertools.count(), Progress.add

    def adding(progress, *args):
        add(progress, *args)
        if next(calls) in (5, 60):  # while training text is tokenized, and later
            killed.append(min(client.run(os.getpid).values()))
            os.kill(killed[-1], signal.SIGKILL)

    monkeypatch.setattr(Progress, "add", adding)
    with (
        distributed.Client(dask.scheduler_address, set_as_default=False) as client,
        Cluster(dask.scheduler_address) as cluster,
    ):
        prepare(corpus, recipe, tmp_path / "two", cluster)
    assert len(killed) == 2
    assert of_data.contents(tmp_path / "two") == of_data.contents(tmp_path / "one")
    assert not list((tmp_path / "two").rglob("*.tmp"))


def test_no_scheduler(monkeypatch):
    monkeypatch.setattr(pools, "CONNECTING", 0.3)
    with pytest.raises(UserError, match=r"^--cluster tcp://127.0.0.1:9: no Dask scheduler answers \(.*0 s.*\): "):
        Cluster("tcp://127.0.0.1:9")


def test_workers_with_other_versions(dask, monkeypatch):
    monkeypatch.setattr(pools, "versions", lambda: {"resmlp_mt": "0.0.1"})
    message = r"a worker on .* has resmlp_mt .*, not 0\.0\.1: install the same everywhere"
    with Cluster(dask.scheduler_address) as cluster, pytest.raises(UserError, match=message):
        list(ordered_map(Failing, range(9), cluster))


def test_no_workers(monkeypatch):
    monkeypatch.setattr(pools, "WAITING", 1.0)
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as dask,
        Cluster(dask.scheduler_address) as cluster,
        pytest.raises(UserError, match="no workers for 1 s: start: dask worker"),
    ):
        list(ordered_map(Failing, range(9), cluster))


def test_scheduler_killed(monkeypatch):
    monkeypatch.setattr(pools, "CONNECTING", 3.0)  # Dask looks for a scheduler that is gone for as long
    monkeypatch.setattr(pools, "WAITING", 4.0)
    process = started(SCHEDULER)
    try:
        with Cluster(process.stdout.readline().strip()) as cluster:
            results = ordered_map(Failing, range(10_000), cluster)
            next(results)
            process.kill()
            with pytest.raises(UserError, match="the scheduler went away: start it, then run this again"):
                list(results)
    finally:
        process.kill()
        process.communicate()


def test_a_cluster_without_dask(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    expected = r"^--cluster tcp://a:1: Dask cannot be imported .*: pip install 'resmlp-mt\[cluster\]'"
    with pytest.raises(UserError, match=expected):
        Cluster("tcp://a:1")
