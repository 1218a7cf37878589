"""What was computed for a figure: its values, averages, and the paper's claims beside ours."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, geometric_mean

from pagelab.reproduce.figure import Claim, Collisions, Figure, Paper
from pagelab.reproduce.metrics import METRICS
from pagelab.reproduce.plan import Cell, workloads
from pagelab.results import Failure, Run

MEAN = "mean"
# A claim further off than this has to be explained in docs/fidelity.md.
FAR = 1 / 3
NO_CHANGE = 0.01


@dataclass(frozen=True)
class Answer:
    """A claim of the paper beside what was computed; `None` when that could not be.

    `relative` says that the numbers are ratios, so that their distances from 1 are compared:
    1.10 against 1.126 is a gain of 0.10 against one of 0.126.
    """

    claim: Claim
    ours: float | None
    relative: bool

    @property
    def off(self) -> float | None:
        """Our number's distance from the paper's, as a share of the paper's."""
        if self.ours is None or self.claim.relation == "below":
            return None
        base = 1.0 if self.relative else 0.0
        paper = self.claim.value - base
        return (self.ours - self.claim.value) / abs(paper) if paper else None

    @property
    def verdict(self) -> str:
        """In words: whether the claim holds, or is a third or more off."""
        if self.ours is None:
            return "not computed"
        if self.claim.relation == "below":
            return "holds" if self.ours <= self.claim.value else "does not hold"
        # Where the paper sees no change there is nothing to take a third of.
        off = self.ours - self.claim.value if self.off is None else self.off
        near = NO_CHANGE if self.off is None else FAR
        return "near" if abs(off) <= near else "far"


@dataclass(frozen=True)
class Outcome:
    """A figure's numbers: `rows` by workload, group and mean, each with a value a series."""

    name: str
    title: str
    shows: str
    notes: list[str]
    columns: list[str]
    rows: dict[str, list[float | None]]
    averages: frozenset[str]
    answers: list[Answer]
    failures: list[str]


def of_runs(paper: Paper, name: str, figure: Figure, runs: dict[Cell, Run | Failure]) -> Outcome:
    """The numbers of one figure, out of the results of its cells."""
    chosen = workloads(paper, figure)
    raw: dict[tuple[str, str], float] = {}
    failed: dict[tuple[str, str], list[str]] = {}
    for workload in chosen:
        for series in figure.series:
            run = runs[Cell(name, series.name, workload.label)]
            if isinstance(run, Run) and run.complete:
                value = METRICS[series.metric or figure.metric].of(run)
                if not math.isnan(value):
                    raw[series.name, workload.label] = value
            else:
                reason = run.error if isinstance(run, Failure) else run.stopped
                failed.setdefault((series.name, reason or "ended early"), []).append(workload.label)
    labels = [workload.label for workload in chosen]
    averages = _averages(paper, figure)
    by_name = {series.name: series for series in figure.series}

    def shown(name: str, label: str) -> float | None:
        return _divide(raw.get((name, label)), by_name[name].against, label, raw)

    def row(name: str, against: str | None, row: str) -> float | None:
        values = []
        for label in averages.get(row, [row]):
            value = shown(name, label)
            if against is not None and value is not None:
                base = shown(against, label)
                value = value / base if base else None
            values.append(value)
        return _mean(values, figure.mean) if row in averages else values[0]

    columns = [series.name for series in figure.series if not series.hidden]
    return Outcome(
        name=name,
        title=figure.title,
        shows=figure.shows,
        notes=figure.notes,
        columns=columns,
        rows={
            label: [row(column, None, label) for column in columns]
            for label in [*labels, *averages]
        },
        averages=frozenset(averages),
        answers=[
            Answer(
                claim,
                row(claim.series, claim.against, claim.row),
                relative=bool(claim.against or by_name[claim.series].against),
            )
            for claim in figure.claim
        ],
        failures=[
            f"{series} over {', '.join(rows)}: {reason}"
            for (series, reason), rows in failed.items()
        ],
    )


def of_collisions(name: str, figure: Collisions, counts: list[int]) -> Outcome:
    """Collisions by size of the table, relative to the smallest."""
    rows: dict[str, list[float | None]] = {
        _kib(kib): [count / counts[0]] for kib, count in zip(figure.table_kib, counts, strict=True)
    }
    return Outcome(
        name=name,
        title=figure.title,
        shows=figure.shows,
        notes=figure.notes,
        columns=["collisions"],
        rows=rows,
        averages=frozenset(),
        answers=[
            Answer(claim, rows.get(claim.row, [None])[0], relative=False) for claim in figure.claim
        ],
        failures=[],
    )


def _kib(kib: int) -> str:
    for unit, name in ((1 << 20, "GB"), (1 << 10, "MB")):
        if kib >= unit:
            return f"{kib // unit} {name}"
    return f"{kib} KB"


def _averages(paper: Paper, figure: Figure) -> dict[str, list[str]]:
    """Groups of more than one workload, and the mean of all, with their members."""
    chosen = workloads(paper, figure)
    groups: dict[str, list[str]] = {}
    for workload in chosen:
        if workload.group:
            groups.setdefault(workload.group, []).append(workload.label)
    averages = {group: members for group, members in groups.items() if len(members) > 1}
    return averages | {MEAN: [workload.label for workload in chosen]}


def _divide(
    value: float | None, against: str | None, label: str, raw: dict[tuple[str, str], float]
) -> float | None:
    if against is None or value is None:
        return value
    base = raw.get((against, label))
    return value / base if base else None


def _mean(values: Iterable[float | None], kind: str) -> float | None:
    """The average of all values; `None` when one is missing, since it would be of another set."""
    every = list(values)
    found = [value for value in every if value is not None]
    if not found or len(found) < len(every):
        return None
    if kind == "geometric":
        return geometric_mean(found) if min(found) > 0 else None
    return fmean(found)
