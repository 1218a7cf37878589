"""Files as they may be: with names that are no text, and on disks that are full."""

import errno
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import canned
import pagelab as package
from emulators import needs_recorder
from pagelab import _core, store
from pagelab.cli import trace
from pagelab.errors import PagelabError, UsageError
from pagelab.results import Comparison
from processes import PATIENCE

# No text in UTF-8.
ODD = os.fsdecode(b"nu\xff\xfe")
RESULT = ["report.html", "result.json", "result.parquet"]


def pagelab(
    *arguments: str, cwd: Path, stdout: int = subprocess.PIPE
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "pagelab", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        cwd=cwd,
        timeout=PATIENCE,
    )


def inside(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with such a name, with a trace in it."""
    made = tmp_path / ODD
    made.mkdir()
    (made / f"{ODD}.csv").write_text("S,10000000\nL,10001000\n")
    return made


def test_names_need_not_be_text(folder: Path) -> None:
    odd_trace, out = f"{ODD}/{ODD}.csv", f"{ODD}/out"
    done = pagelab(
        *("compare", "-q", "-d", "radix,ideal", "-m", "dpt-paper", "-t", odd_trace, "-o", out),
        cwd=folder.parent,
    )
    assert done.returncode == 0, done.stderr
    # The name itself, as the shell would have it.
    assert b"Report: nu\xff\xfe/out/report.html" in done.stdout
    assert inside(folder / "out") == RESULT
    again = pagelab("report", "-q", out, cwd=folder.parent)
    assert again.returncode == 0, again.stderr


def test_a_sweep_may_be_called_anything_and_its_traces_text(folder: Path) -> None:
    file = folder / f"{ODD}.toml"
    file.write_text('[vary]\ntrace = ["*.csv"]\n')
    refused = pagelab("sweep", "-q", f"{ODD}/{ODD}.toml", cwd=folder.parent)
    assert refused.returncode == 2
    assert b"is not text in UTF-8; give the trace another name, or a link" in refused.stderr
    file.write_text('[vary]\nworkload = ["pointer-chase:pages=100,loads=100"]\n')
    done = pagelab("sweep", "-q", f"{ODD}/{ODD}.toml", "-o", f"{ODD}/out", cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    assert b"Table: nu\xff\xfe/out/sweep.parquet" in done.stdout
    same = pagelab("diff", f"{ODD}/out", f"{ODD}/out", cwd=folder.parent)
    assert (same.returncode, same.stdout) == (0, b"no difference\n"), same.stderr


@needs_recorder
def test_a_program_whose_name_is_no_text_is_compared(folder: Path) -> None:
    program = folder / ODD
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    done = pagelab(
        *("compare", "-q", "-d", "radix", "--no-code", "--keep-trace", "-o", f"{ODD}/out"),
        *("--", str(program)),
        cwd=folder.parent,
    )
    assert done.returncode == 3, done.stderr
    assert inside(folder / "out") == [f"{ODD}.trace", *RESULT]


def test_what_has_to_be_text_is_said(folder: Path) -> None:
    done = pagelab("simulate", "-q", "-w", "stream", "-d", ODD, cwd=folder.parent)
    assert done.returncode == 2
    said = b"pagelab: nu\xff\xfe is not text in UTF-8; give it another name\n"
    assert done.stderr == said


def test_traces_of_any_name_are_looked_into_and_converted(folder: Path) -> None:
    given = f"{ODD}/{ODD}.csv"
    for command in (
        ("info", "--json", given),
        ("convert", "-q", given, f"{ODD}/{ODD}.trace"),
        ("cat", f"{ODD}/{ODD}.trace"),
        ("write", "-q", "-w", "pointer-chase:pages=9,loads=9", f"{ODD}/{ODD}.lackey"),
    ):
        done = pagelab("trace", *command, cwd=folder.parent)
        assert (done.returncode, done.stderr) == (0, b""), command
        if command[0] == "info":
            assert json.loads(done.stdout)["total"]["accesses"] == 2
        if command[0] == "cat":
            assert b"\nS,10000000," in done.stdout
    assert inside(folder) == [f"{ODD}.csv", f"{ODD}.lackey", f"{ODD}.trace"]
    missing = pagelab("trace", "info", f"{ODD}/none", cwd=folder.parent)
    assert missing.returncode == 1
    # As the system's error messages have it.
    assert "nu\N{REPLACEMENT CHARACTER}" in missing.stderr.decode()


@pytest.mark.parametrize(
    "arguments",
    [
        ("version",),
        ("list", "designs"),
        ("list", "designs", "--json"),
        ("simulate", "-q", "-d", "radix", "-w", "pointer-chase:pages=10,loads=100"),
        ("simulate", "-q", "-d", "radix", "-w", "pointer-chase:pages=10,loads=100", "--json"),
        ("compare", "-q", "-d", "radix", "-w", "pointer-chase:pages=10,loads=100", "-o", "out"),
    ],
)
def test_full_standard_output_is_a_message(arguments: tuple[str, ...], tmp_path: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        done = pagelab(*arguments, cwd=tmp_path, stdout=full)
    finally:
        os.close(full)
    assert done.returncode == 1
    said = b"pagelab: cannot write to standard output: No space left on device\n"
    assert done.stderr == said
    # A result that was asked for is there.
    if "out" in arguments:
        assert inside(tmp_path / "out") == RESULT


def fills_the_disk(path: Path, *_: object, **__: object) -> None:
    path.write_bytes(b"some of it")
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_leaves_no_part_of_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison = Comparison.model_validate(canned.comparison())
    (tmp_path / "result.json").write_text("the result of before")
    monkeypatch.setattr(Path, "write_text", fills_the_disk)
    with pytest.raises(PagelabError, match=r"cannot write .*result\.json: No space left"):
        comparison.save(tmp_path)
    assert inside(tmp_path) == ["result.json"]
    assert (tmp_path / "result.json").read_bytes() == b"the result of before"


CHASE = ("-d", "radix", "-w", "pointer-chase:pages=10,loads=100")


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "-d", "radix", "-o", "taken", "--", "touch", "ran"),
        ("simulate", *CHASE, "-o", "taken"),
        ("sweep", "s.toml", "-o", "taken/out"),
        ("reproduce", "dpt:fig13", "-o", "taken/out"),
        ("measure", "--quick", "-o", "taken"),
        ("measure", "--quick", "--emit-machine", "taken/mine"),
        ("sweep", "s.toml", "--store", "taken"),
        ("validate", "--quick", "-o", "taken/validate.html"),
    ],
)
def test_where_results_cannot_go_is_said_before_anything_runs(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("a file")
    (tmp_path / "s.toml").write_text('[vary]\nworkload = ["pointer-chase:pages=100,loads=100"]\n')
    done = pagelab(*command, cwd=tmp_path)
    assert done.returncode == 2
    # Nothing else: nothing was recorded, simulated or measured.
    [said] = done.stderr.splitlines()
    assert said.startswith(b"pagelab: cannot write results to taken")
    assert inside(tmp_path) == ["s.toml", "taken"]


@pytest.mark.parametrize("option", ["-o", "--store"])
def test_where_nobody_can_write_is_found_by_trying(option: str, tmp_path: Path) -> None:
    # Root may write to /proc, by its permissions.
    (tmp_path / "s.toml").write_text('[vary]\nworkload = ["pointer-chase:pages=100,loads=100"]\n')
    done = pagelab("sweep", "s.toml", option, "/proc/x", cwd=tmp_path)
    assert done.returncode == 2
    [said] = done.stderr.splitlines()
    assert said.startswith(
        b"pagelab: cannot write results to /proc/x: nothing can be written to /proc ("
    )
    assert inside(tmp_path) == ["s.toml"]


def test_a_full_disk_is_found_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Path("/dev/full").open("wb")  # noqa: SIM115
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: full)
    with pytest.raises(UsageError, match="No space left on device"):
        store.directory(tmp_path / "out", "sort")
    assert inside(tmp_path) == []


@needs_recorder
@pytest.mark.parametrize("command", ["compare", "record"])
def test_what_fails_in_pagelab_itself_is_not_taken_for_the_program(
    command: str, tmp_path: Path
) -> None:
    # In the way of the result.
    (tmp_path / "out" / "result.json").mkdir(parents=True)
    program = ("--", "sh", "-c", "exit 1")
    if command == "compare":
        done = pagelab(command, "-q", "-d", "radix", "-o", "out", *program, cwd=tmp_path)
        assert done.stderr == b"pagelab: cannot write out/result.json: Is a directory\n"
    else:
        done = pagelab(command, "-q", "-o", "out", *program, cwd=tmp_path)
    assert done.returncode == 125
    with Path("/dev/full").open("wb") as full:
        done = pagelab(
            *("record", "--json", "-o", "t", *program), cwd=tmp_path, stdout=full.fileno()
        )
    assert done.returncode == 125, done.stderr


@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_what_cannot_be_kept_is_shown(command: str, tmp_path: Path) -> None:
    # In the way of the result.
    (tmp_path / "out" / "result.json").mkdir(parents=True)
    done = pagelab(command, "-q", *CHASE, "-o", "out", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == b"pagelab: cannot write out/result.json: Is a directory\n"
    assert b"Translation costs this program" in done.stdout
    assert b"Report" not in done.stdout
    assert b"Saved" not in done.stdout
    done = pagelab(command, "-q", "--json", *CHASE, "-o", "out", cwd=tmp_path)
    assert done.returncode == 1
    assert json.loads(done.stdout)["schema"].startswith("pagelab.")


def test_from_python_too_it_is_said_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(UsageError, match=r"cannot write results to .*: .*taken is no directory"):
        package.compare(["touch", str(tmp_path / "ran")], ["radix"], out=tmp_path / "taken" / "x")
    assert inside(tmp_path) == ["taken"]


@pytest.mark.parametrize("ended", [PagelabError, KeyboardInterrupt])
def test_an_empty_directory_is_taken_away_however_it_ends(
    ended: type[BaseException], tmp_path: Path
) -> None:
    out = store.directory(tmp_path / "out", "sort")
    with pytest.raises(ended, match="why"), store.nothing_left_of(out):
        raise ended("why")
    assert not out.exists()
    # What is in it stays.
    (store.directory(out, "sort") / "sort.trace").touch()
    with pytest.raises(ended, match="why"), store.nothing_left_of(out):
        raise ended("why")
    assert inside(out) == ["sort.trace"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("simulate", "-m", "dpt-paper", "--trace", "t.trace", "-d", "radix"),
        ("compare", "-m", "dpt-paper", "--trace", "t.trace", "-d", "radix"),
        ("trace", "convert", "t.trace", "t.csv"),
    ],
)
def test_a_trace_without_its_end_is_told_of(arguments: tuple[str, ...], tmp_path: Path) -> None:
    chase = "pointer-chase:pages=100,loads=1000"
    assert pagelab("trace", "write", "-w", chase, "t.trace", cwd=tmp_path).returncode == 0
    whole = pagelab(*arguments, cwd=tmp_path)
    assert whole.returncode == 0
    assert b"cut off" not in whole.stderr
    trace_file = tmp_path / "t.trace"
    # Nothing else is missing.
    trace_file.write_bytes(trace_file.read_bytes()[:-16])
    cut = pagelab(*arguments, cwd=tmp_path)
    assert cut.returncode == 0
    assert b"t.trace was cut off, or its recording never finished" in cut.stderr


def test_a_conversion_leaves_no_empty_file(tmp_path: Path) -> None:
    def fails(file: Path, text: str) -> None:
        file.write_text(text)
        raise _core.Error

    for name, text in (("made", ""), ("part", "L,1000\n")):
        with pytest.raises(_core.Error), trace._nothing_empty(tmp_path / name):
            fails(tmp_path / name, text)
    for other in (tmp_path / "missing", Path("/dev/null")):
        with pytest.raises(_core.Error), trace._nothing_empty(other):
            raise _core.Error
    assert inside(tmp_path) == ["part"]


@pytest.mark.parametrize("name", ["x.csv", "x.lackey", "x.trace"])
def test_a_conversion_that_cannot_be_written_leaves_no_cut_file(name: str, tmp_path: Path) -> None:
    lines = (f"L,{random.getrandbits(44):x},8,{random.getrandbits(16)}" for _ in range(20_000))
    (tmp_path / "t.csv").write_text("\n".join(lines))
    (tmp_path / "link").symlink_to("/dev/full")
    limit = ("prlimit", "--fsize=65536", sys.executable, "-m", "pagelab", "trace", "convert")
    done = subprocess.run([*limit, "t.csv", name], cwd=tmp_path, capture_output=True)
    assert done.returncode == 1
    assert done.stderr.decode().startswith(f"pagelab: cannot write {name}: File too large")
    full = pagelab("trace", "convert", "t.csv", "link", cwd=tmp_path)
    assert b"No space left" in full.stderr
    # What is no file stays.
    assert inside(tmp_path) == ["link", "t.csv"]


def test_another_tools_text_is_named_and_what_was_passed_over_is_counted(tmp_path: Path) -> None:
    (tmp_path / "r.trace").write_text("3 20734016\n1 20846400\n")
    done = pagelab("trace", "info", "r.trace", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"r.trace: a trace of Ramulator, not a trace that can be read" in done.stderr
    (tmp_path / "l").write_text("==7== Lackey\nI  1000,3\n L 2000,8\nHello\n")
    done = pagelab("trace", "info", "l", cwd=tmp_path)
    assert done.returncode == 0
    assert "1 lines that are not Lackey's" in done.stdout.decode()


def test_a_conversion_of_nothing_leaves_what_was_there(tmp_path: Path) -> None:
    for name, text in (("empty.csv", ""), ("full.csv", "L,1000\n")):
        (tmp_path / name).write_text(text)
        done = pagelab("trace", "convert", "nonexist", name, cwd=tmp_path)
        assert done.returncode == 1
        assert (tmp_path / name).read_text() == text


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x.csv", "2 accesses in x.csv, CSV ("),
        ("x.lackey", "2 accesses in x.lackey, Lackey's format ("),
        ("x.trace", "2 accesses in x.trace, pagelab's format ("),
        # The last ending counts, and it is said.
        ("x.champsim.trace", "2 accesses in x.champsim.trace, pagelab's format ("),
    ],
)
def test_what_is_written_is_said(name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("S,10000000\nL,10001000\n")
    done = pagelab("trace", "convert", "t.csv", name, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr.decode().startswith(said)


@pytest.mark.parametrize(
    "name", ["x.csv.gz", "x.trace.xz", "x.lackey.bz2", "x.champsim.zst", "x.gz"]
)
def test_a_name_that_asks_for_what_is_not_written_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("S,10000000\nL,10001000\n")
    done = pagelab("trace", "convert", "t.csv", name, cwd=tmp_path)
    assert done.returncode == 2
    assert f"leave out {Path(name).suffix}" in done.stderr.decode()
    chase = ("trace", "write", "-w", "pointer-chase:pages=10,loads=100")
    assert pagelab(*chase, name, cwd=tmp_path).returncode == 2
    refused = pagelab(*chase, "x.champsim.gz", cwd=tmp_path)
    assert refused.returncode == 2
    assert b"pagelab trace convert" in refused.stderr
    assert inside(tmp_path) == ["t.csv"]
