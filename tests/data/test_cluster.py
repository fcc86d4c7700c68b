"""A Dask cluster makes the same bytes, whatever happens to its workers, and each of its failures is one line."""

import dataclasses
import gc
import http.server
import itertools
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import distributed
import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.data import cluster as clusters
from resmlp_mt.data import parallel
from resmlp_mt.data.cluster import Cluster
from resmlp_mt.data.filtering import PairFilter
from resmlp_mt.data.parallel import ordered_map
from resmlp_mt.data.pipeline import Corpus, CorpusRecipe, prepare
from resmlp_mt.data.progress import Progress
from resmlp_mt.data.subwords import Subwords
from resmlp_mt.text.words import Words

ROOT = Path(__file__).parents[2]
RECIPE = CorpusRecipe(Words(), Subwords("bpe", 60), PairFilter(max_ratio=8.0))


@pytest.fixture(scope="module")
def dask() -> Iterator[distributed.LocalCluster]:
    """Two worker processes, each of which is replaced if it dies."""
    with distributed.LocalCluster(n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None) as started:
        yield started


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "CHUNK", 10)
    monkeypatch.setattr(clusters, "AT_ONCE", 1)


class Built:
    """Answers with its process, and with a number of its own."""

    def __init__(self) -> None:
        self._number = secrets.token_hex()

    def __call__(self, item: int) -> tuple[int, int, str]:
        return item, os.getpid(), self._number


class Failing:
    def __init__(self, error: Callable[[], Any]):
        self._error = error

    def __call__(self, item: int) -> int:
        if item == 7:
            self._error()
        return item


class Unpicklable(Exception):
    def __init__(self, number: int, what: str):
        super().__init__(f"{number} {what}")


def _raise(error: type[Exception], *args: object) -> None:
    raise error(*args)


def test_same_bytes_though_workers_are_killed(
    dask: distributed.LocalCluster,
    corpus: Corpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    small_tasks: None,
) -> None:
    from data.folders import contents  # here: workers import this file without the folder of tests

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
    monkeypatch.chdir(tmp_path)
    with (
        distributed.Client(dask.scheduler_address, set_as_default=False) as client,
        Cluster(dask.scheduler_address, "two") as cluster,
    ):
        prepare(corpus, RECIPE, Path("two"), cluster)  # a relative name: the workers run in another folder
    assert len(killed) == 2
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
    assert not list((tmp_path / "two").rglob("*.tmp"))


def test_functions_are_built_once_a_process_and_not_kept(dask: distributed.LocalCluster, tmp_path: Path) -> None:
    def held() -> int:
        gc.collect()
        return sum(type(thing).__name__ == "Built" for thing in gc.get_objects())

    with Cluster(dask.scheduler_address, tmp_path) as cluster:
        done = list(ordered_map(Built, range(200), cluster))
        assert [item for item, _, _ in done] == list(range(200))
        builds = {(pid, number) for _, pid, number in done}
        assert len(builds) == len({pid for pid, _ in builds}) <= 2
        assert os.getpid() not in {pid for pid, _ in builds}
        with distributed.Client(dask.scheduler_address, set_as_default=False) as client:
            assert set(client.run(held).values()) == {0}
    assert list(tmp_path.iterdir()) == []


