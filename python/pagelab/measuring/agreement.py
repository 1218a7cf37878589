"""Predictions beside measurements, and how far they agree."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any

from pagelab.measuring.native import HUGE, SMALL, Interval, Native

# A prediction of a change is good when it is off by at most this: relative to the change, or in
# points.
NEAR_SHARE = 0.25
NEAR_POINTS = 0.03

# Beyond this half-width an interval decides nothing about a prediction.
_TOO_WIDE = 0.1


@dataclass(frozen=True)
class Predicted:
    """A simulation: seconds in the program, in page faults, and how many of those.

    `least` and `most` are the ends of what the program may take, where there are several
    simulations of it.
    """

    program: float
    kernel: float
    faults: int
    least: float | None = None
    most: float | None = None

    @property
    def total(self) -> float:
        """Seconds of processor time."""
        return self.program + self.kernel


def in_turns(shares: Sequence[float], of: Sequence[Predicted]) -> Predicted:
    """Prediction for a machine that is each of several for so large a share of the time.

    A second of each brings the program on by what that one does of it in a second.
    """
    if len(of) == 1:
        return of[0]
    done = sum(share / one.program for share, one in zip(shares, of, strict=True))
    programs = [one.program for one in of]
    return replace(of[0], program=1 / done, least=min(programs), most=max(programs))


@dataclass(frozen=True)
class Change:
    """Change of a program's processor time by pages larger than 4 KB, as shares.

    `time` without over with them, less 1: measured, where rounds were enough for an interval, and
    predicted. With `incomplete`, why the recording ends before the program, they are not judged.
    """

    pages: str
    measured: Interval | None
    predicted: float
    # The predicted change of the program's own time: without page faults.
    without_faults: float
    incomplete: str | None = None

    @property
    def direction(self) -> bool | None:
        """True if the sign is right; None where the measured change may be 0."""
        if self.incomplete or self.measured is None or not self.measured.excludes_zero:
            return None
        return (self.measured.median > 0) == (self.predicted > 0)

    @property
    def verdict(self) -> str:
        """`near`, `far`, or why neither can be said."""
        measured = self.measured
        if self.incomplete:
            return "no verdict: recorded in part"
        if measured is None:
            return "no verdict: too few rounds"
        off = abs(self.predicted - measured.median)
        if off <= max(NEAR_POINTS, NEAR_SHARE * abs(measured.median)):
            return "near"
        if measured.low - NEAR_POINTS <= self.predicted <= measured.high + NEAR_POINTS:
            return "no verdict: within the interval"
        if (measured.high - measured.low) / 2 > max(_TOO_WIDE, abs(measured.median)):
            return "no verdict: too noisy"
        return "far"

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "measured": vars(self.measured) if self.measured else None,
            "predicted": self.predicted,
            "predicted_without_faults": self.without_faults,
            "direction_right": self.direction,
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class Agreement:
    """One program, natively and simulated. `accesses` are loads and stores that were recorded.

    `larger` has a prediction for each page size of the native runs. With `incomplete`, why the
    recording ends before the program, the program as a whole is not compared with what was
    simulated of it.
    """

    name: str
    accesses: int
    native: Native
    small: Predicted
    larger: dict[str, Predicted]
    incomplete: str | None = None

    @property
    def changes(self) -> list[Change]:
        """By each of the larger page sizes."""
        return [
            Change(
                pages=size,
                measured=self.native.gain(size),
                predicted=self.small.total / predicted.total - 1,
                without_faults=self.small.program / predicted.program - 1,
                incomplete=self.incomplete,
            )
            for size, predicted in self.larger.items()
        ]

    @property
    def measured_ns(self) -> float | None:
        """Nanoseconds of user time an access, small pages; None where not all are known."""
        return self.measured_interval.median if self.measured_interval else None

    @cached_property
    def measured_interval(self) -> Interval | None:
        """The same with its interval.

        It is wide of short programs where the kernel tells their time from its own by ticks.
        """
        if self.incomplete:
            return None
        user = self.native.user()
        return Interval(*(s / self.accesses * 1e9 for s in (user.median, user.low, user.high)))

    @property
    def predicted_ns(self) -> float:
        """The same in the simulator."""
        return self.small.program / self.accesses * 1e9

    def measured_faults(self, size: str = SMALL) -> int:
        """Page faults of a native run with pages of that size; the median."""
        runs = self.native.small if size == SMALL else self.native.larger[size]
        return round(median(run.faults for run in runs))

    def predicted_faults(self, size: str = SMALL) -> int | None:
        """The same in the simulator; None where not all of the program was simulated."""
        predicted = self.small if size == SMALL else self.larger[size]
        return None if self.incomplete else predicted.faults

    @property
    def predicted_range(self) -> tuple[float, float] | None:
        """Nanoseconds an access with most and with least of the buffers, if both were simulated."""
        if self.small.least is None or self.small.most is None:
            return None
        return self.small.least / self.accesses * 1e9, self.small.most / self.accesses * 1e9

    @property
    def time_error(self) -> float | None:
        """Error of the predicted time of an access; None where no time was measured."""
        return self.predicted_ns / self.measured_ns - 1 if self.measured_ns else None

    def as_json(self) -> dict[str, Any]:
        """For programs: times in seconds, changes as shares, all by page size."""
        native = {SMALL: self.native.small, **self.native.larger}
        predicted = {SMALL: self.small, **self.larger}
        return {
            "name": self.name,
            "accesses": self.accesses,
            "incomplete": self.incomplete,
            "native": {size: [run.as_json() for run in runs] for size, runs in native.items()},
            "rounds": self.native.rounds,
            "predicted": {size: vars(one) for size, one in predicted.items()},
            "ns_per_access": {
                "measured": self.measured_ns,
                "measured_interval": vars(self.measured_interval)
                if self.measured_interval
                else None,
                "predicted": self.predicted_ns,
            },
            "faults": {
                size: {
                    "measured": self.measured_faults(size),
                    "predicted": self.predicted_faults(size),
                }
                for size in predicted
            },
            "buffers": self.native.looks_as_json(),
            "beside": self.native.beside.model_dump(),
            "changes": {change.pages: change.as_json() for change in self.changes},
        }


def summary(rows: list[Agreement]) -> list[str]:
    """Summary of all programs, a sentence or two for each page size."""
    sizes = list(dict.fromkeys(size for row in rows for size in row.larger))
    sentences = []
    for size in sizes:
        by = "" if sizes == [HUGE] else f"{size} pages. "
        changes = [change for row in rows for change in row.changes if change.pages == size]
        signs = [change.direction for change in changes if change.direction is not None]
        judged = [change for change in changes if change.verdict in ("near", "far")]
        near = sum(change.verdict == "near" for change in judged)
        if signs:
            sentences.append(
                f"{by}Direction of the change: right for {sum(signs)} of {len(signs)} programs "
                "whose measured change excludes zero."
            )
        if judged:
            sentences.append(
                f"{by}The change is predicted within a quarter of itself or 3 points for {near} "
                f"of {len(judged)}; {len(changes) - len(judged)} without a verdict."
            )
    errors = [abs(row.time_error) for row in rows if row.time_error is not None]
    if errors:
        off = median(errors)
        sentences.append(f"Time of an access: off by {off:.0%} at the median.")
    return [*sentences, *_of_memory(rows), *_of_buffers(rows)]


def _of_memory(rows: list[Agreement]) -> list[str]:
    """Times and rates of memory beside them, where that was looked at."""
    found = [row.native.beside for row in rows]
    took = [of.memory_ns.median for of in found if of.memory_ns]
    read = [of.reads.median for of in found if of.reads]
    said = []
    if took:
        said.append(f"A line of memory took {_ends(took)} ns")
    if read:
        said.append(f"one core read {_ends(read)} GB/s")
    return [f"{' and '.join(said)} beside them; each is simulated with its own."] if said else []


def _ends(values: list[float]) -> str:
    return " to ".join(dict.fromkeys(f"{value:.0f}" for value in (min(values), max(values))))


def _of_buffers(rows: list[Agreement]) -> list[str]:
    """Buffers that cores had, where it was less than all."""
    looked = [row.native for row in rows if row.native.half is not None]
    if not any(native.shared for native in looked):
        return []
    halves = [native.half or 0.0 for native in looked if not native.alone]
    alone = sum(native.alone for native in looked)
    sentences = [
        f"{alone} of {len(looked)} programs are compared by the rounds in which cores had all of "
        "their buffers: others seem to use these cores, too."
    ]
    if halves:
        sentences.append(
            f"Of the rest cores had half of them for {min(halves):.0%} to {max(halves):.0%} of the "
            "time, and are simulated so; what else is shared then is not."
        )
    return sentences
