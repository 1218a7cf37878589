"""Allocation sites: a program whose memory is known by line, from recording to advice."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from emulators import needs_recorder
from pagelab import files, results, sites
from pagelab.counts import AllocationCosts
from pagelab.report import stacks
from pagelab.results import Comparison, Run

SOURCE = Path(__file__).parent / "code" / "allocations.cc"
MIB = 1 << 20
PAGES = MIB // 4096
PAGELAB = [sys.executable, "-m", "pagelab"]

pytestmark = needs_recorder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, and a result of `compare`."""
    folder = tmp_path_factory.mktemp("sites")
    program = folder / "allocations"
    subprocess.run(["g++", "-g", "-O1", SOURCE, "-o", program], check=True)
    command = [*PAGELAB, "compare", "--quiet", "--sites", "-m", "dpt-paper", "-d", "radix"]
    command += ["--pages", "4K,2M", "-o", str(folder / "result"), "--", str(program)]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture(scope="module")
def comparison(folder: Path) -> Comparison:
    return results.load(folder / "result")


def _line(comment: str) -> int:
    lines = SOURCE.read_text().splitlines()
    (found,) = [n for n, line in enumerate(lines, 1) if line.endswith(f"// {comment}")]
    return found


def _site(run: Run, comment: str, depth: int = 0) -> AllocationCosts:
    """The site whose caller, so far up the stack, is in a line."""
    line = _line(comment)
    found = [
        row
        for row in run.allocation_sites
        if len(row.frames) > depth and row.frames[depth].line == line
    ]
    assert len(found) == 1, [row.place for row in run.allocation_sites]
    return found[0]


# Site by site: the function called, MiB, and calls.
SITES = {
    "table": ("malloc", 32, 1),
    "to be grown": ("malloc", 1, 1),
    "mapped": ("mmap", 5, 1),
    "grown": ("realloc", 6, 1),
    "aligned": ("aligned_alloc", 1, 1),
    "thread": ("calloc", 4, 1),
    "child": ("malloc", 7, 1),
}


@pytest.mark.parametrize("comment", SITES)
def test_each_line_has_what_it_allocates(comparison: Comparison, comment: str) -> None:
    call, mib, times = SITES[comment]
    small, large = comparison.runs
    site = _site(small, comment)
    assert (site.call, site.allocations, site.bytes) == (call, times, mib * MIB)
    assert site.peak_bytes == mib * MIB
    # Pages that realloc moves stay whose they were. Headers take a page or two, a thread's first
    # call its arena.
    pages = mib * PAGES - (PAGES if comment == "grown" else 0)
    copied = 8 * PAGES if comment == "table" else 0
    more = 5 if comment == "thread" else 2
    assert pages <= site.faults - copied <= pages + more
    assert pages <= site.peak_resident_bytes // 4096 - copied <= pages + more
    # Small ones are left at both ends.
    assert _site(large, comment).faults <= mib / 2 + 2 * 511 + more + copied


def test_a_list_is_of_operator_new(comparison: Comparison) -> None:
    site = _site(comparison.runs[0], "list")
    assert (site.call, site.allocations, site.bytes) == ("operator new", 50_000, 50_000 * 64)
    # 64 bytes and a header each.
    pages = 50_000 * 80 / 4096
    assert pages - 2 <= site.faults <= pages + 2


def test_callers_of_a_wrapper_are_told_apart(comparison: Comparison) -> None:
    for run in comparison.runs:
        first, second = _site(run, "first user", 1), _site(run, "second user", 1)
        assert first.frames[0].line == second.frames[0].line == _line("wrapped")
        assert (first.bytes, second.bytes) == (2 * MIB, 3 * MIB)
        assert first.frames[2].function == "main"


def test_misses_are_those_of_the_table(comparison: Comparison) -> None:
    small = comparison.runs[0]
    walks = sum(row.walks for row in small.allocation_sites)
    assert walks == small.walks.count
    # 1,536 entries reach 6 MiB of the 32.
    table = _site(small, "table")
    assert table.l2_tlb_misses > 0.75 * 200_000
    assert table.walk_cycles > 0.8 * sum(row.walk_cycles for row in small.allocation_sites)