def test_items_are_not_taken_without_end_and_what_is_not_wanted_is_cancelled(
    dask: distributed.LocalCluster, tmp_path: Path, small_tasks: None
) -> None:
    taken = 0

    def endless() -> Iterator[int]:
        nonlocal taken
        while True:
            taken += 1
            yield taken

    with Cluster(dask.scheduler_address, tmp_path) as cluster:
        results = ordered_map(Built, endless(), cluster)
        assert [next(results)[0] for _ in range(40)] == list(range(1, 41))
        assert taken <= 40 + 2 * clusters.IN_FLIGHT
        results.close()
        with distributed.Client(dask.scheduler_address, set_as_default=False) as client:
            while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
                time.sleep(0.1)  # pytest ends a test that waits in vain


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (partial(Failing, partial(_raise, UserError, "line 7: bad")), UserError, "^line 7: bad$"),
        (partial(Failing, partial(_raise, KeyError, "seven")), KeyError, "seven"),
        (partial(Failing, partial(_raise, TimeoutError)), UserError, r"^a worker process: TimeoutError\(\)$"),
        (partial(Failing, partial(_raise, Unpicklable, 7, "lines")), (RuntimeError, Unpicklable), "7 lines"),
        (partial(_raise, UserError, "bpe.codes: not codes"), UserError, r"^bpe\.codes: not codes$"),
        (
            partial(Failing, partial(os._exit, 0)),
            UserError,
            "^--cluster tcp.*: 2 workers were killed in a row",
        ),
    ],
)
def test_errors_of_workers(dask: distributed.LocalCluster, tmp_path: Path, make: Any, error: Any, message: str) -> None:
    def allow_one(dask_scheduler: Any) -> None:
        dask_scheduler.allowed_failures = 1  # not three: each worker takes seconds to be replaced

    with Cluster(dask.scheduler_address, tmp_path) as cluster:
        cluster._client.run_on_scheduler(allow_one)
        with pytest.raises(error, match=message):
            list(ordered_map(make, range(20), cluster))


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("", "missing port"),
        ("tcp://127.0.0.1", "missing port"),
        ("foo://127.0.0.1:8786", "unknown address scheme 'foo'"),
        ("tls://127.0.0.1:8786", "TLS"),
        ("tcp://127.0.0.1:9", "0 s"),
        ("http", ""),
        ("worker", "a Worker is there"),
    ],
)
def test_no_scheduler(
    dask: distributed.LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, message: str
) -> None:
    if address == "worker":
        with distributed.Client(dask.scheduler_address, set_as_default=False) as client:
            # a task is done by one that lives; of those that an earlier test has killed, some may still be listed
            address = client.submit(lambda: distributed.get_worker().address, pure=False).result(60)
    else:
        monkeypatch.setattr(clusters, "CONNECTING", 0.3)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()  # seconds between looks
        if address == "http":
            address = f"tcp://127.0.0.1:{server.server_port}"
        with pytest.raises(
            UserError, match=rf"^--cluster {address}: no Dask scheduler answers \(.*{message}.*\): "
        ) as error:
            Cluster(address, tmp_path)
        server.shutdown()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("what", "here"), [("Python", "2.7"), ("sacremoses", "0.0.1"), ("resmlp_mt", "0.0.1")])
def test_workers_with_other_versions(
    dask: distributed.LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, here: str
) -> None:
    monkeypatch.setattr(clusters, "_versions", lambda: {what: here})
    with pytest.raises(UserError, match=rf"a worker on .* has {what} .*, not {here}: install the same everywhere"):
        Cluster(dask.scheduler_address, tmp_path)


