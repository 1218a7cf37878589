"""What was computed for a figure: its values, averages, and the paper's claims beside ours."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, geometric_mean

from pagelab.reproduce.figure import Claim, Collisions, Figure, Paper
from pagelab.reproduce.numbers import Numbers
from pagelab.reproduce.plan import Cell, workloads
from pagelab.results import Failure, Run

MEAN = "mean"
# A claim further off than this has to be explained in docs/fidelity.md.
FAR = 1 / 3
NO_CHANGE = 0.01


@dataclass(frozen=True)
class Answer:
    """A claim of the paper beside what was computed; `None` when that could not be.

    `half` is half the 95 % confidence interval of ours where programs were sampled.

    `relative` says that the numbers are ratios, so that their distances from 1 are compared:
    1.10 against 1.126 is a gain of 0.10 against one of 0.126.
    """

    claim: Claim
    ours: float | None
    half: float | None
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
    complete: dict[tuple[str, str], Run] = {}
    failed: dict[tuple[str, str], list[str]] = {}
    for workload in chosen:
        for series in figure.series:
            run = runs[Cell(name, series.name, workload.label)]
            if isinstance(run, Run) and run.complete:
                complete[series.name, workload.label] = run
            else:
                reason = run.error if isinstance(run, Failure) else run.stopped
                failed.setdefault((series.name, reason or "ended early"), []).append(workload.label)
    numbers = Numbers(figure, complete)
    averages = _averages(paper, figure)

    def shown(series: str, row: str) -> float | None:
        if row not in averages:
            return numbers.shown(series, row)
        return _mean([numbers.shown(series, label) for label in averages[row]], figure.mean)

    columns = [series.name for series in figure.series if not series.hidden]
    return Outcome(
        name=name,
        title=figure.title,
        shows=figure.shows,
        notes=figure.notes,
        columns=columns,
        rows={
            row: [shown(column, row) for column in columns]
            for row in [*(workload.label for workload in chosen), *averages]
        },
        averages=frozenset(averages),
        answers=[_answer(claim, numbers, averages) for claim in figure.claim],
        failures=[
            f"{series} over {', '.join(rows)}: {reason}"
            for (series, reason), rows in failed.items()
        ],
    )


def _answer(claim: Claim, numbers: Numbers, averages: dict[str, list[str]]) -> Answer:
    series, against = claim.series, claim.against
    labels = averages.get(claim.row, [claim.row])
    values = [
        numbers.ratio(series, against, label) if against else numbers.shown(series, label)
        for label in labels
    ]
    ours = _mean(values, numbers.figure.mean)
    errors = [numbers.error(series, against, label) for label in labels]
    known = [error for error in errors if error is not None]
    half = None
    if ours is not None and len(known) == len(errors):
        # Workloads are sampled independently; what is averaged is their logarithms, or near it.
        half = ours * math.hypot(*known) / len(known)
    return Answer(claim, ours, half, relative=bool(against or numbers.against(series)))


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
            Answer(claim, rows.get(claim.row, [None])[0], None, relative=False)
            for claim in figure.claim
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


def _mean(values: Iterable[float | None], kind: str) -> float | None:
    """The average of all values; `None` when one is missing, since it would be of another set."""
    every = list(values)
    found = [value for value in every if value is not None]
    if not found or len(found) < len(every):
        return None
    if kind == "geometric":
        return geometric_mean(found) if min(found) > 0 else None
    return fmean(found)
