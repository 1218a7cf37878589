"""One simulation in pieces on a Dask cluster of real processes: the bits of one process."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dask_cluster import Cluster
from processes import PATIENCE, alive, until

pytest.importorskip("distributed")

# Small caches, so that a short program is long enough to be cut into many pieces.
SMALL = ["--set", "caches.l2.kib=64", "--set", "caches.llc.kib=256"]
SMALL += ["--set", "memory.memory_bytes=256MiB"]
UPDATES = "random-updates:footprint=64MiB,updates=1000000"
# Says in `busy` who simulates a piece; the second piece waits until somebody says `go`.
HELD = """
import os
import time
from pathlib import Path

from pagelab.experiment.backends import BACKENDS, pieces

HERE = Path({here!r})

def held(task, progress):
    (HERE / "busy").mkdir(exist_ok=True)
    (HERE / "busy" / str(os.getpid())).touch()
    while task["place"][0] and not (HERE / "go").exists():
        time.sleep(0.02)
    return pieces.piece(task, progress)

BACKENDS["piece"] = held
"""


def command(folder: Path, *options: str) -> subprocess.Popen[str]:
    words = ["-m", "pagelab", "simulate", "-d", "radix", "--json", "--quiet", *SMALL, *options]
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env=os.environ | {"PAGELAB_CACHE": str(folder / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result(process: subprocess.Popen[str]) -> dict[str, object]:
    """All of a result but how long it took."""
    out, told = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, told
    found: dict[str, object] = json.loads(out)
    del found["host"]
    return found


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A trace of the updates."""
    file = tmp_path / "updates.trace"
    written = [sys.executable, "-m", "pagelab", "trace", "write", "-w", UPDATES, str(file)]
    subprocess.run(written, check=True, timeout=PATIENCE)
    return file


def test_pieces_on_a_cluster_are_those_of_one_process_though_a_worker_is_killed(
    tmp_path: Path, cluster: Cluster, trace: Path
) -> None:
    one = result(command(tmp_path, "-t", str(trace), "--parallel", "1"))
    assert isinstance(one["pieces"], dict)
    assert one["pieces"]["count"] >= 4
    # Nothing kept: the intervals are looked at by the workers.
    kept = list((tmp_path / "cache" / "surveys").iterdir())
    assert len(kept) == 1
    before = kept[0].read_bytes()
    kept[0].unlink()
    (tmp_path / "held.py").write_text(HELD.format(here=str(tmp_path)))
    cluster.scheduler()
    for _ in range(2):
        cluster.worker("--preload", str(tmp_path / "held.py"))
    process = command(tmp_path, "-t", str(trace), "--dask", cluster.address)
    busy = tmp_path / "busy"
    until(lambda: len(list(busy.glob("*"))) >= 2 or process.poll() is not None)
    victim = int(min(busy.iterdir()).name)
    os.kill(victim, signal.SIGKILL)
    until(lambda: not alive(victim))
    (tmp_path / "go").touch()
    assert result(process) == one
    assert kept[0].read_bytes() == before


def test_a_command_that_is_killed_goes_on_with_the_pieces_that_are_missing(
    tmp_path: Path, cluster: Cluster
) -> None:
    source = ["-w", UPDATES]
    one = result(command(tmp_path, *source, "--parallel", "2"))
    (tmp_path / "held.py").write_text(HELD.format(here=str(tmp_path)))
    cluster.scheduler()
    cluster.worker("--preload", str(tmp_path / "held.py"))
    store = tmp_path / "pagelab-results" / "store"
    process = command(tmp_path, *source, "--dask", cluster.address, "--parallel", "2")
    # The first piece waits for nobody.
    until(lambda: len(list(store.glob("*/*.gz"))) >= 1 or process.poll() is not None)
    process.kill()
    process.communicate()
    first = {file: file.stat().st_mtime_ns for file in store.glob("*/*.gz")}
    assert first
    (tmp_path / "go").touch()
    assert result(command(tmp_path, *source, "--dask", cluster.address)) == one
    assert all(file.stat().st_mtime_ns == time for file, time in first.items())


def test_what_cannot_be_cut_is_refused_before_anything_runs(
    tmp_path: Path, cluster: Cluster
) -> None:
    cluster.scheduler()
    process = command(tmp_path, "-w", UPDATES, "--set", "cores=2", "--dask", cluster.address)
    _, told = process.communicate(timeout=PATIENCE)
    assert process.returncode not in (0, 130)
    assert "several cores" in " ".join(told.split())
    nobody = command(tmp_path, "-w", UPDATES, "--dask", "tcp://127.0.0.1:1")
    _, told = nobody.communicate(timeout=PATIENCE)
    assert nobody.returncode == 1
    assert "no Dask scheduler answers" in " ".join(told.split())
