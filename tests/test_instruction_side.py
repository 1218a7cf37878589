"""The instruction side through the real recorder: a program whose misses are known exactly."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from emulators import needs_recorder

SOURCE = Path(__file__).parent / "code" / "pages.s"
# Table I of the DPT paper has such a TLB, 8 sets of 8 entries.
SIDE = "fetch={ tlb = { entries = 64, ways = 8 }, l1 = { kib = 32, ways = 8 } }"
ROUNDS = 25

pytestmark = needs_recorder


def fetched(folder: Path, pages: int, *options: str) -> dict[str, Any]:
    """Result of a simulation of the program with so many pages."""
    program, trace = folder / "pages", folder / "pages.trace"
    symbols = f"-Wa,--defsym,PAGES={pages},--defsym,ROUNDS={ROUNDS}"
    subprocess.run(["gcc", "-nostdlib", "-static", symbols, SOURCE, "-o", program], check=True)
    pagelab = [sys.executable, "-m", "pagelab"]
    subprocess.run([*pagelab, "record", "--quiet", "-o", trace, "--", program], check=True)
    command = [*pagelab, "simulate", "--quiet", "--json", "-d", "radix", *options]
    done = subprocess.run([*command, "--trace", trace], capture_output=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize(
    ("pages", "again"),
    [
        # 64 pages fill the 8 sets; the page that the program begins in is gone when they do.
        (64, 0),
        # A ninth page in each of the sets: each leaves before it is used again, under LRU.
        (72, 72),
        # In one of them alone.
        (65, 9),
    ],
)
def test_a_loop_over_pages_of_code_misses_as_counted_on_paper(
    tmp_path: Path, pages: int, again: int
) -> None:
    result = fetched(tmp_path, pages, "--set", SIDE)
    fetch = result["fetch"]
    # The page that the program begins in, then the loop's.
    first = 1 + pages
    assert fetch["fetches"] == fetch["tlb"]["lookups"] == 1 + pages * ROUNDS
    assert fetch["tlb"]["l1_misses"] == first + again * (ROUNDS - 1)
    # The second level has 1,536 entries. A walk finds nothing, a fault maps the page and those of
    # its 64 KiB, and another walk finds it. The program begins in the second page of 64 KiB.
    assert fetch["tlb"]["l2_misses"] == first
    faults = first // 16 + 1
    assert fetch["walks"] == first + faults
    # One line a page, at most two in a set of the cache.
    assert fetch["fetches"] - fetch["served_by"]["l1"] == first
    # The only load finds its page of the stack missing, too.
    assert result["tlb"]["lookups"] == result["accesses"] == 1
    assert result["os"]["faults"] == faults + 1
    assert result["walks"]["count"] == first + faults + 2


def test_presets_of_processors_fetch_instructions(tmp_path: Path) -> None:
    misses = {
        machine: fetched(tmp_path, 72, "-m", machine)["fetch"]["tlb"]["l1_misses"]
        for machine in ("skylake-sp", "golden-cove", "zen4", "neoverse-v2")
    }
    # 128 and 256 entries hold 72 pages; 64 and 48, fully associative, none until it is used again.
    always = 1 + 72 * ROUNDS
    assert misses == {"skylake-sp": 73, "golden-cove": 73, "zen4": always, "neoverse-v2": always}
    assert fetched(tmp_path, 72, "-m", "dpt-paper")["fetch"] is None
    assert fetched(tmp_path, 72, "-m", "zen4", "--set", "fetch=none")["fetch"] is None
