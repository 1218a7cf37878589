"""Figures that a measurement of this machine redraws, and whether a paper's conclusions hold."""

from collections.abc import Mapping
from typing import Literal

from pagelab.experiment.backends import probe
from pagelab.experiment.case import Case, Ended, Failed
from pagelab.measuring import conclusions
from pagelab.measuring.result import Measurement
from pagelab.reproduce.claim import Answer
from pagelab.reproduce.outcome import Curves, Outcome
from pagelab.reproduce.paper import Changes, Paper, Shown


class OnMachine(Shown):
    """One figure; all figures are drawn from one measurement.

    `redraws` names the function of `pagelab.measuring.conclusions` that draws it and concludes.
    """

    kind: Literal["machine"]
    redraws: Literal["figure1", "figure4", "figure5", "figure6", "figure7", "table1"]

    def cases(self, paper: Paper, changes: Changes) -> dict[str, Case]:
        """The whole measurement, or the result that stands for it."""
        if changes.measured is not None:
            return {"": probe.kept(changes.measured)}
        label = "measuring this machine"
        quick, tuning = changes.quick, changes.allow_tuning
        return {"": probe.case("all", label, quick=quick, allow_tuning=tuning)}

    def outcome(self, paper: Paper, ended: Mapping[str, Ended]) -> Outcome:
        """The chart, and the conclusion with its reason."""
        one = ended[""]
        failures: list[str] = []
        answers = [Answer(claim=claim) for claim in self.claim]
        curves: list[Curves] = []
        bars = None
        if isinstance(one, Failed):
            failures = [one.error.splitlines()[0]]
        else:
            measurement = Measurement.model_validate(one.data)
            found = conclusions.of(self.redraws, measurement)
            answers = [
                Answer(claim=claim, agrees=found.agrees, reason=found.reason)
                for claim in self.claim
            ]
            if found.chart is not None:
                curves = [Curves(found.chart.lines, found.chart.what, list(found.chart.marks))]
            bars = found.bars
        return Outcome(
            answers=answers,
            failures=failures,
            curves=curves,
            bars=bars,
        )
