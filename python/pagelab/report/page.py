"""Everything that the template shows, ready to print."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pagelab import accounted, annotating, granted, reclaimed, units
from pagelab.answer import Answer
from pagelab.report import allocated, stacks
from pagelab.report.bars import BarChart, cycles_chart, levels_chart
from pagelab.report.counters import CounterTable, counter_tables
from pagelab.report.heat import heat_maps
from pagelab.report.latency import LatencyChart, latency_chart
from pagelab.report.tables import Column, Table, flat, nested, shown
from pagelab.report.timeline import LineChart, resident_chart, tables_chart
from pagelab.table import speed

if TYPE_CHECKING:
    from pagelab.results import Comparison, Run


@dataclass(frozen=True)
class Page:
    """The report's content, top to bottom."""

    title: str
    kicker: list[str]
    verdict: Answer
    granted: list[str]
    figures: Table
    cycles: BarChart
    latency: LatencyChart
    levels: BarChart
    walkers: Table
    counters: list[CounterTable]
    resident: LineChart | None
    tables: LineChart | None
    maps: str
    heat: str
    machines: list[tuple[str, list[tuple[str, list[tuple[str, str]]]]]]
    provenance: list[tuple[str, str]]
    partial: bool
    annotated: str
    lines: Table
    mappings: Table
    sites: allocated.Sites | None
    callers: stacks.Stacks | None


_COLUMNS = [
    Column("design", "", "The page-table design"),
    Column("pages", "", "The page size that memory is backed with where it can be"),
    Column("machine", "", "The machine that was simulated"),
    Column("speed", "vs base", "How much faster than the baseline the program would run"),
    Column("cycles", "", "Simulated cycles from start to end"),
    Column("translation", "% of cycles", "Share of the cycles charged to address translation"),
    Column(
        "faults", "% of cycles", "Share of the cycles in page faults and unmapping, without zeroing"
    ),
    Column("zeroing", "% of cycles", "Share of the cycles in which new pages are zeroed"),
    Column("mean walk", "cycles", "Mean latency of a page-table walk"),
    Column("p99 walk", "cycles", "99 of 100 walks take no longer"),
    Column("references", "a walk", "Memory references of a walk after the walk cache"),
    Column("L2 TLB", "MPKI", "Second-level TLB misses per thousand instructions"),
    Column("LLC", "MPKI", "Last-level cache misses per thousand instructions"),
    Column("tables", "peak", "Most memory taken by page tables at any time"),
    Column("resident", "peak", "Most memory resident at any time"),
    Column("moved", "pages", "Pages of data moved out of a page table's way"),
]

_WALKER_COLUMNS = [
    Column("design", "", "The page-table design"),
    Column("walks", "per 1000 instr.", "Page-table walks per thousand instructions"),
    Column("walk cache", "hits", "Look-ups of the walker's own cache that find something"),
    Column(
        "waiting",
        "cycles a walk",
        "Mean time that a walk waits until a walker is free, before its own latency",
    ),
]


def page(comparison: Comparison) -> Page:
    """Prepares a comparison for the template."""
    on_machines = [comparison.on(name) for name in comparison.machines]
    walked = [run for run in comparison.runs if run.walks.count]
    base = comparison.baseline
    return Page(
        title=comparison.name,
        kicker=_kicker(comparison),
        verdict=comparison.answer,
        granted=[
            line
            for one in on_machines
            for line in granted.lines(one) + reclaimed.lines(one) + accounted.lines(one)
        ],
        figures=Table(_columns(comparison), [_row(comparison, run) for run in comparison.runs]),
        cycles=cycles_chart(comparison),
        latency=latency_chart(comparison),
        levels=levels_chart(comparison),
        walkers=Table(_WALKER_COLUMNS, [_walker(comparison, run) for run in walked]),
        counters=counter_tables(comparison),
        resident=resident_chart(comparison),
        tables=tables_chart(comparison),
        maps=_embed([_map(comparison, run) for run in comparison.runs if run.memory_map]),
        heat=_embed(heat_maps(comparison)),
        machines=[
            (name, _groups(comparison.on(name).baseline.machine)) for name in comparison.machines
        ],
        provenance=_provenance(comparison),
        partial=not all(run.complete for run in comparison.runs),
        annotated=comparison.label(base),
        lines=_lines(base),
        mappings=_mappings(base),
        sites=allocated.of(comparison),
        callers=stacks.of(comparison),
    )


def _kicker(comparison: Comparison) -> list[str]:
    base = comparison.baseline
    parts = [
        comparison.name,
        f"{units.count(base.accesses)} accesses",
        f"{units.size(base.os.peak_resident_bytes)} resident",
    ]
    machines = [name for name in comparison.machines if name]
    return [*parts, f"machine {', '.join(machines)}"] if machines else parts


def _columns(comparison: Comparison) -> list[Column]:
    """The columns: what all runs have in common has none."""
    same = {"pages"} if comparison.page_sizes == ["4K"] else set()
    same |= {"machine"} if len(comparison.machines) == 1 else set()
    same |= set() if any(run.os.pages_migrated for run in comparison.runs) else {"moved"}
    return [column for column in _COLUMNS if column.name not in same]


