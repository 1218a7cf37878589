"""Workers killed, disks full, commands broken off: the table is the same to the byte."""

import random
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from processes import RUNS, Start, kill, until, working

FORKSERVER = "multiprocessing.forkserver"


def kept(folder: Path) -> int:
    return len(list((folder / "store").glob("*/*.json.gz")))


def test_killed_workers_cost_a_run_each(tmp_path: Path, start: Start, undisturbed: bytes) -> None:
    process = start("--store", "store", "-o", "out", "-j", "2")
    choose = random.Random(1)
    killed = 0
    while killed < 4 and process.poll() is None:
        time.sleep(choose.uniform(0.05, 0.5))
        workers = working(process.pid, FORKSERVER)
        # While the last runs are under way there may be nothing left to lose.
        if workers and 0 < kept(tmp_path) < RUNS - 2:
            killed += kill(choose.choice(workers))
    _, told = process.communicate()
    assert process.returncode == 0, told
    assert (tmp_path / "out" / "sweep.parquet").read_bytes() == undisturbed
    assert killed
    ends = re.findall(r"pagelab: 16 of 16 done(?:, (\d+) started again)?$", told, re.MULTILINE)
    assert int(ends[-1] or 0) <= killed


def test_a_command_that_is_killed_leaves_no_worker_and_goes_on(
    tmp_path: Path, start: Start, undisturbed: bytes
) -> None:
    process = start("--store", "store", "-o", "out", "-j", "2")
    until(lambda: kept(tmp_path) >= 3)
    workers = working(process.pid, FORKSERVER)
    process.kill()
    process.communicate()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    before = kept(tmp_path)
    again = start("--store", "store", "-o", "out")
    _, told = again.communicate()
    assert again.returncode == 0, told
    assert f"{before} of {RUNS} runs are kept already" in told
    assert (tmp_path / "out" / "sweep.parquet").read_bytes() == undisturbed


def test_an_interrupt_keeps_what_there_is(tmp_path: Path, start: Start) -> None:
    process = start("--store", "store", "-o", "out", "-j", "2")
    until(lambda: kept(tmp_path) >= 1)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate()
    assert process.returncode == 1
    assert "interrupted with " in told
    assert "the same command goes on from there" in told
    assert 1 <= kept(tmp_path) < RUNS


def test_a_full_disk_ends_the_command_and_loses_nothing(
    tmp_path: Path, start: Start, undisturbed: bytes
) -> None:
    """In a name space of its own, where it may mount a disk of 64 KB: a few results."""
    if not shutil.which("unshare") or subprocess.run(["unshare", "-rm", "true"]).returncode:
        pytest.skip("no name space for mounting")
    small = "mkdir store kept; mount -t tmpfs -o size=64k tmpfs store; "
    inside = f"unshare -rm sh -c '{small} \"$@\"; s=$?; cp -r store/. kept; exit $s' sh"
    process = start("--store", "store", "-o", "out", before=f'set -- {inside} "$@";')
    _, told = process.communicate()
    assert process.returncode == 1, told
    assert "No space left on device" in told
    assert not list((tmp_path / "kept").rglob("*.part"))
    again = start("--store", "kept", "-o", "out")
    _, told = again.communicate()
    assert again.returncode == 0, told
    assert (tmp_path / "out" / "sweep.parquet").read_bytes() == undisturbed


def test_shards_together_are_the_whole(tmp_path: Path, start: Start, undisturbed: bytes) -> None:
    shares = [start("--store", "store", "--shard", f"{i}/3", "-j", "1") for i in (1, 2, 3)]
    for share in shares:
        _, told = share.communicate()
        assert share.returncode == 0, told
    assert kept(tmp_path) == RUNS
    process = start("--store", "store", "-o", "out")
    _, told = process.communicate()
    assert f"{RUNS} of {RUNS} runs are kept already" in told
    assert (tmp_path / "out" / "sweep.parquet").read_bytes() == undisturbed
