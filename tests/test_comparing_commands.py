"""Comparisons of real programs, as a user makes them."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from commands import command, interrupted, pagelab, result
from emulators import needs_recorder
from pagelab.results import load
from processes import PATIENCE


@needs_recorder
def test_a_recorded_program_warms_up_too(tmp_path: Path) -> None:
    done = pagelab(
        *("compare", "-q", "-d", "radix", "--warm-up", "700", "--out", "o", "--", "true"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    [run] = result(tmp_path / "o")["runs"]
    assert run["warm_up_accesses"] == 700


@needs_recorder
def test_a_program_keeps_its_output_and_status(tmp_path: Path) -> None:
    done = pagelab(
        *("compare", "--out", "out", "--keep-trace", "--", "sh", "-c"),
        "read line; echo $line; echo err >&2; exit 3",
        cwd=tmp_path,
    )
    assert done.returncode == 3
    assert "err\n" in done.stderr
    assert "Report: out/report.html" in done.stdout
    comparison = result(tmp_path / "out")
    assert comparison["command"][0] == "sh"
    assert comparison["recording"]["exit_status"] == 3
    counts = {run["accesses"] for run in comparison["runs"]}
    assert counts == {comparison["recording"]["accesses"]}
    assert all(run["complete"] for run in comparison["runs"])
    info = json.loads(pagelab("trace", "info", "--json", "out/sh.trace", cwd=tmp_path).stdout)
    assert {info["total"]["accesses"]} == counts
    assert info["complete"] is True


@needs_recorder
def test_json_is_all_there_is_on_standard_output(tmp_path: Path) -> None:
    done = pagelab("compare", "--json", "-q", "--out", "o", "--", "echo", "hello", cwd=tmp_path)
    assert json.loads(done.stdout)["schema"] == "pagelab.comparison/2"
    assert "hello\n" in done.stderr


@needs_recorder
def test_arguments_need_not_be_text(tmp_path: Path) -> None:
    arguments: list[str | bytes] = [*command("compare", "-q", "--out", "o", "--", "printf")]
    arguments.append(b"a\xffb")
    done = subprocess.run(arguments, capture_output=True, cwd=tmp_path, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"a\xffb")
    assert result(tmp_path / "o")["command"] == ["printf", "a\N{REPLACEMENT CHARACTER}b"]


@needs_recorder
def test_ctrl_c_while_recording_compares_what_there_is(tmp_path: Path) -> None:
    status, stdout, stderr = interrupted(
        tmp_path,
        "recording",
        *("compare", "-d", "ideal", "--out", "out", "--", "sh", "-c", "while :; do :; done"),
    )
    assert status == 128 + signal.SIGINT, stderr
    assert "ended by SIGINT" in stdout
    comparison = result(tmp_path / "out")
    assert comparison["recording"]["signal"] == signal.SIGINT
    assert all(
        0 < run["accesses"] <= comparison["recording"]["accesses"] for run in comparison["runs"]
    )
    assert (tmp_path / "out" / "report.html").exists()


@needs_recorder
def test_a_program_that_does_not_end_is_ended_after_a_time(tmp_path: Path) -> None:
    done = pagelab(
        *("compare", "-q", "-d", "radix", "--time", "2", "--out", "o", "--"),
        *("sh", "-c", "while :; do :; done"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "The program was ended after 2.0 s; this speaks" in done.stdout
    assert result(tmp_path / "o")["recording"]["ended_after"] == 2.0


@needs_recorder
def test_for_operating_systems_all_of_a_program_is_recorded(tmp_path: Path) -> None:
    for name, system, limit in (("one", ("--os", "linux-6.12"), 500_000_000), ("other", (), None)):
        options = ("-q", "-d", "radix", *system, "--out", name)
        done = pagelab("compare", *options, "--", "true", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert result(tmp_path / name)["recording"]["window"]["limit"] == limit


@needs_recorder
def test_of_a_long_program_pieces_are_taken_that_stand_for_all(tmp_path: Path) -> None:
    # Each round touches as many pages; some 250 million accesses.
    script = "a = bytearray(1 << 24)\nfor _ in range(128): sum(a[::256])"
    program = (sys.executable, "-c", script)
    to_the_end = ("--precision", "0", "--time", "inf")
    for name, option in (("part", to_the_end), ("all", ("--full",))):
        done = pagelab(
            *("compare", "-q", "-m", "zen4", "-d", "radix,ideal", *option, "--out", name),
            *("--", *program),
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
    part, whole = (load(tmp_path / name) for name in ("part", "all"))
    sampled, run = part.runs[0], whole.runs[0]
    assert sampled.sample is not None
    assert run.accesses / 2 < sampled.accesses < run.accesses * 0.95
    assert sampled.sample.instructions == pytest.approx(run.instructions, rel=0.01)
    assert sampled.os.faults == pytest.approx(run.os.faults, rel=0.01)
    assert sampled.elapsed == pytest.approx(run.elapsed, rel=0.1)


@needs_recorder
def test_sigterm_leaves_an_answer_whatever_the_program_makes_of_it(tmp_path: Path) -> None:
    script = "trap 'exit 7' TERM; echo ready; while :; do :; done"
    arguments = ("compare", "-q", "-d", "radix,ideal", "-o", "out", "--", "sh", "-c", script)
    with subprocess.Popen(
        command(*arguments), stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        # As timeout(1) does, which sends one to the group, too.
        for _ in range(2):
            process.send_signal(signal.SIGTERM)
        said = process.stdout.read()
    comparison = result(tmp_path / "out")
    assert comparison["recording"]["ended_by"] == signal.SIGTERM
    # On a slow machine not all of it has been simulated.
    assert process.returncode == (128 + signal.SIGTERM if comparison["interrupted"] else 7)
    kept = (tmp_path / "out" / "sh.trace").exists()
    assert kept == comparison["interrupted"] == ("All of it: pagelab compare --trace" in said)
    assert kept == ("% of what was recorded" in " ".join(said.split()))
