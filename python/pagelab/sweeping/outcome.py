"""Outcome of a sweep: a row a point, and what its measures are over the seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pagelab
from pagelab import units
from pagelab.errors import PagelabError
from pagelab.experiment.case import Case, Ended
from pagelab.readable import as_text
from pagelab.sweeping import report, table
from pagelab.sweeping.file import Point, Sweep

if TYPE_CHECKING:
    import polars
    import pyarrow


@dataclass(frozen=True)
class Outcome:
    """The rows of a sweep, one a point, and a summary for each point without its seed."""

    sweep: Sweep
    rows: list[table.Row]
    summaries: list[table.Summary]

    @property
    def counts(self) -> dict[str, int]:
        """Number of points that are done, failed and missing."""
        statuses = [row[table.STATUS] for row in self.rows]
        return {one: statuses.count(one) for one in (table.DONE, table.FAILED, table.MISSING)}

    def to_arrow(self) -> "pyarrow.Table":
        """The rows as a table: what `sweep.parquet` has."""
        return table.arrow(self.rows)

    def to_polars(self) -> "polars.DataFrame":
        """As `to_arrow`, in polars. Raises PagelabError where polars is not installed."""
        from pagelab import frames

        return frames.polars_frame(self.to_arrow())

    def save(self, out: Path, name: str, facts: Sequence[tuple[str, str]] = ()) -> None:
        """Writes sweep.parquet and report.html into a directory."""
        table.save(self.rows, out / "sweep.parquet")
        title = self.sweep.title or as_text(name)
        page = out / "report.html"
        report.write(title, self.sweep, self.summaries, self.rows, list(facts), page)

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {status}" for status, count in self.counts.items() if count)
        return f"<Outcome of a sweep over {', '.join(self.sweep.axes)}: {counts}>"


def outcome(
    swept: Sweep, path: Path, cases: list[tuple[Point, Case]], ended: dict[str, Ended]
) -> Outcome:
    """The outcome of a sweep's cases by their keys.

    Raises PagelabError for a measure that no result has; `path` is the file that names it.
    """
    rows = table.rows([(point, ended.get(case.key)) for point, case in cases], swept.axes)
    known = table.measures(rows, swept.axes)
    for place, measure in swept.measures():
        if measure not in known and any(row[table.STATUS] == table.DONE for row in rows):
            raise PagelabError(f"{path}: {place}: no result has a number called {measure}")
    measures = list(dict.fromkeys(measure for _, measure in swept.measures()))
    return Outcome(swept, rows, table.summaries(rows, swept.axes, measures, swept.baseline))


def facts(path: Path, runs: int, seconds: float) -> list[tuple[str, str]]:
    """Statements of the page on how it came about."""
    return [
        ("runs", str(runs)),
        ("took", units.duration(seconds)),
        ("file", as_text(path)),
        ("pagelab", pagelab.__version__),
    ]
