"""Operating systems beside each other: what a program copies after its child has gone."""

import re
import subprocess
from pathlib import Path

import pytest

import pagelab
from emulators import needs_recorder
from pagelab import accounted, machines, reclaimed, systems, table
from pagelab.design import Design
from pagelab.errors import UsageError

SOURCE = Path(__file__).with_name("record") / "snapshot.c"
PAGES = (8 << 20) // 4096
# Pages that are not the program's memory, and are written after the fork.
OTHERS = 40


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> pagelab.Recording:
    folder = tmp_path_factory.mktemp("snapshot")
    program = folder / "snapshot"
    subprocess.run(["gcc", "-O1", "-static", SOURCE, "-o", program], check=True)
    return pagelab.record([program, "8"], folder / "snapshot.trace")


# As counted in kernels (docs/foliomap.md): with the child gone Linux 6.12 copies a page of a large
# folio at each write, FolioMap none, Linux 7.2 none where two address spaces at most had it. A huge
# page that one entry maps, and a page of 4 KiB, all of them keep.
@needs_recorder
@pytest.mark.parametrize(
    ("system", "size", "copied"),
    [
        ("linux-6.12", "4K", 0),
        ("linux-6.12", "64K", PAGES),
        ("linux-6.12", "2M", 0),
        ("linux", "64K", 0),
        ("linux", "2M", 0),
        ("foliomap", "64K", 0),
    ],
)
def test_a_snapshot_copies_what_kernels_copied(
    snapshot: pagelab.Recording, system: str, size: str, copied: int
) -> None:
    run = pagelab.simulate(snapshot, Design("radix", pages=size, system=system), machine="zen3")
    assert run.os.forks == 1
    assert copied <= run.os.cow_copies <= copied + OTHERS
    kept = {"4K": PAGES, "64K": PAGES, "2M": PAGES // 512}[size] if not copied else 0
    assert kept <= run.os.cow_reuses <= kept + OTHERS


def test_systems_are_named_as_they_are_read() -> None:
    for text in ["radix:pages=64K:os=linux-6.12", "dpt:os=bandwidth:weights=3:2"]:
        assert str(Design.parse(text)) == text
    assert Design.parse("radix:os=linux:max_ptes_none=0:scan_sleep_ms=5").overrides == [
        "memory.accounting=mm_owner",
        "memory.khugepaged.max_ptes_none=0",
        "memory.khugepaged.scan_sleep_ms=5",
    ]


@pytest.mark.parametrize("text", ["linux-7", "linux:fast", "bandwidth:weights"])
def test_what_is_no_system_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        systems.parse(text)


@needs_recorder
def test_systems_are_a_column_of_the_table(snapshot: pagelab.Recording) -> None:
    designs = [Design("radix"), Design("radix", system="linux-6.12")]
    found = pagelab.compare(snapshot, designs, machine="zen3", pages="64K")
    rows = [line.split() for line in found.table().splitlines() if line.startswith("radix")]
    assert [row[:3] for row in rows] == [["radix", "linux", "64K"], ["radix", "linux-6.12", "64K"]]
    assert rows[0][3] == "base"
    assert "copies, kept" in table.legend(found)


@needs_recorder
def test_accounting_costs_what_it_does_in_kernels(snapshot: pagelab.Recording) -> None:
    """Atomic operations a page of `fork()`, less one of its entry (docs/foliomap.md)."""
    designs = [Design("radix", system=system) for system in ("linux-6.12", "linux", "foliomap")]
    found = pagelab.compare(snapshot, designs, machine="zen3", pages="64K")
    for run, measured in zip(found.runs, (3.16, 3.15, 2.16), strict=True):
        work = run.os.accounting
        assert work is not None
        assert PAGES <= work.fork.pages <= run.os.entries_forked
        # Other pages are single ones.
        assert work.fork.atomics == pytest.approx((measured - 1) * work.fork.pages, rel=0.03)
        assert work.fork.lines >= work.fork.pages
    [told] = accounted.lines(found)
    assert "a page under linux-6.12, linux, foliomap:" in told
    assert re.search(r" fork\(\) 2\.1\d, 2\.1\d, 1\.1\d;", told)
    alone = pagelab.compare(snapshot, designs[:1], machine="zen3", pages="64K")
    assert accounted.lines(alone) == []


@needs_recorder
def test_memory_that_is_short_swaps_as_much_as_in_a_kernel(tmp_path: Path) -> None:
    """Counts of Linux 6.12 in a guest (docs/notebook/2026-11-29-reclaim.md)."""
    program = tmp_path / "working_set"
    source = SOURCE.with_name("working_set.c")
    subprocess.run(["gcc", "-O2", "-static", source, "-o", program], check=True)
    recorded = pagelab.record([program], tmp_path / "working_set.trace")
    design = Design("radix", system="linux:max_bytes=24MiB")
    # The guest's emulated processor has a small TLB, so that accessed bits are set soon.
    guest = machines.zen5.set("tlb.l2_4k.entries=64", "tlb.l2_4k.ways=4")
    run = pagelab.simulate(recorded, design, machine=guest)
    assert run.os.peak_resident_bytes <= 24 << 20
    reclaim = run.os.reclaim
    assert reclaim is not None
    assert reclaim.swapped_in == pytest.approx(7_549, rel=0.02)
    assert reclaim.scanned == pytest.approx(31_030, rel=0.02)
    assert reclaim.taken == pytest.approx(10_040, rel=0.03)
    assert run.os.faults == pytest.approx(15_782, rel=0.01)
    found = pagelab.compare(recorded, [Design("radix"), design], machine="zen5", pages="4K")
    assert "pages swapped out" in "".join(reclaimed.lines(found))


def test_several_page_sizes_are_one_policy() -> None:
    design = Design.parse("radix:pages=64K+2M")
    assert str(design) == "radix:pages=2M+64K"
    assert design.overrides == ['memory.page_policy="thp+64K"']
    for text in ["64K+64K", "4K+2M", "1G+2M", "64K+"]:
        with pytest.raises(UsageError):
            Design.parse(f"radix:pages={text}")
