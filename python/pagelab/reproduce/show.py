"""A figure on the terminal."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from pagelab import units
from pagelab.reproduce.claim import Answer
from pagelab.reproduce.outcome import Outcome
from pagelab.units import number


def show(outcome: Outcome, console: Console) -> None:
    """Prints the figure's numbers, the paper's claims beside ours, and what failed."""
    console.print(f"[bold]{outcome.title}[/bold]")
    console.print(outcome.shows, style="dim", highlight=False)
    for table in _tables(outcome, console.width):
        console.print(table)
    if outcome.answers:
        console.print(_claims(outcome.answers))
    for note in outcome.notes:
        console.print(f"Note: {note}", style="dim", highlight=False)
    for failure in outcome.failures:
        console.print(f"Not computed: {failure}", style="red", highlight=False, markup=False)
    console.print()


def _tables(outcome: Outcome, width: int) -> Iterator[Table]:
    """The numbers as one table, or as several with the same rows where it is wider than that."""
    if not outcome.rows:
        return
    rows = {label: [number(value) for value in row] for label, row in outcome.rows.items()}
    # Headings may be broken between words, numbers nowhere.
    widths = [
        max(map(len, [*column.split(), *(row[place] for row in rows.values())]))
        for place, column in enumerate(outcome.columns)
    ]
    label = max(map(len, rows))
    several = label + sum(widths) + len(widths) > width
    start = 0
    while start < len(widths):
        end = start + 1
        while end < len(widths) and label + sum(widths[start : end + 1]) + end - start < width:
            end += 1
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        table.add_column("", no_wrap=True)
        for column, least in zip(outcome.columns[start:end], widths[start:end], strict=True):
            table.add_column(column, justify="right", width=least if several else None)
        for name, row in rows.items():
            style = "bold" if name in outcome.averages else None
            table.add_row(name, *row[start:end], style=style)
        yield table
        start = end


def _claims(answers: list[Answer]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("what the paper says", ratio=1)
    for heading in ("paper", "here", "off", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    for answer in answers:
        table.add_row(*cells(answer))
    return table


def cells(answer: Answer) -> tuple[str, str, str, str, str]:
    """A claim's row: what it says, the paper's number, ours, the difference, the verdict."""
    claim = answer.claim
    sign = {"below": "\N{LESS-THAN OR EQUAL TO} ", "above": "\N{GREATER-THAN OR EQUAL TO} "}
    paper = "" if claim.value is None else sign.get(claim.relation, "") + number(claim.value)
    ours = "" if claim.relation == "concludes" else number(answer.ours) + interval(answer)
    off = "" if answer.off is None else units.signed_percent(answer.off, 0)
    says = f"{claim.says} Here: {answer.reason}." if answer.reason else claim.says
    return says, paper, ours, off, answer.verdict


def interval(answer: Answer) -> str:
    """The 95 % interval of our number, as ± where it is even; nothing for none."""
    if answer.ours is None or answer.low is None or answer.high is None:
        return ""
    above, below = answer.high - answer.ours, answer.ours - answer.low
    if abs(above - below) < 1e-6 * abs(answer.ours):
        return f" \N{PLUS-MINUS SIGN}{number(above)}"
    return f" ({number(answer.low)} to {number(answer.high)})"
