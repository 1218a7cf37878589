"""Dask with real processes: workers killed, the scheduler restarted; and memory it lacks."""

import random
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from rich.console import Console

from dask_cluster import Cluster
from pagelab.experiment import cluster as cluster_
from pagelab.experiment.board import Board
from pagelab.experiment.case import Case
from pagelab.jobs import Stop
from processes import HELD_AT, PATIENCE, Start, kept, kill_one, until

pytest.importorskip("distributed")

HELD = Path(__file__).with_name("held.py")


def finish(process: subprocess.Popen[str], folder: Path) -> tuple[bytes, str]:
    """The table, and what the command said."""
    _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, told + (folder / "dask.log").read_text()[-3000:]
    return (folder / "out" / "sweep.parquet").read_bytes(), told


def test_killed_workers_and_a_restarted_scheduler(
    tmp_path: Path, cluster: Cluster, start: Start, undisturbed: bytes
) -> None:
    first = cluster.scheduler()
    nannies = [cluster.worker("--preload", str(HELD)) for _ in range(2)]
    process = start("--store", "store", "-o", "out", "--dask", cluster.address)
    choose = random.Random(2)
    until(lambda: kept(tmp_path) >= HELD_AT)
    for _ in range(2):
        kill_one(tmp_path, choose)
    first.kill()
    first.wait()
    (tmp_path / "go").touch()
    time.sleep(1)
    cluster.scheduler()

    def workers_live() -> bool:
        for place, nanny in enumerate(nannies):
            # Workers end with their scheduler; who runs a cluster starts them again.
            if nanny.poll() is not None:
                nannies[place] = cluster.worker()
        return process.poll() is not None

    until(workers_live)
    table, told = finish(process, tmp_path)
    assert table == undisturbed
    assert "started again" in told


class Waiting:
    """A client of a scheduler whose only worker has little memory: nothing is ever done."""

    status = "running"
    scheduler = SimpleNamespace(identity=None)

    def sync(self, *_: Any, **__: Any) -> Any:
        """The workers there are."""
        return {"workers": {"tcp://a:1": {"resources": {"MEMORY": 10}}}}

    def submit(self, *_: Any, **__: Any) -> Any:
        """Takes a task."""
        return Mock()

    def cancel(self, _: Any) -> None:
        """Nothing is under way."""


def test_a_case_that_fits_into_no_worker_is_waited_for_and_that_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stop = Stop()
    sink = Mock()
    cases = [Case("double", str(n), {"number": n}, n, memory=1 << 30) for n in (1, 2)]
    with ThreadPoolExecutor() as pool:
        made = cluster_.Cluster(Waiting)
        board = Board(2, 0, Console(soft_wrap=True))
        running = pool.submit(made.run, cases, sink, board, stop)
        time.sleep(0.1)
        stop.event.set()
        running.result(timeout=20)
    told = capsys.readouterr().out
    assert told.count("1 needs 1.00 GiB, and no worker declares as much MEMORY") == 1
    assert "2 needs" not in told
    sink.finished.assert_not_called()


def test_nobody_at_the_address(start: Start) -> None:
    process = start("--store", "store", "-o", "out", "--dask", "tcp://127.0.0.1:1")
    _, told = process.communicate()
    assert process.returncode == 1
    assert "no Dask scheduler answers at tcp://127.0.0.1:1" in told


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("nonsense", "missing port"),
        ("", "missing port"),
        ("tcp://[::1", "brackets"),
        ("tcp://localhost:x", "'x'"),
        ("foo://localhost:1", "unknown address scheme"),
    ],
)
def test_what_is_no_address_is_said_without_dasks_own_words(
    address: str, why: str, start: Start
) -> None:
    process = start("--dask", address)
    _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    [said] = told.splitlines()
    assert said.startswith(f"pagelab: --dask {address}: ")
    assert why in said