def _row(comparison: Comparison, run: Run) -> list[str]:
    walks, dash = run.walks, "\N{EN DASH}"
    cells = {
        "design": run.design + ("" if run.complete else " *"),
        "pages": run.pages,
        "machine": run.machine_name,
        "speed": speed(comparison, run),
        "cycles": units.count(run.elapsed),
        "translation": f"{100 * run.share('translation'):.1f}",
        "faults": f"{100 * run.share('faults'):.1f}",
        "zeroing": f"{100 * run.share('zeroing'):.1f}",
        "mean walk": f"{walks.latency.mean:.1f}" if walks.count else dash,
        "p99 walk": f"{walks.latency.p99:,}" if walks.count else dash,
        "references": f"{walks.reads / walks.count:.2f}" if walks.count else dash,
        "L2 TLB": f"{run.per_kilo('l2_tlb_misses')[0]:.2f}",
        "LLC": f"{run.per_kilo('llc_misses')[0]:.2f}",
        "tables": units.size(run.os.peak_table_bytes),
        "resident": units.size(run.os.peak_resident_bytes),
        "moved": f"{run.os.pages_migrated:,}",
    }
    return [cells[column.name] for column in _columns(comparison)]


def _walker(comparison: Comparison, run: Run) -> list[str]:
    walks = run.walks
    per_thousand = 1000 * walks.count / (run.instructions or 1)
    hits = units.percent(walks.cache_hits / walks.cache_lookups) if walks.cache_lookups else "none"
    name = comparison.label(run)
    return [name, f"{per_thousand:.2f}", hits, f"{walks.walker_wait / walks.count:.1f}"]


_SHARES = [
    Column("walks", "% of cycles", "Share of the cycles of all page walks"),
    Column("L2 TLB", "% of misses", "Share of the second-level TLB misses"),
    Column("L1 TLB", "% of misses", "Share of the first-level TLB misses"),
    Column("faults", "%", "Share of the page faults"),
]
# Room of a report; the rest is in the result's files.
_MOST_LINES = 25


def _lines(run: Run) -> Table:
    """The lines that miss."""
    what = Column("line", "", "Function and line of the instruction that makes the access")
    lines = annotating.ordered(run.lines, "walk_cycles")
    return Table(
        [what, *_SHARES, Column("source", "", "What stands there")],
        [
            [line.place, *annotating.shares(line, lines), line.text or ""]
            for line in lines[:_MOST_LINES]
        ],
    )


def _mappings(run: Run) -> Table:
    """The kinds of memory that are missed."""
    what = Column("memory", "", "What kind of memory is accessed, and which file")
    kinds = annotating.ordered(run.mappings, "walk_cycles")
    rows = [[kind.place, *annotating.shares(kind, kinds)] for kind in kinds[:_MOST_LINES]]
    return Table([what, *_SHARES], rows)


def _map(comparison: Comparison, run: Run) -> dict[str, Any]:
    cells = run.memory_map
    frames = sum(cell.frames for cell in cells)
    marked = [cell.tables for cell in cells if cell.tables]
    return {
        "design": comparison.label(run),
        "cells": [[cell.free, cell.data, cell.tables, cell.preallocated] for cell in cells],
        "summary": f"{units.size(frames * 4096)} in {len(cells):,} cells of "
        f"{units.size(frames * 4096 / (len(cells) or 1))}; "
        f"{units.size(sum(marked) * 4096)} of page tables in {len(marked):,} of them",
    }


def _embed(value: Any) -> str:
    """JSON that is safe inside a script element."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _groups(machine: dict[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The machine's parameters: the top level first, then one group a sub-table."""
    plain: dict[Any, Any] = {key: value for key, value in machine.items() if not nested(value)}
    groups = {"general": plain} if plain else {}
    for key, value in machine.items():
        if nested(value):
            groups[key] = value if isinstance(value, dict) else dict(enumerate(value))
    return [
        (name, [(key, shown(value, key)) for key, value in flat(group)])
        for name, group in groups.items()
    ]


def _provenance(comparison: Comparison) -> list[tuple[str, str]]:
    base = comparison.baseline
    facts: list[tuple[str, str]] = []
    if comparison.command:
        facts.append(("command", " ".join(comparison.command)))
    facts.append(
        (
            "source",
            " ".join(str(base.source[key]) for key in ("kind", "name") if key in base.source),
        )
    )
    if comparison.recording is not None:
        recording = comparison.recording
        facts += [
            (
                "recorded",
                f"{recording.accesses:,} accesses in {recording.instructions:,} instructions, "
                f"{units.duration(recording.seconds)}",
            ),
            ("exit status", str(recording.exit_status)),
        ]
    facts += [(f"window: {key}", str(value)) for key, value in comparison.window.items() if value]
    facts += [
        ("made by", f"pagelab {comparison.pagelab}, {comparison.created}"),
    ]
    facts += [(f"host: {key}", str(value)) for key, value in comparison.host.items()]
    facts += [
        (
            f"simulating {comparison.label(run)}",
            f"{units.duration(float(run.host.get('seconds', 0)))}, "
            + (
                f"{units.count(float(run.host['accesses_per_second']))} accesses/s"
                if "accesses_per_second" in run.host
                else "beside the recording"
            ),
        )
        for run in comparison.runs
    ]
    return facts
