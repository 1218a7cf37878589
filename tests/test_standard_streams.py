"""Standard input, output and error as they may be: closed, broken, not in UTF-8, of no width."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import canned
from processes import PATIENCE

CHASE = ("-q", "-d", "radix,ideal", "-w", "pointer-chase:pages=10,loads=100", "-o", "out")


def pagelab(
    *arguments: str, cwd: Path, after: str = "", **variables: str
) -> subprocess.CompletedProcess[bytes]:
    """The command, with what a shell does to it `after` its arguments."""
    return subprocess.run(
        ["bash", "-c", f'"$@" {after}', "bash", sys.executable, "-m", "pagelab", *arguments],
        capture_output=True,
        cwd=cwd,
        env=os.environ | variables,
        timeout=PATIENCE,
    )


@pytest.fixture
def result(tmp_path: Path) -> Path:
    """A folder with a result."""
    folder = tmp_path / "result"
    folder.mkdir()
    (folder / "result.json").write_text(json.dumps(canned.comparison()))
    return folder


@pytest.mark.parametrize("columns", ["0", "00", ""])
def test_no_width_is_one_that_is_not_known(columns: str, result: Path) -> None:
    for command in (("list", "designs"), ("report", str(result)), ("trace", "--help")):
        narrow = pagelab(*command, cwd=result, COLUMNS=columns)
        unknown = pagelab(*command, cwd=result, COLUMNS="80")
        assert narrow.returncode == 0, narrow.stderr
        assert narrow.stdout == unknown.stdout


def test_output_need_not_be_in_utf_8(tmp_path: Path) -> None:
    for encoding in ("ascii", "latin-1"):
        done = pagelab("compare", *CHASE, cwd=tmp_path, PYTHONIOENCODING=encoding)
        assert done.returncode == 0, done.stderr
        # The dash of a design that has no walks.
        assert b"\\u2013" in done.stdout
    # A letter that is not in it, and a byte that is no text in UTF-8.
    odd = os.fsdecode("\N{LATIN SMALL LETTER A WITH MACRON}".encode() + b"\xff")
    (tmp_path / f"{odd}.csv").write_text("L,1000\n")
    traced = ("compare", "-q", "-d", "radix", "-t", f"{odd}.csv", "-o", odd)
    done = pagelab(*traced, cwd=tmp_path, PYTHONIOENCODING="latin-1")
    assert done.returncode == 0, done.stderr
    assert b"Report: \\u0101\xff/report.html" in done.stdout
    done = pagelab(*traced, "--json", cwd=tmp_path, PYTHONIOENCODING="latin-1")
    # JSON stays JSON.
    name = "\N{LATIN SMALL LETTER A WITH MACRON}\N{REPLACEMENT CHARACTER}"
    assert json.loads(done.stdout)["name"] == name


def test_closed_output_is_one_message_and_the_result_is_there(tmp_path: Path) -> None:
    done = pagelab("compare", *CHASE, cwd=tmp_path, after=">&-")
    assert done.returncode == 1
    assert done.stderr == b"pagelab: cannot write to standard output: Bad file descriptor\n"
    assert (tmp_path / "out" / "report.html").stat().st_size
    # Where nothing is printed nothing is wrong.
    written = ("trace", "write", "-q", "-w", "pointer-chase:pages=10,loads=100", "t")
    assert pagelab(*written, cwd=tmp_path, after=">&-").returncode == 0


def test_what_is_said_to_closed_error_is_not_in_output(tmp_path: Path) -> None:
    loud = ("compare", *CHASE[1:], "--json")
    done = pagelab(*loud, cwd=tmp_path, after="2>&-")
    assert done.returncode == 0
    assert json.loads(done.stdout)["runs"]
    refused = pagelab("compare", "-d", "nope", cwd=tmp_path, after="2>&-")
    assert (refused.returncode, refused.stdout) == (2, b"")


def test_no_file_is_opened_in_place_of_a_closed_stream(tmp_path: Path) -> None:
    done = pagelab("compare", *CHASE, cwd=tmp_path, after="<&- >&- 2>&-")
    assert done.returncode == 1
    # What was printed is in none of them.
    json.loads((tmp_path / "out" / "result.json").read_text())


@pytest.mark.parametrize(
    "arguments",
    [("list", "designs"), ("list", "designs", "--json"), ("--help",), ("trace", "--help")],
)
def test_a_reader_that_has_seen_enough_is_no_failure(arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(
        [sys.executable, "-m", "pagelab", *arguments], stdout=writing, stderr=subprocess.PIPE
    ) as process:
        os.close(writing)
        _, said = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said) == (141, b"")