def test_a_worker_without_this_package(
    dask: distributed.LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking() -> None:
        raise ModuleNotFoundError("No module named 'resmlp_mt'")

    with Cluster(dask.scheduler_address, tmp_path) as cluster:
        run = cluster._client.run
        monkeypatch.setattr(cluster._client, "run", lambda function, **options: run(lacking, **options))
        with pytest.raises(
            UserError, match=r"the worker at tcp.* lacks this package \(No module.*\): install the same"
        ):
            cluster._check_workers()


def test_a_worker_that_comes_later_is_looked_at_too(dask: distributed.LocalCluster, tmp_path: Path) -> None:
    with Cluster(dask.scheduler_address, tmp_path) as cluster:
        cluster._requirements = dataclasses.replace(cluster._requirements, versions={"Python": "2.7"})
        cluster._check_workers = lambda: None
        with pytest.raises(UserError, match=r"^a worker on .* has Python 3\.\d+, not 2\.7"):
            list(ordered_map(Built, range(3), cluster))


def test_a_disk_that_workers_do_not_see(
    dask: distributed.LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Cluster(dask.scheduler_address, tmp_path) as cluster:
        (tmp_path / ".unfinished").mkdir()
        check = cluster._check_workers

        def elsewhere() -> None:
            cluster._requirements.marker.write_text("the same name on a disk of another machine")
            check()

        cluster._check_workers = elsewhere
        with pytest.raises(
            UserError, match=rf"^--cluster .*: a worker on .* does not see {tmp_path}: put it on a disk"
        ):
            list(ordered_map(Built, range(3), cluster))
    assert not list(tmp_path.rglob("*.tmp"))


def test_one_cluster_for_two_runs(dask: distributed.LocalCluster, tmp_path: Path) -> None:
    with Cluster(dask.scheduler_address, tmp_path) as cluster:
        for _ in range(2):
            (tmp_path / ".unfinished").mkdir()
            assert len(list(ordered_map(Built, range(3), cluster))) == 3
            shutil.rmtree(tmp_path / ".unfinished")  # as a run ends


class Lost:
    """A result that was there, but went with its worker before it was fetched."""

    status = "pending"

    def done(self) -> bool:
        return True

    def result(self, timeout: float | None = None) -> bytes:
        assert timeout is not None  # for ever
        raise distributed.TimeoutError


def test_no_workers_and_none_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "WAITING", 1.0)
    monkeypatch.setattr(clusters, "LOOKING", 0.2)
    message = "no workers for 1 s: start some with: dask worker"
    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as dask:
        with pytest.raises(UserError, match=message):
            Cluster(dask.scheduler_address, tmp_path)
        dask.scale(1)
        with Cluster(dask.scheduler_address, tmp_path) as cluster:
            results = ordered_map(Built, range(1000), cluster)
            next(results)
            dask.scale(0)
            with pytest.raises(UserError, match=message):
                list(results)
            with pytest.raises(UserError, match=message):
                cluster._results(Lost())


def test_scheduler_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_tasks: None) -> None:
    monkeypatch.setattr(clusters, "CONNECTING", 3.0)  # Dask looks for a scheduler that is gone for as long
    code = """if True:
        import distributed, time
        options = {"host": "127.0.0.1", "protocol": "tcp://", "dashboard_address": None}
        with distributed.LocalCluster(n_workers=1, processes=False, **options) as dask:
            print(dask.scheduler_address, flush=True)
            time.sleep(60)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": f"{ROOT}:{Path(__file__).parent}"},
    )  # fmt: skip
    try:
        address = process.stdout.readline().strip()
        with Cluster(address, tmp_path) as cluster:
            results = ordered_map(Built, range(1000), cluster)
            next(results)
            process.kill()
            with pytest.raises(UserError, match="the scheduler went away: start it, then run this again"):
                list(results)
    finally:
        process.kill()
        process.wait()


def _command(corpus: Corpus, out: Path, *options: str) -> list[str]:
    command = [sys.executable, str(ROOT / "scripts/prepare_text.py"), "--source-lang", "en", "--target-lang", "de"]
    for split in ("train", "valid", "test"):
        for source in corpus.sets[split]:
            command += [f"--{split}", *map(str, source.inputs)]
    return [*command, "--out", str(out), "--symbols", "60", *options]


def test_ctrl_c(dask: distributed.LocalCluster, corpus: Corpus, tmp_path: Path) -> None:
    sides = [tmp_path / f"large.{lang}" for lang in ("en", "de")]
    for path, small in zip(sides, corpus.train[0].inputs, strict=True):
        path.write_bytes(small.read_bytes() * 200)
    large = dataclasses.replace(corpus, train=[type(corpus.train[0])(*sides)])
    process = subprocess.Popen(
        _command(large, tmp_path / "out", "--cluster", dask.scheduler_address),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stdout.readline() == "tokenize train 1\n"
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert (process.returncode, said) == (-signal.SIGINT, "interrupted\n")
    assert not list((tmp_path / "out").rglob("*.tmp"))


def test_dask_is_imported_for_a_cluster_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys, resmlp_mt.data.cluster; assert not {'dask', 'distributed'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    monkeypatch.setitem(sys.modules, "distributed", None)
    expected = r"^--cluster tcp://a:1: Dask cannot be imported .*: pip install 'resmlp-mt\[cluster\]'"
    with pytest.raises(UserError, match=expected):
        Cluster("tcp://a:1", tmp_path)
