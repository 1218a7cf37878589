"""Costs of a benchmark in guests: a series a configuration, a row a size, medians of samples."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

from pagelab.errors import PagelabError
from pagelab.experiment.backends import guest
from pagelab.experiment.case import Case, Ended, Failed
from pagelab.reproduce import paired
from pagelab.reproduce.claim import Answer, Claim
from pagelab.reproduce.outcome import Outcome
from pagelab.reproduce.paper import Changes, Model, Paper, Shown

Sample = dict[str, Any]


class Series(Model):
    """The boots of an entry of linux/bench with this parameter of the kernel, or without it."""

    name: str
    suite: str
    parameter: str | None = None
    without: str | None = None

    def boots(self) -> list[Case]:
        """Raises PagelabError when this machine cannot run them."""
        return [case for job, case in guest.cases(self.suite) if self.takes(job.append.split())]

    def takes(self, parameters: list[str]) -> bool:
        """True if these parameters of the kernel are those of the series."""
        return (self.parameter is None or self.parameter in parameters) and (
            self.without is None or self.without not in parameters
        )


class Guests(Shown):
    """One table.

    Of the samples that a benchmark prints, those of `bench` whose other fields are as `where` says;
    a row a value of the field `row`, named as `row_name` says. Values are divided by the field
    `per`, and shown for each of `values`: time is instructions where they are counted, else ns,
    or, with `number`, that field of the sample.
    `ratio` names two series whose ratio of times is a column. With `pairs`, the boots of the two
    are compared one by one, as they followed each other.
    """

    kind: Literal["guest"]
    bench: str | None = None
    where: dict[str, int | str] = {}
    row: str = "folio_kb"
    row_name: str = "{} KB"
    per: str = "pages"
    unit: str
    number: str | None = None
    values: list[Literal["time", "copies", "atomics"]] = ["time"]
    ratio: tuple[str, str] | None = None
    pairs: bool = False
    series: list[Series]

    def cases(self, paper: Paper, changes: Changes) -> dict[tuple[str, int], Case]:
        """The boots of every series that this machine can run.

        Raises PagelabError when that is none.
        """
        planned, missing = self._planned()
        if not planned:
            raise PagelabError(missing[-1])
        return planned

    def outcome(self, paper: Paper, ended: Mapping[tuple[str, int], Ended]) -> Outcome:
        """Medians, ratios and claims."""
        _, failures = self._planned()
        boots: dict[str, list[list[Sample]]] = {}
        counted = True
        for (series, boot), one in ended.items():
            if isinstance(one, Failed):
                failures.append(f"{series}, boot {boot + 1}: {one.error.splitlines()[0]}")
                continue
            counted &= one.data["icount"] or bool(one.data["counts"])
            boots.setdefault(series, []).append(list(self._samples(one.data)))
        what = self.number or ("instructions" if counted else "nanoseconds")
        shows = f"{what.capitalize()} per {self.unit}. {self.shows}"
        table = self._paired(boots) if self.pairs else self._medians(boots)
        return Outcome(
            shows=shows.rstrip(),
            columns=table.columns,
            rows=table.rows,
            answers=[answer for claim in self.claim for answer in table.answers(claim)],
            failures=failures,
            drawn=table.drawn(),
        )

    def _planned(self) -> tuple[dict[tuple[str, int], Case], list[str]]:
        planned: dict[tuple[str, int], Case] = {}
        missing = []
        for series in self.series:
            try:
                planned |= {(series.name, at): case for at, case in enumerate(series.boots())}
            except PagelabError as error:
                missing.append(str(error))
        return planned, list(dict.fromkeys(missing))

    def _samples(self, data: dict[str, Any]) -> Iterator[Sample]:
        """Findings of a boot for this table, each value for one unit."""
        counts = data["counts"] or [[]] * len(data["printed"])
        for printed, (*numbers,) in zip(data["printed"], counts, strict=True):
            wanted = {"bench": self.bench, **self.where} if self.bench else self.where
            if any(printed.get(key) != value for key, value in wanted.items()):
                continue
            instructions, atomics = numbers if numbers else (None, None)
            units = printed[self.per]
            found = {
                "time": printed.get(self.number or "ns") if instructions is None else instructions,
                "copies": printed.get("copies"),
                "atomics": atomics,
            }
            yield {key: value / units for key, value in found.items() if value is not None} | {
                "row": self.row_name.format(printed[self.row])
            }

    def _medians(self, boots: dict[str, list[list[Sample]]]) -> "_Table":
        cells: dict[tuple[str, str, str], float] = {}
        for series, found in boots.items():
            every = [sample for boot in found for sample in boot]
            for row in dict.fromkeys(sample["row"] for sample in every):
                for value in self.values:
                    taken = [s[value] for s in every if s["row"] == row and value in s]
                    if taken:
                        cells[series, row, value] = median(taken)
        names = [series.name for series in self.series if series.name in boots]
        rows = list(dict.fromkeys(row for _, row, _ in cells))
        columns = names + ([f"{self.ratio[0]}/{self.ratio[1]}"] if self.ratio else [])
        columns += [f"{name}: {value}" for value in self.values[1:] for name in names]
        return _Table(
            columns,
            {row: self._row(row, names, cells) for row in rows},
            {
                (series, row): time
                for (series, row, value), time in cells.items()
                if value == "time"
            },
            names,
        )

    def _row(
        self, row: str, names: list[str], cells: dict[tuple[str, str, str], float]
    ) -> list[float | None]:
        found: list[float | None] = [cells.get((name, row, "time")) for name in names]
        if self.ratio:
            above, below = (cells.get((name, row, "time")) for name in self.ratio)
            found.append(above / below if above is not None and below else None)
        return found + [cells.get((n, row, value)) for value in self.values[1:] for n in names]

    def _paired(self, boots: dict[str, list[list[Sample]]]) -> "_Table":
        assert self.ratio is not None
        above, below = self.ratio
        sides = [
            [[(sample["row"], sample["time"]) for sample in boot] for boot in boots.get(name, [])]
            for name in (above, below)
        ]
        rows = paired.rows(*sides)
        return _Table(
            [below, above, f"{above}/{below}", "at least", "at most"],
            {
                row.name: [row.below, row.above, row.ratio.median, row.ratio.low, row.ratio.high]
                for row in rows
            },
            {(name, row.name): getattr(row, side)
             for row in rows for name, side in ((above, "above"), (below, "below"))},
            [below, above],
            {(above, below, row.name): row.ratio for row in rows},
        )  # fmt: skip


@dataclass(frozen=True)
class _Table:
    """Numbers by row; `times` by series and row, and `ratios` of pairs of boots with intervals."""

    columns: list[str]
    rows: dict[str, list[float | None]]
    times: dict[tuple[str, str], float]
    names: list[str]
    ratios: dict[tuple[str, str, str], paired.Ratio] = field(default_factory=dict)

    def drawn(self) -> tuple[list[str], dict[str, list[float | None]]]:
        """Times only: other columns have other units."""
        return self.names, {
            row: [self.times.get((name, row)) for name in self.names] for row in self.rows
        }

    def answers(self, claim: Claim) -> Iterator[Answer]:
        """An answer, or one for each row when the claim is of "every"."""
        for row in self.rows if claim.row == "every" else [claim.row]:
            one = claim.model_copy(update={"row": row})
            if claim.row == "every":
                one = one.model_copy(update={"says": f"{row}: {claim.says}"})
            ratio = self.ratios.get((claim.series, claim.against or "", row))
            if ratio is not None:
                yield Answer(
                    claim=one, ours=ratio.median, low=ratio.low, high=ratio.high, relative=True
                )
                continue
            ours = self.times.get((claim.series, row))
            if claim.against is not None:
                below = self.times.get((claim.against, row))
                ours = ours / below if ours is not None and below else None
            yield Answer(claim=one, ours=ours, relative=claim.against is not None)
