"""The command line as a user meets it: help, names, mistakes, exit codes."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import canned

COMMANDS = [
    "compare",
    "record",
    "simulate",
    "trace info",
    "trace cat",
    "trace convert",
    "trace write",
    "list",
    "report",
    "doctor",
    "version",
]


def pagelab(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pagelab", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=120,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str) -> None:
    done = pagelab(*command.split(), "--help")
    assert done.returncode == 0
    assert f"Example:  pagelab {command}" in " ".join(done.stdout.split("\n"))


def test_the_version_is_printed_either_way() -> None:
    assert pagelab("version").stdout == pagelab("--version").stdout
    assert pagelab("version").stdout.startswith("pagelab 0.")


@pytest.mark.parametrize("kind", ["designs", "machines", "workloads", "managers"])
def test_lists_have_a_description_for_every_name(kind: str) -> None:
    entries = json.loads(pagelab("list", kind, "--json").stdout)
    text = pagelab("list", kind).stdout
    for entry in entries:
        assert entry["description"]
        assert entry["name"] in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compare", "-d", "radx", "-w", "pointer-chase"], ["radx", "mean 'radix'", "ideal"]),
        (["compare", "-w", "pointer-chas"], ["pointer-chas", "'pointer-chase'", "random-updates"]),
        (["compare", "-m", "dpt-papr", "-w", "pointer-chase"], ["dpt-paper", "skylake-sp"]),
        (
            ["simulate", "-d", "radix", "-w", "pointer-chase", "--set", "tlb.l2_cycle=9"],
            ["l2_cycle", "did you mean l2_cycles"],
        ),
        (
            ["simulate", "-d", "radix", "-w", "pointer-chase", "--manager", "interleav"],
            ["interleav", "'interleave'", "tiered"],
        ),
        (["list", "design"], ["design", "'designs'"]),
        (["compare"], ["-- PROGRAM", "--trace", "--workload"]),
        (["compare", "--trace", "t", "--", "ls"], ["give one of"]),
        (["compare", "--trace", "missing.trace"], ["there is no trace missing.trace"]),
        (["record", "-o", "t", "--limit", "many", "--", "true"], ["many", "10M"]),
        (["record", "-o", "t", "--sample", "5:1", "--", "true"], ["5:1", "PERIOD"]),
        (["comprae"], ["comprae", "compare"]),
    ],
)
def test_a_mistake_is_named_with_what_would_be_right(
    arguments: list[str], words: list[str], tmp_path: Path
) -> None:
    done = pagelab(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr
    # Nothing was started and nothing left behind.
    assert list(tmp_path.iterdir()) == []


def test_a_report_is_drawn_again_beside_its_result(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    result.write_text(json.dumps(canned.comparison()))
    done = pagelab("report", str(result))
    assert done.returncode == 0, done.stderr
    assert "dpt would make this program" in done.stdout
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_doctor_agrees_with_the_path() -> None:
    checks = {check["name"]: check for check in json.loads(pagelab("doctor", "--json").stdout)}
    for command in ("qemu-x86_64", "chromium", "valgrind"):
        assert (checks[command]["found"] is not None) == (shutil.which(command) is not None)
