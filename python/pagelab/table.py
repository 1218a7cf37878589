"""The table on the terminal: a line a design, 80 columns where they are enough for the numbers."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pagelab import accounted, granted, reclaimed, sampling, units

if TYPE_CHECKING:
    from pagelab.results import Comparison, Run


@dataclass(frozen=True)
class Column:
    """A heading, and the figure of a run below it; shares are of the run's own cycles."""

    heading: str
    cell: Callable[[Comparison, Run], str]


def _share(*parts: str) -> Callable[[Comparison, Run], str]:
    return lambda _, run: f"{100 * sum(run.share(part) for part in parts):.1f}"


def _longest_fork(run: Run) -> str:
    return "\N{EN DASH}" if run.longest_fork is None else units.nanoseconds(run.longest_fork)


_COLUMNS = {
    "design": Column("design", lambda _, run: run.design + ("" if run.complete else "*")),
    "pages": Column("pages", lambda _, run: run.pages),
    "speed": Column("speed", lambda comparison, run: speed(comparison, run)),
    "cycles": Column("cycles", lambda _, run: units.count(run.elapsed)),
    "compute": Column("comp.", _share("compute", "mispredictions", "fetch")),
    "data": Column("data", _share("data")),
    "translation": Column("transl.", _share("translation")),
    "os": Column("OS", _share("faults", "zeroing", "migrations")),
    "faults": Column("faults", _share("faults")),
    "zeroing": Column("zero.", _share("zeroing")),
    "walk": Column(
        "walk",
        lambda _, run: f"{run.walks.latency.mean:.1f}" if run.walks.count else "\N{EN DASH}",
    ),
    "mpki": Column("MPKI", lambda _, run: f"{run.per_kilo('l2_tlb_misses')[0]:.2f}"),
    "tables": Column("tables", lambda _, run: units.size(run.os.peak_table_bytes)),
    "table": Column("design", lambda _, run: run.without_system + ("" if run.complete else "*")),
    "system": Column("OS", lambda _, run: run.system),
    "fork": Column("fork()", lambda _, run: _longest_fork(run)),
    "copies": Column("copies", lambda _, run: units.count(run.os.cow_copies)),
    "kept": Column("kept", lambda _, run: units.count(run.os.cow_reuses)),
    "memory": Column("memory", lambda _, run: units.size(run.memory)),
}

# Columns of names, which go on in the next line where they are long.
_NAMES = [_COLUMNS[name] for name in ("design", "table", "system")]

# Columns that 80 columns have room for: what page tables differ in, and what page sizes do.
_OF_TABLES = (
    *("design", "speed", "cycles", "compute", "data", "translation", "os", "walk", "mpki"),
    "tables",
)
_OF_PAGES = (
    *("design", "pages", "speed", "cycles", "data", "translation", "faults", "zeroing", "mpki"),
    "memory",
)
# And operating systems: the longest fork, pages that stores after it copied, and that they kept.
_OF_SYSTEMS = (
    *("table", "system", "pages", "speed", "cycles", "faults", "fork", "copies", "kept"),
    "memory",
)

# Least part of a longer name that is in a line, with the rest in the next.
_NAME = 12


def columns(comparison: Comparison) -> list[Column]:
    """The columns for what is compared."""
    names = _OF_TABLES if comparison.page_sizes == ["4K"] else _OF_PAGES
    if any(":os=" in run.design for run in comparison.runs):
        names = _OF_SYSTEMS
    return [_COLUMNS[name] for name in names]


def speed(comparison: Comparison, run: Run) -> str:
    """Speed of a run relative to the baseline, with the confidence interval if it is sampled."""
    if run is comparison.baseline_of(run):
        return "base"
    text = units.signed_percent(comparison.speedup(run) - 1)
    half = comparison.speedup_interval(run)
    if half is None:
        return text
    wide = f"{100 * half:.1f}" if math.isfinite(half) else "?"
    return f"{text.removesuffix(' %')} \N{PLUS-MINUS SIGN}{wide} %"


def show(comparison: Comparison, console: Console, *, quiet: bool = False) -> None:
    """Prints the table, what its columns mean unless it is to be quiet, and the answer."""
    show_table(comparison, console)
    if not quiet:
        console.print(legend(comparison), style="dim", highlight=False)
    for line in _memory(comparison):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    console.print()
    show_answer(comparison, console)


def show_answer(comparison: Comparison, console: Console) -> None:
    """Prints the sentences, filled; a number and its percent sign stay on one line."""
    for line in comparison.answer.text.splitlines():
        joined = line.replace(" %", "\N{NO-BREAK SPACE}%")
        if not line.startswith(" "):
            joined = textwrap.fill(
                joined, console.width, break_long_words=False, break_on_hyphens=False
            )
        filled = joined.replace("\N{NO-BREAK SPACE}", " ")
        console.print(filled, highlight=False, markup=False, soft_wrap=True)


def text(comparison: Comparison, width: int = 80) -> str:
    """The table, without colours."""
    console = Console(width=width, record=True, file=io.StringIO())
    show_table(comparison, console)
    return console.export_text().rstrip("\n")


def _memory(comparison: Comparison) -> list[str]:
    """Larger pages that programs were given, what was reclaimed, accounting: filled sentences."""
    found = []
    for name in comparison.machines:
        on_machine = comparison.on(name)
        told = [*granted.lines(on_machine), *reclaimed.lines(on_machine)]
        for sentence in [*told, *accounted.lines(on_machine)]:
            found += textwrap.wrap(sentence, 80, subsequent_indent="    ")
    return found


