"""The findings on the terminal, in 80 columns."""

from rich.console import Console
from rich.table import Table

from pagelab.measuring.findings import Finding, findings
from pagelab.measuring.in_short import sentences
from pagelab.measuring.result import Measurement


def show(measurement: Measurement, console: Console) -> None:
    """Prints what was found, what the CPU claims, and what could not be done."""
    noise = measurement.noise
    console.print(
        f"{measurement.environment.cpu}, Linux {measurement.environment.kernel.split()[0]}; "
        f"the machine was {noise.verdict} ({noise.lost:.1%} of the time lost)",
        highlight=False,
    )
    if told := sentences(measurement):
        console.print(" ".join(told), style="bold", highlight=False)
    table = _table("value", "how sure", "claimed")
    for part, rows in _by_part(findings(measurement)):
        table.add_section()
        table.add_row(f"[bold]{part}[/bold]")
        for row in rows:
            table.add_row(row.what, row.value, row.note, row.claimed)
    console.print(table)
    console.print("In brackets: share of the resamples that show the step.", style="dim")
    _not_done(measurement, console)


def show_against(one: Measurement, other: Measurement, console: Console) -> None:
    """Prints two results side by side, with the ratio of the first to the second."""
    others = {(row.part, row.what): row for row in findings(other)}
    table = _table("this", "other", "ratio")
    for part, rows in _by_part(findings(one)):
        table.add_section()
        table.add_row(f"[bold]{part}[/bold]")
        for row in rows:
            match = others.get((part, row.what))
            table.add_row(row.what, row.value, match.value if match else "", ratio(row, match))
    console.print(table)


def ratio(one: Finding, other: Finding | None) -> str:
    """Ratio of the first figure to the other; empty where there are not two numbers."""
    if other is None or one.number is None or not other.number:
        return ""
    return f"{one.number / other.number:.2f} ×"


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("", width=33)
    table.add_column(headings[0], justify="right", width=13)
    table.add_column(headings[1], width=22, style="dim")
    table.add_column(headings[2], justify="right", width=8)
    return table


def _by_part(rows: list[Finding]) -> list[tuple[str, list[Finding]]]:
    parts: dict[str, list[Finding]] = {}
    for row in rows:
        parts.setdefault(row.part, []).append(row)
    return list(parts.items())


def _not_done(measurement: Measurement, console: Console) -> None:
    for left in measurement.not_done:
        console.print(f"not done ({left.part}): {left.what}: {left.why}", highlight=False)
