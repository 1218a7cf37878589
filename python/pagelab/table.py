"""The table on the terminal: a line a design, 80 columns at most."""

import textwrap
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pagelab import units
from pagelab.results import Comparison, Run
from pagelab.verdict import verdict


@dataclass(frozen=True)
class Row:
    """The figures of one design, as text."""

    design: str
    speedup: str
    cycles: str
    compute: str
    data: str
    translation: str
    os: str
    walk: str
    mpki: str
    tables: str


COLUMNS = {
    "design": "design",
    "speedup": "speed",
    "cycles": "cycles",
    "compute": "comp.",
    "data": "data",
    "translation": "transl.",
    "os": "OS",
    "walk": "walk",
    "mpki": "MPKI",
    "tables": "tables",
}


def row(comparison: Comparison, run: Run) -> Row:
    """The figures of one run; shares are of its own cycles."""
    mark = "" if run.complete else "*"
    return Row(
        design=run.design + mark,
        speedup=speed(comparison, run),
        cycles=units.count(run.cycles.elapsed),
        compute=f"{100 * run.share('compute'):.1f}",
        data=f"{100 * run.share('data'):.1f}",
        translation=f"{100 * run.share('translation'):.1f}",
        os=f"{100 * (run.share('faults') + run.share('migrations')):.1f}",
        walk=f"{run.walks.latency.mean:.1f}" if run.walks.count else "\N{EN DASH}",
        mpki=f"{run.tlb.l2_mpki:.2f}",
        tables=units.size(run.os.peak_table_bytes),
    )


def speed(comparison: Comparison, run: Run) -> str:
    """How much faster than the baseline a run is, with the confidence interval if it is sampled."""
    if run is comparison.baseline:
        return "base"
    text = units.signed_percent(comparison.speedup(run) - 1)
    half = comparison.speedup_interval(run)
    if half is None:
        return text
    return f"{text.removesuffix(' %')} \N{PLUS-MINUS SIGN}{100 * half:.1f} %"


def show(comparison: Comparison, console: Console) -> None:
    """Prints the table, what its columns mean, and the answer."""
    console.print(terminal_table(comparison))
    console.print(legend(comparison), style="dim", highlight=False)
    console.print()
    console.print(str(verdict(comparison)), highlight=False)


def terminal_table(comparison: Comparison) -> Table:
    """The comparison as a rich table."""
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="bold",
    )
    for name, heading in COLUMNS.items():
        table.add_column(
            heading, justify="left" if name == "design" else "right", no_wrap=True, ratio=None
        )
    for run in comparison.runs:
        cells = row(comparison, run)
        faster = Text(cells.speedup)
        if run is not comparison.baseline:
            faster.stylize("green" if comparison.speedup(run) >= 1 else "red")
        table.add_row(*(faster if name == "speedup" else getattr(cells, name) for name in COLUMNS))
    return table


def legend(comparison: Comparison) -> str:
    """What the columns mean, in lines of 80 columns at most."""
    lines = [
        f"speed: against {comparison.baseline.design}. comp., data, transl., OS: percent of cycles "
        "spent",
        "computing, waiting for data, translating, in faults and migrations. walk: mean",
        "cycles of a page walk. MPKI: second-level TLB misses per 1000 instructions.",
    ]
    if len(comparison.baseline.windows) > 1:
        lines += _sampling(comparison.baseline)
    if comparison.baseline.nodes:
        lines += _nodes(comparison)
    if not comparison.complete:
        lines.append("* ended early")
    return "\n".join(lines)


def _nodes(comparison: Comparison) -> list[str]:
    """What share of the lines that came from memory each node gave."""
    shares = [
        f"{run.design} {', '.join(f'{100 * node.share:.1f}' for node in run.nodes)}"
        for run in comparison.runs
    ]
    text = f"Lines read by node of memory, in percent: {'; '.join(shares)}."
    return textwrap.wrap(text, 80)


def _sampling(run: Run) -> list[str]:
    """How many windows there were, and how sure the figures of one design are."""
    figures = []
    if run.walks.count:
        walk, half = run.sampled("walk_cycles", "walks")
        figures.append(f"walk {walk:.1f} \N{PLUS-MINUS SIGN}{half:.1f}")
    misses, half = run.sampled("l2_tlb_misses", "instructions")
    figures.append(f"MPKI {1000 * misses:.2f} \N{PLUS-MINUS SIGN}{1000 * half:.2f}")
    return [
        f"Sampled in {len(run.windows)} windows; \N{PLUS-MINUS SIGN}: 95 % confidence interval. "
        f"{run.design}:",
        ", ".join(figures) + ".",
    ]
