"""A Dask cluster makes the same bytes, whatever happens to its workers, and each of its failures is one line."""

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import distributed
import pytest
from data.conftest import (
    contents,
    corpus,  # noqa: F401  (a fixture)
)

from resmlp_mt.common import workers as clusters
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.progress import Progress
from resmlp_mt.common.workers import Cluster, ordered_map
from resmlp_mt.data import chunks
from resmlp_mt.data.chunks import PairFilter
from resmlp_mt.data.pipeline import Corpus, CorpusRecipe, prepare
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.text.words import Words

ROOT = Path(__file__).parents[2]
RECIPE = CorpusRecipe(Words(), Subwords("bpe", 60), PairFilter(max_ratio=8.0))


@pytest.fixture(scope="module")
def dask() -> Iterator[distributed.LocalCluster]:
    """Two worker processes, each of which is replaced if it dies."""
    with distributed.LocalCluster(n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None) as started:
        yield started


class Same:
    def __call__(self, item: int) -> int:
        return item


class Failing:
    def __init__(self, error: Callable[[], Any]):
        self._error = error

    def __call__(self, item: int) -> int:
        if item == 7:
            self._error()
        return item


def _raise(error: type[Exception], *args: object) -> None:
    raise error(*args)


def test_same_bytes_though_workers_are_killed(
    dask: distributed.LocalCluster,
    corpus: Corpus,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 10)
    prepare(corpus, RECIPE, tmp_path / "one")
    killed = []
    calls = itertools.count()
    add = Progress.add

    def adding(progress: Progress, *args: Any) -> None:
        add(progress, *args)
        if next(calls) in (5, 60):  # while training text is tokenized, and later
            pid = min(client.run(os.getpid).values())
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    monkeypatch.setattr(Progress, "add", adding)
    with (
        distributed.Client(dask.scheduler_address, set_as_default=False) as client,
        Cluster(dask.scheduler_address) as cluster,
    ):
        prepare(corpus, RECIPE, tmp_path / "two", cluster)
    assert len(killed) == 2
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
    assert not list((tmp_path / "two").rglob("*.tmp"))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (partial(Failing, partial(_raise, UserError, "line 7: bad")), UserError, "^line 7: bad$"),
        (partial(_raise, UserError, "bpe.codes: not codes"), UserError, r"^bpe\.codes: not codes$"),
        (partial(Failing, partial(os._exit, 0)), UserError, "^--cluster tcp.*: workers were killed in a row"),
    ],
)
def test_errors_of_workers(dask: distributed.LocalCluster, make: Any, error: Any, message: str) -> None:
    def allow_one(dask_scheduler: Any) -> None:
        dask_scheduler.allowed_failures = 1  # not three: each worker takes seconds to be replaced

    with Cluster(dask.scheduler_address) as cluster:
        cluster._client.run_on_scheduler(allow_one)
        with pytest.raises(error, match=message):
            list(ordered_map(make, range(20), cluster))


@pytest.mark.parametrize(("address", "message"), [("tcp://127.0.0.1", "missing port"), ("tcp://127.0.0.1:9", "0 s")])
def test_no_scheduler(monkeypatch: pytest.MonkeyPatch, address: str, message: str) -> None:
    monkeypatch.setattr(clusters, "CONNECTING", 0.3)
    with pytest.raises(
        UserError, match=rf"^--cluster {address}: no Dask scheduler answers \(.*{message}.*\): "
    ) as told:
        Cluster(address)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(("what", "here"), [("Python", "2.7"), ("resmlp_mt", "0.0.1")])
def test_workers_with_other_versions(
    dask: distributed.LocalCluster, monkeypatch: pytest.MonkeyPatch, what: str, here: str
) -> None:
    monkeypatch.setattr(clusters, "versions", lambda: {what: here})
    message = rf"a worker on .* has {what} .*, not {here}: install the same everywhere"
    with Cluster(dask.scheduler_address) as cluster, pytest.raises(UserError, match=message):
        list(ordered_map(Same, range(9), cluster))


def test_no_workers_and_none_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "WAITING", 1.0)
    message = "no workers for 1 s: start: dask worker"
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as dask,
        Cluster(dask.scheduler_address) as cluster,
    ):
        with pytest.raises(UserError, match=message):
            list(ordered_map(Same, range(9), cluster))
        dask.scale(1)
        results = ordered_map(Same, range(1000), cluster)
        next(results)
        dask.scale(0)
        with pytest.raises(UserError, match=message):
            list(results)


def test_scheduler_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "CONNECTING", 3.0)  # Dask looks for a scheduler that is gone for as long
    code = """if True:
        import distributed, time
        options = {"host": "127.0.0.1", "protocol": "tcp://", "dashboard_address": None}
        with distributed.LocalCluster(n_workers=1, processes=False, **options) as dask:
            print(dask.scheduler_address, flush=True)
            time.sleep(60)
    """
    tests = Path(__file__).parents[1]
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": f"{ROOT}:{tests}:{Path(__file__).parent}"},
    )  # fmt: skip
    try:
        with Cluster(process.stdout.readline().strip()) as cluster:
            results = ordered_map(Same, range(10_000), cluster)
            next(results)
            process.kill()
            with pytest.raises(UserError, match="the scheduler went away: start it, then run this again"):
                list(results)
    finally:
        process.kill()
        process.wait()


def test_dask_is_imported_for_a_cluster_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys, resmlp_mt.common.workers; assert not {'dask', 'distributed'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    monkeypatch.setitem(sys.modules, "distributed", None)
    expected = r"^--cluster tcp://a:1: Dask cannot be imported .*: pip install 'resmlp-mt\[cluster\]'"
    with pytest.raises(UserError, match=expected):
        Cluster("tcp://a:1")
