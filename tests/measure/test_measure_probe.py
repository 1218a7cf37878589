"""The real probe: its output, its errors, and that it leaves the machine as it was."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pagelab.errors import PagelabError
from pagelab.measuring import probe
from processes import alive, until

THP = Path("/sys/kernel/mm/transparent_hugepage")


@pytest.fixture(scope="module")
def binary() -> Path:
    try:
        return probe.find()
    except PagelabError as error:
        pytest.skip(str(error))


def test_one_part_gives_one_json_object(binary: Path) -> None:
    lines: list[str] = []
    measurement = probe.run("syscalls", lines.append, quick=True, seed=5)
    assert measurement.seed == 5
    assert list(measurement.parts) == ["syscalls"]
    rows = measurement.parts["syscalls"]["by_size"]
    assert {row["pages"] for row in rows} == {1, 2, 8, 32, 128}
    assert any(line.startswith("syscalls: ") for line in lines)


def test_what_a_core_looks_ahead_is_within_what_was_tried(binary: Path) -> None:
    window = probe.run("window", lambda line: None, quick=True).parts["window"]
    for found in (window["additions"], window["integers"], window["stores"]):
        assert len(found["ns"]) == len(found["x"])
        if (steps := found["together_and_apart"]) is not None:
            half, whole = steps["smaller"], steps["larger"]
            assert found["x"][0] <= half[0] < half[1] <= whole[1] <= found["x"][-1]


def test_calls_are_counted_as_strace_counts_them(binary: Path, tmp_path: Path) -> None:
    """A program that maps a known number of regions of a size that nothing else maps."""
    script = tmp_path / "maps.py"
    script.write_text(
        "import mmap\nkept = [mmap.mmap(-1, 77 << 20) for _ in range(13)]\n",
        encoding="utf-8",
    )
    base = tmp_path / "none.py"
    base.write_text("import mmap\n", encoding="utf-8")
    counted = []
    for file in (script, base):
        measurement = probe.run(
            "calls", lambda line: None, program=["python3", "-S", "-B", str(file)]
        )
        counted.append(measurement.parts["calls"])
    more = {key: counted[0][key] - counted[1][key] for key in ("mmap", "mmap_anonymous_bytes")}
    # The interpreter itself may map an arena more.
    assert 13 <= more["mmap"] <= 16
    assert 0 <= more["mmap_anonymous_bytes"] - 13 * (77 << 20) <= 4 << 20


def test_a_program_that_does_not_exist_is_named(binary: Path) -> None:
    measurement = probe.run("calls", lambda line: None, program=["/nonexistent/program"])
    assert [left.part for left in measurement.not_done] == ["calls"]
    assert "/nonexistent/program did not start" in measurement.not_done[0].why


def test_an_unwritable_output_is_an_error(binary: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [str(binary), "syscalls", "--quick"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "cannot write the result: No space left on device" in done.stderr


def settings() -> dict[str, str]:
    return {str(file): file.read_text() for file in sorted(THP.glob("hugepages-*/enabled"))}


@pytest.mark.skipif(os.geteuid() != 0, reason="changing settings needs root")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_settings_are_restored_however_it_ends(binary: Path, sent: signal.Signals) -> None:
    before = settings()
    if not before:
        pytest.skip("this kernel has no folio sizes to choose")
    command = [str(binary), "folios", "--allow-tuning"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: settings() != before)
    finally:
        process.send_signal(sent)
        process.wait()
    # The guard is another process, which restores after the probe has gone.
    until(lambda: settings() == before)


@pytest.mark.skipif(os.geteuid() != 0, reason="changing settings needs root")
def test_settings_are_restored_when_pagelab_itself_is_killed(binary: Path) -> None:
    before = settings()
    if not before:
        pytest.skip("this kernel has no folio sizes to choose")
    script = "from pagelab.measuring import probe; probe.run('folios', print, allow_tuning=True)"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.DEVNULL)
    try:
        until(lambda: settings() != before)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    finally:
        process.kill()
        process.wait()
    until(lambda: settings() == before)
    # The measurement has not gone on to its end.
    until(lambda: not any(alive(int(pid)) for pid in children))


def test_a_probe_whose_parent_has_ended_does_nothing(binary: Path) -> None:
    """As it is where pagelab ends before its probe has told the kernel that it is to end then."""
    command = [str(binary), "syscalls", "--quick", f"--end-with-parent={os.getppid()}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the process that started this one has ended" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="the journal directory is root's")
def test_a_journal_left_behind_is_undone_by_the_next_run(binary: Path, tmp_path: Path) -> None:
    changed = tmp_path / "setting"
    changed.write_text("new")
    directory = Path("/run/pagelab-probe-0")
    directory.mkdir(mode=0o700, exist_ok=True)
    # No process has this number: it is above the kernel's limit.
    journal = directory / "99999999.journal"
    undo = {"Write": {"path": str(changed), "text": "old"}}
    journal.write_text(json.dumps(undo) + '\n{"Write": {"pa')
    subprocess.run([str(binary), "restore"], check=True, stderr=subprocess.DEVNULL)
    assert changed.read_text() == "old"
    assert not journal.exists()


def test_nothing_is_changed_without_leave(binary: Path) -> None:
    before = settings()
    measurement = probe.run("folios", lambda line: None, quick=True)
    assert settings() == before
    if len(before) > 1:
        assert any("--allow-tuning" in left.why for left in measurement.not_done)
