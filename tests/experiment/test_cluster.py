"""Dask with real processes: workers killed, the scheduler restarted, wrong answers."""

import random
import re
import subprocess
import time
from pathlib import Path

import pytest

from dask_cluster import Cluster
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


# Its second answer, and all after it, wait until the worker that answers rightly has work.
WRONG = """
import time
from pathlib import Path

from pagelab.experiment.backends import BACKENDS, simulate

answers = 0

def wrong(task, progress):
    global answers
    answers += 1
    while answers > 1 and not Path({there!r}).exists():
        time.sleep(0.05)
    found = simulate.run(task, progress)
    found["cycles"]["elapsed"] += 1
    return found

BACKENDS["simulate"] = wrong
"""

RIGHT = """
from pathlib import Path

from pagelab.experiment.backends import BACKENDS, simulate

def right(task, progress):
    Path({there!r}).touch()
    return simulate.run(task, progress)

BACKENDS["simulate"] = right
"""


def test_a_worker_that_answers_wrongly_is_found_and_asked_no_more(
    tmp_path: Path, cluster: Cluster, start: Start, undisturbed: bytes
) -> None:
    there = str(tmp_path / "there")
    (tmp_path / "wrong.py").write_text(WRONG.format(there=there))
    (tmp_path / "right.py").write_text(RIGHT.format(there=there))
    cluster.scheduler()
    cluster.worker("--preload", str(tmp_path / "wrong.py"))
    process = start("--store", "store", "-o", "out", "--dask", cluster.address)
    # At first there is nobody to check what it answers.
    until(lambda: kept(tmp_path) >= 1 or process.poll() is not None)
    cluster.worker("--preload", str(tmp_path / "right.py"))
    table, told = finish(process, tmp_path)
    assert table == undisturbed
    assert re.search(r"tcp://\S+ answered .* wrongly", told), told


def test_what_a_worker_was_to_check_is_checked_by_others_once_it_is_gone(
    tmp_path: Path, cluster: Cluster, start: Start, undisturbed: bytes
) -> None:
    """The worker that answers wrongly never comes to what it is to check of the other's."""
    (tmp_path / "wrong.py").write_text(WRONG.format(there=str(tmp_path / "never")))
    (tmp_path / "right.py").write_text(RIGHT.format(there=str(tmp_path / "there")))
    cluster.scheduler()
    cluster.worker("--preload", str(tmp_path / "wrong.py"))
    process = start("--store", "store", "-o", "out", "--dask", cluster.address)
    until(lambda: kept(tmp_path) >= 1 or process.poll() is not None)
    cluster.worker("--preload", str(tmp_path / "right.py"))
    table, told = finish(process, tmp_path)
    assert table == undisturbed
    assert re.search(r"tcp://\S+ answered .* wrongly", told), told


def test_the_only_worker_answers_wrongly(tmp_path: Path, cluster: Cluster, start: Start) -> None:
    there = tmp_path / "there"
    there.touch()
    (tmp_path / "wrong.py").write_text(WRONG.format(there=str(there)))
    cluster.scheduler()
    cluster.worker("--preload", str(tmp_path / "wrong.py"))
    process = start("--store", "store", "-o", "out", "--dask", cluster.address)
    _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1, told
    assert "no worker is left that answers rightly" in told
    assert kept(tmp_path) == 0


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
