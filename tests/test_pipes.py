"""Traces that can be read only once: each design sees all of one, or there is no comparison."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import canned
import pagelab
from pagelab import growth, readable
from pagelab.errors import PagelabError
from pagelab.jobs import Stop
from pagelab.results import Failure, Run
from processes import PATIENCE

PAGELAB = (sys.executable, "-m", "pagelab")
ACCESSES = 80_000
# More than a pipe holds, so that several readers of one would share it.
TEXT = "".join(f"L,{0x10000000 + 4096 * (at % 100):011x}\n" for at in range(ACCESSES))
QUICK = ("-q", "--json", "--set", "memory.memory_bytes=64MiB")
FROM_PIPE = ("-m", "dpt-paper", "-t", "/dev/stdin")
COMPARE = ("compare", "-d", "radix,dpt", "--out", "out", *FROM_PIPE)


def piped(
    *arguments: str, cwd: Path, text: bytes = TEXT.encode()
) -> subprocess.CompletedProcess[bytes]:
    """A command whose standard input is a pipe with a trace; its temporary files are in `cwd`."""
    return subprocess.run(
        [*PAGELAB, *arguments],
        input=text,
        capture_output=True,
        cwd=cwd,
        env=os.environ | {"TMPDIR": str(cwd)},
        timeout=PATIENCE,
    )


def test_each_design_sees_all_that_came_through_a_pipe(tmp_path: Path) -> None:
    designs = ("compare", "-d", "radix,dpt,ideal", "--out", "out")
    done = piped(*designs, *QUICK, *FROM_PIPE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    assert [run["accesses"] for run in runs] == [ACCESSES] * 3
    # It is called what it was called on the command line.
    assert {run["source"]["path"] for run in runs} == {"/dev/stdin"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_programs_that_read_one_pipe_each_see_all_of_it(tmp_path: Path) -> None:
    copies = ("simulate", "-d", "radix", "--copies", "2")
    done = piped(*copies, *QUICK, *FROM_PIPE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    cores = json.loads(done.stdout)["per_core"]
    assert [core["accesses"] for core in cores] == [ACCESSES] * 2
    assert list(tmp_path.iterdir()) == []


def test_a_named_pipe_is_a_pipe(tmp_path: Path) -> None:
    fifo = tmp_path / "trace.fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_text, args=(TEXT,), daemon=True)
    writer.start()
    comparison = pagelab.compare(fifo, ["radix", "ideal"], machine="dpt-paper")
    assert [run.accesses for run in comparison.runs] == [ACCESSES] * 2


def test_one_design_reads_a_pipe_as_it_comes(tmp_path: Path) -> None:
    # Without an end that it waits for, and without a file for it.
    with subprocess.Popen(
        [*PAGELAB, "simulate", "-d", "radix", *QUICK, *FROM_PIPE, "--limit", "1000"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(TEXT.encode()[: 1 << 16])
        process.stdin.flush()
        run = json.loads(process.stdout.read())
        process.stdin.close()
    assert (process.returncode, run["accesses"]) == (0, 1000)


def test_a_pipe_is_not_begun_again_with_more_memory(tmp_path: Path) -> None:
    pages = "".join(f"S,{0x700000000000 + 4096 * page:x}\n" for page in range(100_000))
    scarce = ("--set", "memory.utilisation=0.99", *FROM_PIPE)
    done = piped(
        "simulate", "-q", "--json", "-d", "radix", *scarce, cwd=tmp_path, text=pages.encode()
    )
    assert done.returncode == 1
    assert "radix ended after" in done.stderr.decode()
    assert 0 < json.loads(done.stdout)["accesses"] < 100_000


def test_a_mistake_in_a_pipe_is_where_the_user_put_it(tmp_path: Path) -> None:
    done = piped(*COMPARE, *QUICK, cwd=tmp_path, text=b"L,1000\nX,2000\n")
    assert done.returncode == 1
    assert "/dev/stdin: line 2: found" in done.stderr.decode()


def test_pagelabs_own_trace_in_a_pipe_is_refused_in_words(tmp_path: Path) -> None:
    written = ("trace", "write", "-q", "-w", "pointer-chase:pages=10,loads=100", "t")
    assert piped(*written, cwd=tmp_path).returncode == 0
    trace = (tmp_path / "t").read_bytes()
    one = ("simulate", "-d", "radix", *QUICK, *FROM_PIPE)
    done = piped(*one, cwd=tmp_path, text=trace)
    assert done.returncode == 1
    assert "give the file itself" in done.stderr.decode()
    # What several designs read is in a file.
    done = piped(*COMPARE, *QUICK, cwd=tmp_path, text=trace)
    assert done.returncode == 0, done.stderr
    assert [run["accesses"] for run in json.loads(done.stdout)["runs"]] == [100] * 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_of_a_pipe_that_was_interrupted(
    number: signal.Signals, tmp_path: Path
) -> None:
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip(f"{number.name} is ignored here, and by what is started")
    with subprocess.Popen(
        [*PAGELAB, *COMPARE, "-q"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        # All of it is in the copy, whose end is not there yet.
        process.stdin.write(TEXT.encode())
        process.stdin.flush()
        while not any(copy.stat().st_size for copy in tmp_path.glob("pagelab-*/0/stdin")):
            assert process.poll() is None
        process.send_signal(number)
        assert process.wait(PATIENCE) == 128 + number
        assert process.stderr.read() == b"pagelab: interrupted while /dev/stdin was read\n"
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_under_the_copy_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo = tmp_path / "trace.fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_text, args=("L,1000\n",), daemon=True)
    writer.start()
    with pytest.raises(PagelabError, match=r"cannot copy .*trace\.fifo.*No space left.*TMPDIR"):
        readable._copy(str(fifo), Path("/dev/full"), Stop())


def test_designs_that_saw_different_accesses_are_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def simulate_all(work: list[Any], *_: Any) -> tuple[list[Run | Failure], list[str]]:
        runs = [canned.run("radix"), canned.run("dpt")]
        runs[1]["accesses"] -= 1
        return [Run.model_validate(run) for run in runs], []

    monkeypatch.setattr(growth, "simulate_all", simulate_all)
    with pytest.raises(PagelabError, match=r"an error in pagelab: .*radix [\d,]+, dpt [\d,]+"):
        pagelab.compare(pagelab.workloads.stream(), ["radix", "dpt"])


def test_a_design_without_a_result_is_an_error(tmp_path: Path) -> None:
    # Its host has less memory than the guest.
    nested = "nested-radix:nested.host_memory_bytes=8MiB"
    chase = ("compare", "-q", "-w", "pointer-chase:pages=10,loads=100", "--out", "out")
    done = piped(*chase, "-d", f"radix,{nested}", cwd=tmp_path)
    assert done.returncode == 1
    assert f"{nested} has no result: " in done.stderr.decode()
    # What there is of the others is shown and kept.
    assert "radix" in done.stdout.decode()
    assert (tmp_path / "out" / "report.html").exists()
