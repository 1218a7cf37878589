"""report.html of a sweep: plots, and a table that sorts."""

from pathlib import Path
from typing import Any

from pagelab.experiment.store import write as write_file
from pagelab.report.templating import environment
from pagelab.sweeping import charts
from pagelab.sweeping.file import Sweep
from pagelab.sweeping.table import Estimate, Row, Summary
from pagelab.units import number

_TEMPLATES = environment("pagelab.sweeping")


def write(
    title: str, sweep: Sweep, found: list[Summary], table: list[Row], facts: list[tuple[str, str]],
    path: Path,
) -> None:  # fmt: skip
    """Writes the page; raises PagelabError when it cannot."""
    html = _TEMPLATES.get_template("sweep.html").render(
        title=title,
        drawn=charts.draw(sweep, found),
        heads=heads(sweep, found),
        rows=cells(sweep, found),
        failures=failures(table),
        facts=facts,
    )
    write_file(path, html.encode())


def heads(sweep: Sweep, found: list[Summary]) -> list[str]:
    """The columns of the summary: axes, measures, and measures relative to the baseline."""
    axes = [axis for axis in sweep.axes if axis != "seed"]
    relative = [f"{m}, relative" for m in sweep.measure if any(m in s.relative for s in found)]
    return [*axes, *sweep.measure, *relative]


def cells(sweep: Sweep, found: list[Summary]) -> list[list[tuple[str, Any]]]:
    """A row a point: what a cell shows, and what it is sorted by."""
    axes = [axis for axis in sweep.axes if axis != "seed"]
    relative = [m for m in sweep.measure if any(m in s.relative for s in found)]
    table = []
    for summary in found:
        row: list[tuple[str, Any]] = [
            (str(summary.point.get(axis, "")), summary.point.get(axis, "")) for axis in axes
        ]
        for estimates, names in ((summary.measures, sweep.measure), (summary.relative, relative)):
            for name in names:
                one = estimates.get(name)
                row.append((number(None), "") if one is None else (_shown(one, summary), one.mean))
        table.append(row)
    return table


def _shown(estimate: Estimate, summary: Summary) -> str:
    """A number, and of how many replicates it is where some have none."""
    wanted = summary.runs + summary.failed
    of = "" if estimate.runs == wanted else f" ({estimate.runs} of {wanted})"
    return f"{charts.tip(estimate)}{of}"


def failures(table: list[Row]) -> list[tuple[str, int]]:
    """Errors, and how many runs ended in each."""
    counts: dict[str, int] = {}
    for row in table:
        if row["error"]:
            counts[row["error"]] = counts.get(row["error"], 0) + 1
    return list(counts.items())
