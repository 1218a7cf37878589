"""A figure that is simulated: a metric of every series over every workload."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from pagelab.design import check
from pagelab.errors import PagelabError
from pagelab.experiment.backends import simulate
from pagelab.experiment.case import Case, Ended, Failed
from pagelab.reproduce.claim import Answer, Claim
from pagelab.reproduce.metrics import METRICS
from pagelab.reproduce.numbers import Numbers
from pagelab.reproduce.outcome import MEAN, Outcome, average
from pagelab.reproduce.paper import COMMON, Changes, Common, Model, Paper, Shown, Workload
from pagelab.results import Run
from pagelab.sources import Workload as Built
from pagelab.sources import together
from pagelab.window import Window

# Free memory must hold the program, its page tables, and what fragmentation costs.
SLACK = 1.15
# Physical lines are numbered in 31 bits.
LARGEST_GIB = 128


class Series(Model):
    """A bar or line: a design on the machine with keys of it changed.

    `against` names the series that it is divided by; without it the metric itself is shown.
    A hidden series is only there to be divided by. `metric` replaces the figure's.
    """

    name: str
    design: str
    set: list[str] = []
    against: str | None = None
    metric: str | None = None
    hidden: bool = False


@dataclass(frozen=True)
class Cell:
    """One series over one workload."""

    series: str
    workload: str


class Simulated(Shown):
    """One figure.

    `footprint_gib` replaces the workloads' own, `memory_gib` what would be chosen for it.
    `machine` and `sample` replace the paper's, `workload` its workloads; `workloads` picks some of
    them. `mean` is how workloads are averaged. `rows` says what has a row of the table.
    """

    kind: Literal["simulate"] = "simulate"
    metric: str
    mean: Literal["geometric", "arithmetic", "none"] = "arithmetic"
    rows: Literal["workloads", "series"] = "workloads"
    machine: str | None = None
    workload: list[Workload] = []
    workloads: list[str] | None = None
    footprint_gib: float | None = Field(default=None, gt=0)
    memory_gib: int | None = Field(default=None, gt=0)
    sample: dict[str, int] | None = None
    series: list[Series]

    @model_validator(mode="after")
    def _names_exist(self) -> "Simulated":
        names = {series.name for series in self.series}
        used = [s.against for s in self.series] + [c.against for c in self.claim]
        missing = {name for name in [*used, *(c.series for c in self.claim)] if name} - names
        if missing:
            raise ValueError(f"there is no series {', '.join(sorted(missing))}")
        for metric in [self.metric, *(s.metric for s in self.series if s.metric)]:
            if metric not in METRICS:
                raise ValueError(f"there is no metric {metric}; there are {', '.join(METRICS)}")
        return self

    def check(self, path: Path, common: Common) -> None:
        """Raises PagelabError for a workload that paper.toml does not have."""
        labels = {workload.label for workload in common.workload}
        for label in self.workloads or []:
            if label not in labels:
                raise PagelabError(f"{path}: {COMMON} has no workload {label}")

    def chosen(self, paper: Paper) -> list[Workload]:
        """The workloads of the figure, in the paper's order."""
        every = self.workload or paper.common.workload
        return [w for w in every if self.workloads is None or w.label in self.workloads]

    def cases(self, paper: Paper, changes: Changes) -> dict[Cell, Case]:
        """A simulation a series and workload; those that are the same have the same key.

        Raises PagelabError when a footprint does not fit the largest memory.
        """
        return {
            Cell(series.name, workload.label): self._case(paper, series, workload, changes)
            for workload in self.chosen(paper)
            for series in self.series
        }

    def outcome(self, paper: Paper, ended: Mapping[Cell, Ended]) -> Outcome:
        """Values, averages and claims."""
        chosen = self.chosen(paper)
        complete: dict[tuple[str, str], Run] = {}
        failed: dict[tuple[str, str], list[str]] = {}
        for workload in chosen:
            for series in self.series:
                found = ended[Cell(series.name, workload.label)]
                if isinstance(found, Failed):
                    failed.setdefault((series.name, found.error), []).append(workload.label)
                else:
                    run = found.data | {"host": found.host}
                    complete[series.name, workload.label] = Run.model_validate(run)
        numbers = Numbers(
            complete,
            {series.name: series.metric or self.metric for series in self.series},
            {series.name: series.against for series in self.series},
        )
        averages = self._averages(chosen)

        def shown(series: str, row: str) -> float | None:
            if row not in averages:
                return numbers.shown(series, row)
            return average([numbers.shown(series, label) for label in averages[row]], self.mean)

        columns = [series.name for series in self.series if not series.hidden]
        rows = {
            row: [shown(column, row) for column in columns]
            for row in [*(workload.label for workload in chosen), *averages]
        }
        if self.rows == "series":
            turned = {
                column: [row[at] for row in rows.values()] for at, column in enumerate(columns)
            }
            columns, rows = list(rows), turned
        return Outcome(
            columns=columns,
            rows=rows,
            averages=frozenset(averages),
            answers=[self._answer(claim, numbers, averages) for claim in self.claim],
            failures=[
                f"{series} over {', '.join(labels)}: {reason}"
                for (series, reason), labels in failed.items()
            ],
        )

    def _averages(self, chosen: list[Workload]) -> dict[str, list[str]]:
        """Groups of more than one workload, and the mean of all, with their members."""
        if self.mean == "none":
            return {}
        groups: dict[str, list[str]] = {}
        for workload in chosen:
            if workload.group:
                groups.setdefault(workload.group, []).append(workload.label)
        averages = {group: members for group, members in groups.items() if len(members) > 1}
        return averages | {MEAN: [workload.label for workload in chosen]}

    def _answer(self, claim: Claim, numbers: Numbers, averages: dict[str, list[str]]) -> Answer:
        series, against = claim.series, claim.against
        labels = averages.get(claim.row, [claim.row])
        values = [
            numbers.ratio(series, against, label) if against else numbers.shown(series, label)
            for label in labels
        ]
        ours = average(values, self.mean)
        errors = [numbers.error(series, against, label) for label in labels]
        known = [error for error in errors if error is not None]
        low = high = None
        if ours is not None and len(known) == len(errors):
            # Workloads are sampled independently; what is averaged is their logarithms, or near it.
            half = ours * math.hypot(*known) / len(known)
            low, high = ours - half, ours + half
        relative = bool(against or numbers.against(series))
        return Answer(claim=claim, ours=ours, low=low, high=high, relative=relative)

    def _case(self, paper: Paper, series: Series, workload: Workload, changes: Changes) -> Case:
        common = paper.common
        footprint = changes.footprint_gib or self.footprint_gib or workload.footprint_gib
        machine = self._machine(paper)
        keys = [*common.set, *changes.set, *series.set]
        copies = workload.copies * changes.copies
        memory = check(machine, keys)["memory"]
        if not memory.get("nodes"):
            utilisation = float(memory["utilisation"])
            together_gib = footprint * copies
            gib = self.memory_gib or memory_gib(together_gib, utilisation, memory)
            if gib * (1 - utilisation) < together_gib:
                raise PagelabError(
                    f"{workload.label} takes {together_gib:g} GiB, but {gib} GiB of memory of "
                    f"which {utilisation:.0%} are in use leave less"
                )
            keys = [f"memory.memory_bytes={gib << 30}", *keys]
        sample = {"windows": 0} if changes.full else self.sample or common.sample
        parameters = {"footprint": str(round(footprint * 2**30))}
        parameters |= {key: str(value) for key, value in sample.items()} | workload.parameters
        program = Built(workload.name, parameters).describe(Window(limit=workload.limit))
        label = f"{series.name} {workload.label}"
        return simulate.case(label, series.design, machine, keys, together([program], copies))

    def _machine(self, paper: Paper) -> str:
        """A preset's name, or the path of a file in the paper's folder."""
        name = self.machine or paper.common.machine
        return str(paper.folder / name) if name.endswith(".toml") else name


def memory_gib(footprint: float, utilisation: float, least: dict[str, Any]) -> int:
    """The least power of two, from the machine's own size on, of which enough is free.

    A paper that simulates a stretch of each program can do with less memory than its footprint.
    Here the whole footprint is in memory, so that page tables have their real size.
    """
    gib = max(int(least["memory_bytes"]) >> 30, 1)
    while gib < LARGEST_GIB and gib * (1 - utilisation) < footprint * SLACK:
        gib *= 2
    return gib
