"""Workers killed, disks full, commands broken off: the table is the same to the byte."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from large_result import LENGTH
from processes import HELD_AT, PATIENCE, RUNS, Start, alive, busy, kept, kill_one, until


def test_killed_workers_cost_a_run_each(tmp_path: Path, start: Start, undisturbed: bytes) -> None:
    process = start("--store", "store", "-o", "out", "-j", "2", held=True)
    choose = random.Random(1)
    for _ in range(4):
        kill_one(tmp_path, choose)
    (tmp_path / "go").touch()
    _, told = process.communicate()
    assert process.returncode == 0, told
    assert (tmp_path / "out" / "sweep.parquet").read_bytes() == undisturbed
    [again] = re.findall(r"pagelab: 16 of 16 done, (\d+) started again$", told, re.MULTILINE)
    # One that was killed between two runs has cost none.
    assert 1 <= int(again) <= 4


def test_a_command_that_is_killed_leaves_no_worker_and_goes_on(
    tmp_path: Path, start: Start, undisturbed: bytes
) -> None:
    process = start("--store", "store", "-o", "out", "-j", "2", held=True)
    until(lambda: kept(tmp_path) >= HELD_AT and bool(busy(tmp_path)))
    process.kill()
    process.communicate()
    until(lambda: not busy(tmp_path))
    before = kept(tmp_path)
    assert before < RUNS
    again = start("--store", "store", "-o", "out")
    _, told = again.communicate()
    assert again.returncode == 0, told
    assert f"{before} of {RUNS} runs are kept already" in told
    assert (tmp_path / "out" / "sweep.parquet").read_bytes() == undisturbed


def writing(pid: int) -> bool:
    """Whether a process is in write(2), number 1: proc_pid_syscall(5)."""
    return Path(f"/proc/{pid}/syscall").read_text().startswith("1 ")


def test_a_worker_may_die_while_it_writes_a_result_and_between_two_runs(tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "large_result.py"
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: bool(busy(tmp_path)))
            [worker] = busy(tmp_path)
            # It does not read, so that what is written stays half written.
            process.send_signal(signal.SIGSTOP)
            (tmp_path / "go").touch()
            until(lambda: writing(worker))
            os.kill(worker, signal.SIGKILL)
            until(lambda: not alive(worker))
            process.send_signal(signal.SIGCONT)
            told, _ = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert told.splitlines() == 2 * [f"{LENGTH} characters"] + ["2 died"]


# What is run by whoever imports it, as workers do.
UNGUARDED = """
from pathlib import Path

from pagelab.errors import PagelabError
from pagelab.experiment.case import Case
from pagelab.experiment.run import How, run_all

cases = [Case("collisions", str(n), {"entries": 64, "addresses": n, "seed": 1}, n) for n in (1, 2)]
try:
    run_all(cases, How(Path("store"), quiet=True))
except PagelabError as error:
    print(error)
"""


def test_workers_that_cannot_start_are_no_run_s_fault(tmp_path: Path) -> None:
    (tmp_path / "unguarded.py").write_text(UNGUARDED)
    done = subprocess.run(
        [sys.executable, "unguarded.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "10 processes in a row died while they started" in done.stdout
    assert kept(tmp_path) == 0


def test_a_folder_for_temporary_files_whose_name_is_too_long_is_named(tmp_path: Path) -> None:
    """A socket's name has 107 bytes at most: unix(7)."""
    folder = tmp_path / ("long" * 25)
    folder.mkdir()
    (tmp_path / "guarded.py").write_text(
        "if __name__ == '__main__':\n" + textwrap.indent(UNGUARDED, "    ")
    )
    done = subprocess.run(
        [sys.executable, "guarded.py"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "cannot start processes" in done.stdout
    assert f"TMPDIR ({folder})" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_there_is(
    number: signal.Signals, tmp_path: Path, start: Start
) -> None:
    process = start("--store", "store", "-o", "out", "-j", "2", held=True)
    until(lambda: kept(tmp_path) >= 1)
    process.send_signal(number)
    _, told = process.communicate()
    assert process.returncode == 128 + number
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
