"""Programs run on this machine in turns, in two or more ways: how much faster one is."""

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Literal

from pydantic import Field

from pagelab.errors import unknown
from pagelab.experiment.backends import native as backend
from pagelab.experiment.case import Case, Ended, Failed
from pagelab.measuring import native, probe
from pagelab.measuring.native import Interval, Run
from pagelab.reproduce.claim import Answer, Claim
from pagelab.reproduce.outcome import Outcome, failures
from pagelab.reproduce.paper import Changes, Common, Model, Paper, Shown

# The word of a command that stands for the probe, which has programs of its own.
_PROBE = "$PROBE"
_SAYS: dict[backend.Metric, str] = {
    "cpu": "Processor time, s",
    "user": "Processor time in the program, s",
    "system": "Processor time in the kernel, s",
    "wall": "Time, s",
    "faults": "Page faults that needed no input",
}


class Variant(Model):
    """A way to run the programs.

    `before` are words before a program's command and `after` behind it, `environment` variables;
    `huge_pages` gives or takes transparent huge pages, and leaves them as they are if it is absent.
    """

    before: list[str] = []
    after: list[str] = []
    environment: dict[str, str] = {}
    huge_pages: bool | None = None


class Native(Shown):
    """A row a program, a column a variant: medians of `metric`, and what it is over `against`'s.

    A program takes `budget` seconds at the most, unless that is less than five rounds.
    """

    kind: Literal["native"]
    metric: backend.Metric = "cpu"
    budget: float = Field(default=60.0, gt=0)
    against: str
    programs: dict[str, list[str]] = Field(min_length=1)
    variants: dict[str, Variant] = Field(min_length=2)

    def check(self, path: Path, common: Common) -> None:
        """Raises PagelabError when a variant is named that is not there."""
        named = [self.against, *(c.series for c in self.claim if c.series)]
        named += [claim.against for claim in self.claim if claim.against]
        for name in named:
            if name not in self.variants:
                raise unknown("variant", name, self.variants)

    def cases(self, paper: Paper, changes: Changes) -> dict[str, Case]:
        """A case a program, with all variants."""
        changes.check_may_run()
        return {
            name: backend.case(
                f"{paper.name}: {name}",
                {key: self._variant(one, words) for key, one in self.variants.items()},
                self.against,
                self.metric,
                self.budget,
            )
            for name, words in self.programs.items()
        }

    def outcome(self, paper: Paper, ended: Mapping[str, Ended]) -> Outcome:
        """Medians, and ratios with the 95 % intervals that bootstrapping gives them."""
        runs = {
            program: _runs(one) for program, one in ended.items() if not isinstance(one, Failed)
        }
        others = [variant for variant in self.variants if variant != self.against]
        ratios = [f"{other}/{self.against}" for other in others]
        spans = [column for ratio in ratios for column in (ratio, "at least", "at most")]
        faults = [] if self.metric == "faults" else [f"{v}: faults" for v in self.variants]
        notes = [
            f"{program}: {self.budget:g} s were not enough to know it to 1.5 points or a tenth."
            for program, one in ended.items()
            if not isinstance(one, Failed) and not one.data["settled"]
        ]
        medians = {program: self._medians(of, self.metric) for program, of in runs.items()}
        return Outcome(
            shows=f"{_SAYS[self.metric]}. {self.shows}".rstrip(),
            notes=notes,
            columns=[*self.variants, *spans, *faults],
            rows={
                program: [
                    *medians[program],
                    *(cell for other in others for cell in _cells(self._ratio(of, other))),
                    *(self._medians(of, "faults") if faults else []),
                ]
                for program, of in runs.items()
            },
            answers=[self._answer(claim, runs.get(claim.row)) for claim in self.claim],
            failures=failures(ended),
            drawn=(list(self.variants), medians),
        )

    def _variant(self, variant: Variant, words: list[str]) -> backend.Variant:
        command = [*variant.before, *words, *variant.after]
        command = [str(probe.find()) if word == _PROBE else word for word in command]
        return backend.Variant(command, variant.environment, variant.huge_pages)

    def _medians(self, runs: Mapping[str, list[Run]], metric: backend.Metric) -> list[float | None]:
        return [median(backend.values(runs[variant], metric)) for variant in self.variants]

    def _ratio(
        self, runs: Mapping[str, list[Run]], above: str, below: str | None = None
    ) -> Interval | None:
        """The median ratio of a round's runs."""
        sides = (backend.values(runs[side], self.metric) for side in (above, below or self.against))
        change = native.changes(*sides)
        return change and Interval(change.median + 1, change.low + 1, change.high + 1)

    def _answer(self, claim: Claim, runs: Mapping[str, list[Run]] | None) -> Answer:
        if runs is None or not claim.series:
            return Answer(claim=claim)
        if claim.against is None:
            found = median(backend.values(runs[claim.series], self.metric))
            return Answer(claim=claim, ours=found)
        ratio = self._ratio(runs, claim.series, claim.against)
        if ratio is None:
            return Answer(claim=claim, relative=True)
        return Answer(claim=claim, ours=ratio.median, low=ratio.low, high=ratio.high, relative=True)


def _runs(one: Ended) -> dict[str, list[Run]]:
    assert not isinstance(one, Failed)
    return {variant: [Run(**run) for run in of] for variant, of in one.data["runs"].items()}


def _cells(ratio: Interval | None) -> list[float | None]:
    return [ratio.median, ratio.low, ratio.high] if ratio else [None, None, None]
