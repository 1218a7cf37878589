"""What was predicted beside what was measured, and how far they agree."""

from dataclasses import dataclass
from statistics import median
from typing import Any

from pagelab.measuring.native import Interval, Native

# A prediction of a change is good when it is off by at most this: relative to the change, or in
# points.
NEAR_SHARE = 0.25
NEAR_POINTS = 0.03

# Beyond this half-width an interval decides nothing about a prediction.
_TOO_WIDE = 0.1


@dataclass(frozen=True)
class Predicted:
    """One simulation: seconds in the program, in page faults, and how many of those."""

    program: float
    kernel: float
    faults: int

    @property
    def total(self) -> float:
        """Seconds of processor time."""
        return self.program + self.kernel


@dataclass(frozen=True)
class Agreement:
    """One program, natively and simulated. `accesses` are loads and stores that were recorded.

    With `incomplete`, why the recording ends before the program, the program as a whole is not
    compared with what was simulated of it.
    """

    name: str
    accesses: int
    native: Native
    small: Predicted
    huge: Predicted | None
    incomplete: str | None = None

    @property
    def gain(self) -> Interval | None:
        """The measured change by huge pages."""
        return self.native.gain()

    @property
    def predicted_gain(self) -> float | None:
        """The predicted one."""
        return self.small.total / self.huge.total - 1 if self.huge else None

    @property
    def predicted_gain_of_translation(self) -> float | None:
        """The predicted change of the program's own time: without page faults."""
        return self.small.program / self.huge.program - 1 if self.huge else None

    @property
    def measured_ns(self) -> float | None:
        """Nanoseconds of user time an access, small pages; None where not all are known."""
        if self.incomplete:
            return None
        return self.native.user().median / self.accesses * 1e9

    @property
    def predicted_ns(self) -> float:
        """The same in the simulator."""
        return self.small.program / self.accesses * 1e9

    @property
    def measured_faults(self) -> int:
        """Page faults of a native run, small pages; the median."""
        return round(median(run.faults for run in self.native.small))

    @property
    def time_error(self) -> float | None:
        """How far the predicted time of an access is off; None where no time was measured."""
        return self.predicted_ns / self.measured_ns - 1 if self.measured_ns else None

    @property
    def direction(self) -> bool | None:
        """Whether the sign of the change is right; None where the measured one may be 0."""
        gain, predicted = self.gain, self.predicted_gain
        if self.incomplete or gain is None or predicted is None or not gain.excludes_zero:
            return None
        return (gain.median > 0) == (predicted > 0)

    @property
    def verdict(self) -> str:
        """`near`, `far`, or why neither can be said."""
        gain, predicted = self.gain, self.predicted_gain
        if self.incomplete:
            return "no verdict: recorded in part"
        if predicted is None:
            return "no verdict: no huge pages"
        if gain is None:
            return "no verdict: too few rounds"
        off = abs(predicted - gain.median)
        if off <= max(NEAR_POINTS, NEAR_SHARE * abs(gain.median)):
            return "near"
        if gain.low - NEAR_POINTS <= predicted <= gain.high + NEAR_POINTS:
            return "no verdict: within the interval"
        if (gain.high - gain.low) / 2 > max(_TOO_WIDE, abs(gain.median)):
            return "no verdict: too noisy"
        return "far"

    def as_json(self) -> dict[str, Any]:
        """For programs: times in seconds, changes as shares."""
        gain = self.gain
        runs = {
            name: [vars(run) for run in of]
            for name, of in (("small", self.native.small), ("huge", self.native.huge))
        }
        return {
            "name": self.name,
            "accesses": self.accesses,
            "incomplete": self.incomplete,
            "native": runs,
            "predicted": {
                "small": vars(self.small),
                "huge": vars(self.huge) if self.huge else None,
            },
            "ns_per_access": {"measured": self.measured_ns, "predicted": self.predicted_ns},
            "gain": {
                "measured": vars(gain) if gain else None,
                "predicted": self.predicted_gain,
                "predicted_without_faults": self.predicted_gain_of_translation,
            },
            "faults": {
                "measured": self.measured_faults,
                "predicted": self.small.faults,
            },
            "direction_right": self.direction,
            "verdict": self.verdict,
        }


def summary(rows: list[Agreement]) -> list[str]:
    """What all programs together say, a sentence each."""
    signs = [row.direction for row in rows if row.direction is not None]
    judged = [row for row in rows if row.verdict in ("near", "far")]
    near = sum(row.verdict == "near" for row in judged)
    sentences = []
    if signs:
        sentences.append(
            f"Direction of the change: right for {sum(signs)} of {len(signs)} programs whose "
            "measured change excludes zero."
        )
    if judged:
        sentences.append(
            f"The change is predicted within a quarter of itself or 3 points for {near} of "
            f"{len(judged)}; {len(rows) - len(judged)} without a verdict."
        )
    errors = [abs(row.time_error) for row in rows if row.time_error is not None]
    if errors:
        off = median(errors)
        sentences.append(f"Time of an access: off by {off:.0%} at the median.")
    return sentences
