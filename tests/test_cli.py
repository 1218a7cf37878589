"""The command line as a user meets it: help, names, mistakes, exit codes."""

import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import canned
from commands import pagelab

COMMANDS = [
    "compare",
    "record",
    "simulate",
    "trace info",
    "trace cat",
    "trace convert",
    "trace write",
    "trace finish",
    "list",
    "report",
    "doctor",
    "version",
]


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
            ["simulate", "-d", "radix", "-w", "pointer-chase", "--manager", "bandwidt"],
            ["bandwidt", "'bandwidth'", "tiered"],
        ),
        (["list", "design"], ["design", "'designs'"]),
        (["compare"], ["-- PROGRAM", "--trace", "--workload"]),
        (["compare", "--trace", "t", "--", "ls"], ["give one of"]),
        (["compare", "--full", "--limit", "5", "--", "ls"], ["--full takes every access"]),
        (["compare", "--trace", "missing.trace"], ["there is no trace missing.trace"]),
        (["record", "-o", "t", "--limit", "many", "--", "true"], ["many", "10M"]),
        (["record", "-o", "t", "--sample", "5:1", "--", "true"], ["5:1", "PERIOD"]),
        (["compare", "-w", "pointer-chase", "-d", "radix:pages=3M"], ["page size '3M'", "64K"]),
        (["compare", "-w", "pointer-chase", "--thp", "--pages", "4K"], ["--pages 2M"]),
        (["simulate", "-d", "radix", "-w", "stream", "--pages", "4K,2M"], ["pagelab compare"]),
        (
            ["simulate", "-d", "radix", "-w", "stream", "--sample", "1M:9M", "--warm-up", "2M"],
            ["--warm-up 2M", "--sample"],
        ),
        (["compare", "-m", "here,dpt-papr", "-w", "stream"], ["dpt-papr", "dpt-paper"]),
        (["simulate", "-d", "radix", "-d", "dpt", "-w", "stream"], ["one design", "compare"]),
        (["comprae"], ["comprae", "compare"]),
        (["reproduce", "measuring", "--measured", "nonexist"], ["--measured", "nonexist"]),
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


def test_traces_are_taken_where_they_are_looked_for(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("L,0x1000,8\n")
    assert pagelab("trace", "convert", "t.csv", "t.trace", cwd=tmp_path).returncode == 0
    named = pagelab("simulate", "-d", "radix", "--json", "-t", "t.trace", cwd=tmp_path)
    placed = pagelab("simulate", "-d", "radix", "--json", "t.trace", cwd=tmp_path)
    assert placed.returncode == 0, placed.stderr
    assert json.loads(placed.stdout)["cycles"] == json.loads(named.stdout)["cycles"]
    mistaken = pagelab("compare", "./t.trace", cwd=tmp_path)
    assert mistaken.returncode == 126
    assert "./t.trace is a trace, not a program: give it by --trace" in mistaken.stderr


def test_designs_may_be_named_one_by_one() -> None:
    workload = ("-w", "pointer-chase:pages=100,loads=1000", "--json")
    apart = pagelab("compare", "-d", "radix", "-d", "ideal", *workload)
    assert apart.returncode == 0, apart.stderr
    runs = json.loads(apart.stdout)["runs"]
    assert [run["design"] for run in runs] == ["radix", "ideal"]


def test_a_wrong_parameter_is_one_line_like_other_usage_errors(tmp_path: Path) -> None:
    for command in (["compare"], ["simulate", "-d", "radix"]):
        for parameter, word in (("pages=abc", "abc"), ("pagess=1", "pagess")):
            done = pagelab(*command, "-w", f"pointer-chase:{parameter}", cwd=tmp_path)
            assert done.returncode == 2, done.stderr
            assert word in done.stderr
            assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_the_version_needs_none_of_what_commands_need() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "pagelab", "version"],
        capture_output=True,
        text=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "pagelab._core" in imported
    assert not imported & {"typer", "pydantic", "rich", "pyarrow", "jinja2"}


def test_a_light_command_imports_neither_arrow_nor_templates() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "pagelab", "list", "designs"],
        capture_output=True,
        text=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "rich.table" in imported
    assert not imported & {"pyarrow", "jinja2", "pagelab.results"}


def test_quiet_prints_the_answer(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps(canned.comparison()))
    done = pagelab("report", "--quiet", str(tmp_path))
    assert "dpt would run this program" in done.stdout
    done = pagelab(
        *("compare", "-q", "-d", "radix,ideal", "-w", "pointer-chase:pages=100,loads=1000"),
        cwd=tmp_path,
    )
    assert done.returncode == 0
    assert done.stderr == ""
    assert "ranslation" in done.stdout
    done = pagelab("simulate", "-q", "-d", "radix", "-w", "pointer-chase:pages=100,loads=1000")
    assert (done.returncode, done.stderr) == (0, "")
    assert "ranslation" in done.stdout
    # What the columns mean.
    assert "walk: mean" not in done.stdout


def test_a_report_is_drawn_again_beside_its_result(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    result.write_text(json.dumps(canned.comparison()))
    done = pagelab("report", str(result))
    assert done.returncode == 0, done.stderr
    assert "dpt would run this program" in done.stdout
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_doctor_agrees_with_the_path() -> None:
    checks = {check["name"]: check for check in json.loads(pagelab("doctor", "--json").stdout)}
    for command in ("chromium", "valgrind"):
        assert (checks[command]["found"] is not None) == (shutil.which(command) is not None)


def test_doctor_names_an_emulator_of_the_version_that_it_says() -> None:
    checks = {check["name"]: check for check in json.loads(pagelab("doctor", "--json").stdout)}
    version, path = checks["emulator"]["found"].splitlines()[0].split(", ")
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    assert said.startswith(version)


def test_rows_for_other_programs_are_those_of_the_result(tmp_path: Path) -> None:
    workload = ("-w", "pointer-chase:pages=100,loads=1000", "-d", "radix,dpt", "--pages", "4K,2M")
    done = pagelab("compare", "-q", *workload, "-o", "out", "--export", "csv", cwd=tmp_path)
    runs = json.loads((tmp_path / "out" / "result.json").read_text())["runs"]
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [(row["design"], row["pages"]) for row in rows] == [
        (run["design"], run["pages"]) for run in runs
    ]
    assert [int(row["cycles.total"]) for row in rows] == [run["cycles"]["total"] for run in runs]
