"""Findings for a figure or table: its numbers, and the paper's claims beside ours."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean, geometric_mean
from typing import Any

from pagelab.experiment.case import Ended, Failed
from pagelab.measuring.bars import Bars
from pagelab.report.timeline import LineChart
from pagelab.reproduce.claim import Answer, Claim

MEAN = "mean"


@dataclass(frozen=True)
class Curves:
    """Lines of a figure, for the page; `marks` are places on its axis."""

    lines: LineChart
    what: str
    marks: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Outcome:
    """A figure's numbers, `rows` by row, each with a value a column.

    `name`, `title` and, unless it has some, `shows` are those of its file (`compute`).
    `averages` are the rows that are averages of others. `drawn` are the rows of the chart, where
    they are not the table's. `failures` say what is missing, and why.
    """

    name: str = ""
    title: str = ""
    shows: str = ""
    notes: list[str] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    rows: dict[str, list[float | None]] = field(default_factory=dict)
    averages: frozenset[str] = frozenset()
    answers: list[Answer] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    drawn: tuple[list[str], dict[str, list[float | None]]] | None = None
    curves: list[Curves] = field(default_factory=list)
    bars: Bars | None = None

    def as_json(self) -> dict[str, Any]:
        """For --json."""
        return {
            "figure": self.name,
            "title": self.title,
            "columns": self.columns,
            "rows": self.rows,
            "claims": [
                {
                    "says": answer.claim.says,
                    "paper": answer.claim.value,
                    "relation": answer.claim.relation,
                    "here": answer.ours,
                    "interval": None if answer.low is None else [answer.low, answer.high],
                    "off": answer.off,
                    "verdict": answer.verdict,
                    "reason": answer.reason,
                }
                for answer in self.answers
            ],
            "failures": self.failures,
        }


def failures(ended: Mapping[str, Ended]) -> list[str]:
    """Reasons for which cases failed, a line each, by their names."""
    return [
        f"{name}: {one.error.splitlines()[0]}"
        for name, one in ended.items()
        if isinstance(one, Failed)
    ]


def answers(
    claims: Iterable[Claim], columns: list[str], rows: Mapping[str, list[float | None]]
) -> list[Answer]:
    """Each claim beside the cell of its row and series, where there is one."""
    cells = {
        (name, column): value
        for name, row in rows.items()
        for column, value in zip(columns, row, strict=True)
    }
    return [Answer(claim=claim, ours=cells.get((claim.row, claim.series))) for claim in claims]


def average(values: Iterable[float | None], kind: str) -> float | None:
    """The average of all values; `None` when one is missing, since it would be of another set."""
    every = list(values)
    found = [value for value in every if value is not None]
    if not found or len(found) < len(every):
        return None
    if kind == "geometric":
        return geometric_mean(found) if min(found) > 0 else None
    return fmean(found)
