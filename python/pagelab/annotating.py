"""Origins of misses: the lines and functions of a run, and the kinds of memory.

All shares are of the run's own totals, which the rows add up to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pagelab.counts import AllocationCosts, CodeCosts, Line, MappingCosts
from pagelab.errors import PagelabError, unknown

if TYPE_CHECKING:
    from pagelab.results import Comparison, Run

# Quantity that each column shows a share of, and its heading.
COLUMNS = {
    "walk_cycles": "walks",
    "l2_tlb_misses": "L2 TLB",
    "l1_tlb_misses": "L1 TLB",
    "faults": "faults",
}
By = Literal["walk_cycles", "l2_tlb_misses", "l1_tlb_misses", "faults"]
_ORDERS: dict[str, By] = {
    "walks": "walk_cycles",
    "l2": "l2_tlb_misses",
    "l1": "l1_tlb_misses",
    "faults": "faults",
}
Costs = TypeVar("Costs", bound=CodeCosts)

_COUNTS = (
    *("accesses", "l1_tlb_misses", "l2_tlb_misses"),
    *("walks", "walk_cycles", "faults", "fault_cycles"),
)
_LEGEND = (
    "Percent of the cycles of page walks, of second-level and first-level TLB\n"
    "misses, and of page faults."
)


@dataclass(frozen=True)
class Annotation:
    """Misses of the code and the memory of a run, the most expensive first."""

    design: str
    functions: list[Line]
    lines: list[Line]
    mappings: list[MappingCosts]
    allocation_sites: list[AllocationCosts]
    changed_files: list[str]

    def __repr__(self) -> str:
        return (
            f"<Annotation of {self.design}: {len(self.functions)} functions, "
            f"{len(self.lines)} lines, {len(self.mappings)} kinds of memory>"
        )


def annotation(comparison: Comparison, run: Run, by: By) -> Annotation:
    """All rows of a run, in an order."""
    return Annotation(
        comparison.label(run),
        ordered(functions(run), by),
        ordered(run.lines, by),
        ordered(run.mappings, by),
        ordered(run.allocation_sites, by),
        run.changed_files,
    )


def order(name: str) -> By:
    """The order with a short name: walks, l2, l1 or faults. Raises UsageError."""
    if name not in _ORDERS:
        raise unknown("order", name, list(_ORDERS))
    return _ORDERS[name]


def chosen(comparison: Comparison, design: str | None) -> Run:
    """The run of a design, the baseline if none is named. Raises PagelabError."""
    runs = [run for run in comparison.runs if run.lines]
    if not runs:
        raise PagelabError(
            f"{comparison.name} says nothing of code: record it without --no-code "
            "(pagelab compare -- PROGRAM)"
        )
    if design is None:
        return comparison.baseline if comparison.baseline.lines else runs[0]
    named = [run for run in runs if design in (run.design, comparison.label(run))]
    if not named:
        known = ", ".join(comparison.label(run) for run in runs)
        raise PagelabError(f"{comparison.name} has no {design}; it has {known}")
    return named[0]


def functions(run: Run) -> list[Line]:
    """The lines of each function added up."""
    sums: dict[tuple[str, str | None, str | None], Line] = {}
    for line in run.lines:
        key = (line.row, line.object, line.function)
        before = sums.get(key)
        if before is None:
            sums[key] = line.model_copy(
                update={"file": None, "line": None, "text": None, "inlined_into": []}
            )
        else:
            counts = {name: getattr(before, name) + getattr(line, name) for name in _COUNTS}
            sums[key] = before.model_copy(update=counts)
    return list(sums.values())


def ordered(rows: Iterable[Costs], by: By) -> list[Costs]:
    """The most expensive first."""
    return sorted(rows, key=lambda row: (getattr(row, by), row.fault_cycles), reverse=True)


def shares(row: CodeCosts, rows: Iterable[CodeCosts]) -> list[str]:
    """Part of each column's total that a row is, in percent."""
    rows = list(rows)
    found = []
    for name in COLUMNS:
        total = sum(getattr(other, name) for other in rows)
        found.append(f"{100 * getattr(row, name) / total:.1f}" if total else "")
    return found


def folded(run: Run, by: By) -> Iterator[str]:
    """A line a stack, as flamegraph.pl, inferno and speedscope read: `object;outer;inner COUNT`.

    Of callers only those are known that a function was inlined into.
    """
    for line in ordered(run.lines, by):
        count = getattr(line, by)
        if not count:
            continue
        frames = [line.module or line.place]
        frames += [*reversed(line.inlined_into), *([line.function] if line.function else [])]
        if line.file:
            frames.append(line.position)
        # A semicolon ends a frame, a line break the stack.
        yield ";".join(re.sub(r"[;\r\n]", ":", frame) for frame in frames) + f" {count}"


def show(comparison: Comparison, run: Run, console: Console, by: By, top: int) -> None:
    """Prints the functions, the lines and the kinds of memory."""
    title = comparison.label(run)
    console.print(Text(f"{comparison.name} under {title}", style="bold"))
    ranked = ordered(functions(run), by)
    table = _table("function", "object")
    for row in ranked[:top]:
        name = row.function or row.place
        table.add_row(
            *shares(row, ranked),
            cut(name, 30),
            cut(row.module, 18),
        )
    _print(console, table, len(ranked) - top)
    lines = ordered(run.lines, by)
    if any(line.file for line in lines):
        table = _table("line", "source")
        for line in lines[:top]:
            source = cut(line.text or "", 26)
            table.add_row(*shares(line, lines), cut(line.position, 22), source)
        _print(console, table, len(lines) - top)
    kinds = ordered(run.mappings, by)
    table = _table("memory")
    for kind in kinds[:top]:
        table.add_row(*shares(kind, kinds), cut(kind.place, 48))
    _print(console, table, len(kinds) - top)
    sites = ordered(run.allocation_sites, by)
    if sites:
        table = _table("allocated by", "caller")
        for site in sites[:top]:
            caller = site.frames[0].place if site.frames else ""
            table.add_row(
                *shares(site, sites),
                cut(site.call or site.place, 16),
                cut(caller, 32),
            )
        _print(console, table, len(sites) - top)
    console.print(_LEGEND, style="dim", highlight=False)
    if run.changed_files:
        names = _plain(", ".join(run.changed_files))
        console.print(
            f"No functions and lines of {names}: gone, or other than when it was recorded.",
            highlight=False,
            markup=False,
        )


def _table(*names: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for heading in COLUMNS.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for name in names:
        table.add_column(name, no_wrap=True)
    return table


def _print(console: Console, table: Table, left: int) -> None:
    console.print()
    console.print(table)
    if left > 0:
        console.print(f"{left} more (--top)", style="dim", highlight=False)


def cut(text: str, width: int) -> Text:
    """A name in so many columns."""
    shown = Text(_plain(text))
    shown.truncate(width, overflow="ellipsis")
    return shown


def _plain(text: str) -> str:
    """Without what steers a terminal: names are the program's and its files'."""
    return "".join(char if char.isprintable() else " " for char in text)