def test_rows_add_up_to_the_run(comparison: Comparison) -> None:
    for run in comparison.runs:
        total = {
            name: sum(getattr(row, name) for row in run.allocation_sites)
            for name in ("l1_tlb_misses", "l2_tlb_misses", "walks", "faults")
        }
        assert total["l2_tlb_misses"] == run.tlb.l2_misses
        assert total["walks"] == run.walks.count
        assert total["faults"] == run.os.faults - run.os.outside.faults


def test_gains_are_of_the_sites_that_miss(comparison: Comparison) -> None:
    found = sites.gains(comparison)
    assert found is not None
    best = max(found.sites, key=lambda gain: gain.saved)
    assert best.site.frames[0].line == _line("table")
    # All that is saved is what the runs differ in by translation and faults.
    small, large = comparison.runs
    differ = small.cycles.translation - large.cycles.translation
    for run, sign in ((small, 1), (large, -1)):
        differ += sign * sum(row.fault_cycles for row in run.allocation_sites)
    assert sum(gain.saved for gain in found.sites) == pytest.approx(differ)
    gaining = [gain.per_mib for gain in found.sites if gain.saved > 0]
    assert gaining == sorted(gaining, reverse=True)
    assert found.cumulative()[-1] == pytest.approx(1)


def test_a_recording_without_sites_has_none(folder: Path) -> None:
    command = [*PAGELAB, "compare", "-q", "-m", "dpt-paper", "-d", "radix", "--json"]
    told = subprocess.run([*command, "--", "true"], cwd=folder, check=True, capture_output=True)
    assert json.loads(told.stdout)["runs"][0]["allocation_sites"] == []


def test_a_static_program_is_said_to_tell_nothing(folder: Path) -> None:
    source = folder / "static.c"
    source.write_text("#include <stdlib.h>\nint main(void) { return !malloc(100); }\n")
    program = folder / "static"
    subprocess.run(["gcc", "-static", source, "-o", program], check=True)
    command = [*PAGELAB, "record", "--sites", "-o", str(folder / "t"), "--", str(program)]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "no allocation was told" in told.stderr


def test_the_library_alone_changes_nothing(folder: Path) -> None:
    """Without the variable, and with it outside a recording."""
    alone = subprocess.run([folder / "allocations"], check=True, capture_output=True).stdout
    for mode in ({}, {"PAGELAB_SITES": "mark"}, {"PAGELAB_SITES": "huge:none+1"}):
        environment = os.environ | {"LD_PRELOAD": str(files.preloaded())} | mode
        again = subprocess.run(
            [folder / "allocations"], check=True, capture_output=True, env=environment
        )
        assert (again.stdout, again.stderr) == (alone, b"")


def test_a_block_is_as_wide_as_what_its_calls_cost(comparison: Comparison) -> None:
    run = comparison.baseline
    cycles = {row.key: row.fault_cycles for row in run.allocation_sites}
    # Without walks all is faults: by call, as they stand in the rows.
    still = [row.model_copy(update={"walk_cycles": 0, "walks": 0}) for row in run.allocation_sites]
    alone = comparison.model_copy(
        update={"runs": [run.model_copy(update={"allocation_sites": still})]}
    )
    drawn = stacks.of(alone)
    assert drawn is not None
    first = [block for block in drawn.blocks if block.depth == 0]
    assert sum(block.width for block in first) == pytest.approx(100, abs=2)
    for row in run.allocation_sites:
        share = 100 * cycles[row.key] / sum(cycles.values())
        if row.row != "site" or share < 1:
            continue
        depth = len(row.frames)
        inside = [block for block in drawn.blocks if block.depth == depth]
        assert any(block.width == pytest.approx(share) for block in inside), row.place
    for block in drawn.blocks:
        above = [
            other
            for other in drawn.blocks
            if other.depth == block.depth - 1
            and other.left - 1e-6 <= block.left
            and block.left + block.width <= other.left + other.width + 1e-6
        ]
        assert len(above) == (1 if block.depth else 0)
