"""The table on the terminal: a line a design, 80 columns at most."""

from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from pagelab import units
from pagelab.results import Comparison, Run


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
    speed = units.signed_percent(comparison.speedup(run) - 1)
    mark = "" if run.complete else "*"
    return Row(
        design=run.design + mark,
        speedup="base" if run is comparison.baseline else speed,
        cycles=units.count(run.cycles.elapsed),
        compute=f"{100 * run.share('compute'):.1f}",
        data=f"{100 * run.share('data'):.1f}",
        translation=f"{100 * run.share('translation'):.1f}",
        os=f"{100 * (run.share('faults') + run.share('migrations')):.1f}",
        walk=f"{run.walks.latency.mean:.1f}" if run.walks.count else "\N{EN DASH}",
        mpki=f"{run.tlb.l2_mpki:.2f}",
        tables=units.size(run.os.peak_table_bytes),
    )


def terminal_table(comparison: Comparison) -> Table:
    """The comparison as a rich table."""
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="bold",
        caption=_caption(comparison),
        caption_justify="left",
        caption_style="dim",
    )
    for name, heading in COLUMNS.items():
        table.add_column(
            heading, justify="left" if name == "design" else "right", no_wrap=True, ratio=None
        )
    for run in comparison.runs:
        cells = row(comparison, run)
        speed = Text(cells.speedup)
        if run is not comparison.baseline:
            speed.stylize("green" if comparison.speedup(run) >= 1 else "red")
        table.add_row(*(speed if name == "speedup" else getattr(cells, name) for name in COLUMNS))
    return table


def _caption(comparison: Comparison) -> str:
    text = (
        f"speed: against {comparison.baseline.design}. comp., data, transl., OS: % of the "
        "cycles that go to\ncomputing, waiting for data, translation, faults and migrations. "
        "walk: mean cycles a\npage walk takes. MPKI: second-level TLB misses per 1000 "
        "instructions."
    )
    if not all(run.complete for run in comparison.runs):
        text += "\n* stopped before the end"
    return text
