"""Simulated times of a guest's kernel, beside what another plugin counts there."""

import json
from dataclasses import replace

import pytest

from pagelab.errors import PagelabError
from pagelab.linux import guest, layout, suite, timing
from pagelab.linux.guest import Machine
from pagelab.progress import Quiet


def jobs(*, count: str) -> list[suite.Job]:
    """The entry, off and on, for folios of 64 KiB."""
    found = suite.load(layout.find().linux / "bench", ["foliomap/simulated"])
    changed = {"args": ["2", "2", "4", "32"], "count": count}
    return [replace(job, entry=job.entry.model_copy(update=changed)) for job in found]


def counted(job: suite.Job) -> dict[str, float]:
    """Instructions of a page, by a plugin that counts between the marks."""
    _, result = suite.run(layout.find(), job)
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith(b"{")]
    counts = [int(line.split()[0]) for line in result.files[guest.COUNTS].splitlines()]
    sums: dict[str, list[float]] = {}
    for line, count in zip(lines, counts, strict=True):
        pages, instructions = sums.setdefault(line["bench"], [0, 0])
        sums[line["bench"]] = [pages + line["pages"], instructions + count]
    return {bench: instructions / pages for bench, (pages, instructions) in sums.items()}


def test_instructions_are_those_that_another_plugin_counts(machine: Machine) -> None:
    where = layout.find()
    if not where.emulator.exists():
        pytest.skip("no emulator: make linux-qemu")
    assert machine.image.exists()
    said: list[str] = []
    rows = [
        row
        for job in jobs(count="")
        for row in timing.timed(where, job, ["skylake-sp"], Quiet(), said.append)
    ]
    assert len(said) == 2
    off, on = ({row.operation: row for row in rows[at : at + 4]} for at in (0, 4))
    for found, job in zip((off, on), jobs(count="count"), strict=True):
        counts = counted(job)
        assert set(found) == set(counts)
        # An instruction that moves or fills memory counts once here, and once an element there.
        assert found["munmap"].instructions == pytest.approx(counts["munmap"], rel=0.1)
    assert on["write_child_gone"].instructions == pytest.approx(counts["write_child_gone"], rel=0.1)
    # The paper's section 4.1: a page is reused instead of copied.
    assert off["write_child_gone"].ns > 1.5 * on["write_child_gone"].ns
    assert {row.kb for row in rows} == {64}


def test_lines_move_that_the_kernel_writes_on_both_cores(machine: Machine) -> None:
    where = layout.find()
    if not where.emulator.exists():
        pytest.skip("no emulator: make linux-qemu")
    assert machine.image.exists()
    found = list(suite.load(where.linux / "bench", ["foliomap/contended"]))
    moved: list[dict[str, float]] = []
    for job in found:
        few = job.entry.model_copy(update={"args": ["1", "2", "4"]})
        rows = timing.timed(where, replace(job, entry=few), ["skylake-sp"], Quiet(), lambda _: None)
        assert all(row.transfers is not None for row in rows)
        moved.append({row.operation: row.transfers or 0.0 for row in rows})
    off, on = moved
    # Each page of a folio has a line with its map count; the folio's own are in the first two of
    # sixteen (struct folio). With FolioMap only those are written (docs/foliomap.md). A line that
    # both cores write goes to the second one at least once, half a time for each core's page. A
    # fork writes too much besides, and of folios that nobody shares lines come from who made them,
    # more or fewer by the recording.
    assert off["munmap_shared"] - on["munmap_shared"] > 0.5 * 14 / 16
    assert on["munmap_shared"] < 0.5


def row(boot: str, operation: str, machine: str, ns: float) -> timing.Timed:
    return timing.Timed(
        boot=boot,
        operation=operation,
        kb=64,
        machine=machine,
        rounds=3,
        ns=ns,
        half=ns / 100,
        instructions=100,
    )


def test_a_table_has_a_line_a_boot_and_a_column_a_machine() -> None:
    rows = [row(boot, "fork", name, 12.0) for boot in ("off", "on") for name in timing.MACHINES]
    rows.append(row("on", "munmap", "zen5", 123_456.0))
    lines = timing.table(rows).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[:2] == ["A: off", "B: on"]
    at = lines.index("fork, 64.0 KiB")
    assert lines[at + 1].split() == ["A", *["12.0", "±", "0.1", "ns"] * 4]
    assert lines[at + 3] == "munmap, 64.0 KiB"
    assert lines[at + 4].split() == ["B", "123.5", "±", "1.2", "µs"]


def test_a_program_without_marks_is_told(machine: Machine) -> None:
    where = layout.find()
    if not where.emulator.exists():
        pytest.skip("no emulator: make linux-qemu")
    assert machine.image.exists()
    [job] = [job for job in jobs(count="") if "foliomap=on" not in job.append]
    silent = job.entry.model_copy(update={"args": ["0", "0"]})
    with pytest.raises(PagelabError, match="no pair of marks"):
        timing.timed(where, replace(job, entry=silent), ["zen5"], Quiet(), lambda _: None)