def show_table(comparison: Comparison, console: Console) -> None:
    """Prints the table, one a machine, which is named above it."""
    for name in comparison.machines:
        console.print(f"{name}:", style="bold", highlight=False, markup=False, soft_wrap=True)
        table = terminal_table(comparison, name)
        least = sum((column.min_width or 0) + 1 for column in table.columns)
        if least > console.width:
            # A line that is longer than the terminal can be read, half a number not.
            table.width = least
        console.print(table, crop=False)


def terminal_table(comparison: Comparison, machine: str | None = None) -> Table:
    """The runs on a machine, the first if none is named, as a rich table."""
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="bold",
    )
    shown = columns(comparison)
    runs = comparison.on(machine or comparison.machines[0]).runs
    rows = [[column.cell(comparison, run) for column in shown] for run in runs]
    for place, column in enumerate(shown):
        longest = max(map(len, [column.heading, *(row[place] for row in rows)]))
        if column in _NAMES:
            table.add_column(column.heading, overflow="fold", min_width=min(longest, _NAME))
        else:
            table.add_column(column.heading, justify="right", no_wrap=True, min_width=longest)
    for run, cells in zip(runs, rows, strict=True):
        texts = [Text(cell) for cell in cells]
        if run is not comparison.baseline_of(run):
            faster = comparison.speedup(run) >= 1
            texts[shown.index(_COLUMNS["speed"])].stylize("green" if faster else "red")
        table.add_row(*texts)
    return table


def legend(comparison: Comparison) -> str:
    """Meaning of the columns, in lines of 80 columns at most."""
    base = comparison.baseline
    shown = columns(comparison)
    if shown == [_COLUMNS[name] for name in _OF_TABLES]:
        words = (
            f"comp., data, transl., OS: percent of cycles spent computing{_branches(base)}, "
            "waiting for data, translating, in the kernel. walk: mean cycles of a "
            "page walk."
        )
    elif _COLUMNS["system"] in shown:
        words = (
            "faults: percent of cycles spent in faults and unmapping. fork(): the longest, "
            "copying entries and making page tables. "
            "copies, kept: pages that stores after a fork copied, or kept. memory: peak, with "
            "page tables."
        )
    else:
        words = (
            "data, transl., faults, zero.: percent of cycles spent waiting for data, translating, "
            "in faults and unmapping, zeroing new pages. memory: peak, with page tables."
        )
    text = (
        f"{_machines(comparison)}speed: against {comparison.on(base.machine_name).label(base)}"
        f"{' of the same machine' if len(comparison.machines) > 1 else ''}. {words}"
    )
    if _COLUMNS["mpki"] in shown:
        text += " MPKI: second-level TLB misses per 1000 instructions."
    lines = textwrap.wrap(text, 80)
    if base.sample is not None and base.sample.drawn:
        lines += _sampling(base)
    if base.nodes:
        lines += _nodes(comparison)
    if base.fetch:
        lines += _fetch(comparison)
    if not comparison.complete:
        lines.append("* ended early")
    return "\n".join(lines)


def _machines(comparison: Comparison) -> str:
    """Descriptions of the machines, where they have some."""
    told = {one.machine_name: one.machine.get("description") for one in comparison.runs}
    return "".join(f"{name}: {what}. " for name, what in told.items() if what)


def _nodes(comparison: Comparison) -> list[str]:
    """Share of the lines that came from memory that each node gave."""
    shares = [
        f"{comparison.label(run)} {', '.join(f'{100 * node.share:.1f}' for node in run.nodes)}"
        for run in comparison.runs
    ]
    text = f"Lines read by node of memory, in percent: {'; '.join(shares)}."
    return textwrap.wrap(text, 80)


def _fetch(comparison: Comparison) -> list[str]:
    """Misses of instructions, in the designs that have some."""
    figures = {
        comparison.label(run): [run.fetch.l1_mpki, run.fetch.tlb.l1_mpki, run.fetch.tlb.l2_mpki]
        for run in comparison.runs
        if run.fetch
    }
    shown = {label: [f"{value:.2f}" for value in values] for label, values in figures.items()}
    missed = {
        label: values for label, values in shown.items() if any(value != "0.00" for value in values)
    }
    if not missed:
        return []
    each = "; ".join(
        f"{label} {cache}, {tlb} and {second}" for label, (cache, tlb, second) in missed.items()
    )
    others = "; others none" if len(missed) < len(shown) else ""
    text = (
        "Misses of instructions per 1000, of their cache, their TLB and the second-level TLB: "
        f"{each}{others}."
    )
    return textwrap.wrap(text, 80)


def _sampling(run: Run) -> list[str]:
    """Number of windows, and how sure the figures of one design are."""
    assert run.sample is not None
    misses, half = run.per_kilo("l2_tlb_misses")
    figures = [f"MPKI {misses:.2f} \N{PLUS-MINUS SIGN}{half:.2f}"]
    if run.walks.count:
        walk, half = run.sample.ratio(sampling.of("walk_cycles"), sampling.of("walks"))
        figures.insert(0, f"walk {walk:.1f} \N{PLUS-MINUS SIGN}{half:.1f}")
    windows = f"Sampled in {len(run.windows)} windows"
    if run.sample.share:
        windows += (
            f" with {units.percent(run.sample.share)} of {units.count(run.sample.instructions)} "
            "instructions, estimated for all of them"
        )
    text = (
        f"{windows}; \N{PLUS-MINUS SIGN}: 95 % confidence interval. "
        f"{run.design}: {', '.join(figures)}."
    )
    return textwrap.wrap(text, 80)


def _branches(base: Run) -> str:
    """Part of the front end in the column comp."""
    causes = {"mispredictions": "in mispredicted branches", "fetch": "waiting for instructions"}
    shares = {what: base.share(cause) for cause, what in causes.items()}
    lost = [f"{units.percent(share)} {what}" for what, share in shares.items() if share]
    return f" (of {base.design}'s, {' and '.join(lost)})" if lost else ""
