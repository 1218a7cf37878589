"""Recordings of real programs, as a user makes them."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from commands import command, pagelab, result, simulated, without_host
from emulators import needs_recorder
from processes import PATIENCE, until


# /dev/full takes the file to be opened and nothing to be written.
@pytest.mark.parametrize(
    ("file", "why"), [("/dev/full", "No space left"), ("missing/t", "missing/t")]
)
@needs_recorder
def test_a_trace_that_cannot_be_written_is_an_error(file: str, why: str, tmp_path: Path) -> None:
    done = pagelab("record", "-o", file, "--", "true", cwd=tmp_path)
    assert done.returncode == 125
    assert why in done.stderr


@needs_recorder
def test_recording_and_simulating_apart_is_comparing(tmp_path: Path) -> None:
    assert pagelab("record", "-o", "t", "--", "true", cwd=tmp_path).returncode == 0
    assert (
        pagelab(
            "compare",
            "-q",
            "--no-heat-map",
            "-m",
            "dpt-paper",
            "-t",
            "t",
            "--out",
            "o",
            cwd=tmp_path,
        ).returncode
        == 0
    )
    for run in result(tmp_path / "o")["runs"]:
        alone = simulated(tmp_path, "-d", run["design"], "-m", "dpt-paper", "-t", "t")
        assert without_host(alone) == without_host(run)


@needs_recorder
def test_a_part_of_a_trace_is_as_long_as_asked(tmp_path: Path) -> None:
    pagelab("record", "-o", "t", "--", "true", cwd=tmp_path)
    run = simulated(
        tmp_path, "-d", "radix", "-m", "dpt-paper", "-t", "t", "--skip", "1500", "--limit", "2000"
    )
    assert run["accesses"] == 2000
    assert run["skipped_instructions"] >= 1500


@needs_recorder
def test_rights_that_a_program_does_not_get_are_said(tmp_path: Path) -> None:
    """The kernel gives a traced or emulated program no other user's rights."""
    shutil.copy("/bin/true", tmp_path / "other")
    others = os.geteuid() + 1
    try:
        os.chown(tmp_path / "other", others, -1)
    except PermissionError:
        pytest.skip("only root makes files of other users")
    (tmp_path / "other").chmod(0o4755)
    done = pagelab("record", "-o", "t", "--", "./other", cwd=tmp_path)
    assert "./other is set-user-ID" in done.stderr
    os.chown(tmp_path / "other", os.geteuid(), -1)
    (tmp_path / "other").chmod(0o4755)
    done = pagelab("record", "-o", "t", "--", "./other", cwd=tmp_path)
    assert "set-user-ID" not in done.stderr


@needs_recorder
@pytest.mark.parametrize(
    ("program", "status", "words"),
    [
        (["/nowhere/prog"], 127, "cannot run /nowhere/prog"),
        (["no-such-program-anywhere"], 127, "not in PATH"),
        (["2M"], 127, "--pages 4K,2M"),
        (["./text"], 126, "text"),
        (["/tmp"], 126, "is a directory"),
        ([""], 127, "cannot run ''"),
        (["sh", "-c", "kill -TERM $$"], 143, "SIGTERM"),
        (["sh", "-c", "exit 42"], 42, "42"),
    ],
)
def test_exit_codes_are_those_of_env(
    program: list[str], status: int, words: str, tmp_path: Path
) -> None:
    text = tmp_path / "text"
    text.write_text("this is no program\n")
    text.chmod(0o755)
    done = pagelab("record", "-o", "t", "--", *program, cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@needs_recorder
def test_a_trace_does_not_take_the_place_of_its_program(tmp_path: Path) -> None:
    program = tmp_path / "program"
    text = "#!/bin/sh\nexit 3\n"
    program.write_text(text)
    program.chmod(0o755)
    done = pagelab("record", "-o", "program", "--", "./program", cwd=tmp_path)
    assert done.returncode == 125
    assert "it is the program" in done.stderr
    assert program.read_text() == text


@needs_recorder
def test_what_a_program_leaves_behind_can_be_stopped(tmp_path: Path) -> None:
    script = "(trap 'echo told; exit' TERM; echo ready; while :; do sleep 0.1; done) & exit 3"
    with subprocess.Popen(
        command("record", "--quiet", "-o", "t", "--", "sh", "-c", script),
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        # Until the program itself has ended, it is the program's.
        threads = Path(f"/proc/{process.pid}/task")
        until(lambda: not any(file.read_text() for file in threads.glob("*/children")))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 3
        assert process.stdout.read() == "told\n"


@needs_recorder
def test_a_trace_can_be_made_when_the_program_has_ended(tmp_path: Path) -> None:
    program = ["sh", "-c", "exit 3"]
    done = pagelab("record", "--defer", "-o", "t", "--", *program, cwd=tmp_path)
    assert done.returncode == 3
    assert "the program had ended after" in " ".join(done.stderr.split())
    assert [path.name for path in tmp_path.iterdir()] == ["t"]
    done = pagelab("record", "--defer", "--keep-words", "-o", "t", "--", *program, cwd=tmp_path)
    made = (tmp_path / "t").read_bytes()
    (tmp_path / "t").unlink()
    done = pagelab("trace", "finish", "t.words", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert (outcome["exit_status"], outcome["incomplete"], outcome["words"]) == (3, None, None)
    assert (tmp_path / "t").read_bytes() == made
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


@needs_recorder
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["record", "--keep-words", "-o", "t", "--", "true"], "--defer"),
        (["record", "--defer", "-o", "/dev/null", "--", "true"], "/dev/null is no file"),
        (["trace", "finish", "other"], "--out"),
        (["trace", "finish", "missing.words"], "missing.words"),
        (["trace", "finish", "text.words"], "holds no recorded words"),
    ],
)
def test_words_that_are_none_are_explained(arguments: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "text.words").write_text("these are no words of a program")
    done = pagelab(*arguments, cwd=tmp_path)
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "text.words").exists()
