"""Totals of a whole program, from windows of it.

A window stands for itself and for half of what was left out on either side, by instructions:
between two windows a program is as near to the one as to the other, and its beginning, which never
comes again, stands for little. A first window that is much longer than the others is no draw of
the sample: it stands for itself alone. What the kernel does is known of the whole program, since
streams tell of memory calls and first touches everywhere: it counts once, and is not scaled.
"""

import math
from collections.abc import Callable, Sequence

from pagelab import intervals
from pagelab.counts import SampleWindow

Counter = Callable[[SampleWindow], float]

_KERNEL = ("faults", "zeroing", "migrations")
# A gap behind the last window that is so many times the longest between windows is no gap of the
# sample, but what lies behind the end that was asked for.
_BEYOND = 2
# Windows and gaps of less than this part of what is typical end no piece.
_PART = 0.125
# A first window of so many times a typical one was taken whole.
_WHOLE = 4


def of(name: str) -> Counter:
    """The counter of windows with this name."""
    return lambda window: float(getattr(window, name))


def in_program(window: SampleWindow) -> float:
    """Cycles of a window, on one core, without the kernel's."""
    return window.cycles - (window.faults + window.zeroing + window.migrations)


def _pieces(
    windows: Sequence[SampleWindow], gaps: Sequence[int]
) -> list[list[tuple[SampleWindow, int]]]:
    """The windows, each with the gap behind it, by the piece of the sample that they are of.

    Where threads take turns, a piece is several windows with little between them, some of a few
    instructions, which stand for nothing by themselves.
    """
    enough = _PART * _typical([window.instructions for window in windows])
    apart = _PART * _typical(gaps)
    pieces: list[list[tuple[SampleWindow, int]]] = []
    taken = left_out = math.inf
    for window, gap in zip(windows, gaps, strict=True):
        if taken >= enough and left_out >= apart:
            pieces.append([])
            taken = left_out = 0
        pieces[-1].append((window, gap))
        taken += window.instructions
        left_out += gap
    if len(pieces) > 1 and taken < enough:
        rest = pieces.pop()
        pieces[-1] += rest
    return pieces


def taken_whole(windows: Sequence[SampleWindow]) -> list[SampleWindow]:
    """The first window, if it is much longer than the others, or has none beside it."""
    usual = _typical([window.instructions for window in windows[1:]])
    return [windows[0]] if windows[0].instructions >= _WHOLE * usual else []


def _typical(lengths: Sequence[int]) -> int:
    """The length that half of the whole is in parts longer than."""
    rest = sum(lengths) / 2
    for length in sorted(lengths, reverse=True):
        rest -= length
        if rest <= 0:
            return length
    return 0


class Sample:
    """The windows of one run, with what each stands for."""

    def __init__(self, windows: Sequence[SampleWindow]) -> None:
        gaps = [window.after.instructions for window in windows]
        if gaps and gaps[-1] > _BEYOND * max(gaps[:-1], default=0):
            gaps[-1] = 0
        self._windows = windows
        self._gaps = gaps
        self._whole = taken_whole(windows)
        first = len(self._whole)
        self._pieces = _pieces(windows[first:], gaps[first:])
        own = [sum(window.instructions for window, _ in piece) for piece in self._pieces]
        behind = [sum(gap for _, gap in piece) for piece in self._pieces]
        before = sum(gaps[:first])
        taken = sum(own) + sum(window.instructions for window in self._whole)
        self.instructions = taken + sum(gaps)
        """Instructions of the part of the program for which the windows stand."""
        self.share = taken / self.instructions if any(gaps) else 0.0
        """The part of these that were measured, where some were left out; else 0."""
        halves = [gap / 2 for gap in behind[:-1]]
        # Nothing is on either side of no draws.
        around = map(sum, zip([float(before), *halves], [*halves, *behind[-1:]], strict=False))
        self._weights = [
            (taken + gap) / taken if taken else 1.0 for taken, gap in zip(own, around, strict=True)
        ]

    @property
    def drawn(self) -> bool:
        """True if there are pieces beside what was taken whole."""
        return bool(self._pieces)

    @property
    def shares(self) -> list[float]:
        """The part that each draw was has of what it stands for; 0 where nothing was left out."""
        return [1 / weight if self.share else 0.0 for weight in self._weights]

    def weighted(self, counter: Counter) -> list[float]:
        """Value of each piece that is a draw, with all that it stands for."""
        return [
            weight * math.fsum(counter(window) for window, _ in piece)
            for weight, piece in zip(self._weights, self._pieces, strict=True)
        ]

    def known(self, counter: Counter) -> float:
        """Value of what was taken whole."""
        return math.fsum(map(counter, self._whole))

    def total(self, counter: Counter) -> float:
        """An estimate for the whole."""
        return self.known(counter) + math.fsum(self.weighted(counter))

    def kernel(self, part: str) -> float:
        """Cycles of one of the kernel's parts, in windows and gaps."""
        pairs = zip(self._windows, self._gaps, strict=True)
        return math.fsum(
            getattr(window, part) + (getattr(window.after, part) if gap else 0)
            for window, gap in pairs
        )

    @property
    def in_kernel(self) -> float:
        """Cycles of all of the kernel's parts."""
        return math.fsum(map(self.kernel, _KERNEL))

    def cycles(self, part: str) -> float:
        """Cycles of one of the parts of `counts.CYCLE_PARTS`, on one core."""
        if part in _KERNEL:
            return self.kernel(part)
        if part == "compute":
            waits = ("data", "translation", "mispredictions", "fetch")
            return self.total(in_program) - sum(map(self.cycles, waits))
        return self.total(lambda window: float(getattr(window, part) or 0))

    def ratio(self, above: Counter, below: Counter) -> tuple[float, float]:
        """The ratio of two counters, and half the width of its confidence interval."""
        known = self.known(above), self.known(below)
        above_, below_ = self.weighted(above), self.weighted(below)
        return intervals.ratio(above_, below_, known=known, shares=self.shares)

    def of_instructions(self, counter: Counter) -> tuple[float, float]:
        """A counter per instruction, and half the width of its confidence interval."""
        return self.ratio(counter, of("instructions"))

    def of_time(self, counter: Counter) -> tuple[float, float]:
        """A counter over the time that passed on one core, and half its interval's width."""
        times = self.weighted(in_program)
        known = self.known(counter), self.known(in_program) + self.in_kernel
        return intervals.ratio(self.weighted(counter), times, known=known, shares=self.shares)


def relative(sample: Sample, base: Sample, *, kernel: bool = True) -> tuple[float, float]:
    """The time of a sample over that of a base in the same windows, and half its interval's width.

    `kernel` says whether the kernel's time is known apart; else it is scaled as all is.
    """
    counter = in_program if kernel else of("cycles")
    known = sample.known(counter), base.known(counter)
    if kernel:
        known = known[0] + sample.in_kernel, known[1] + base.in_kernel
    times, theirs = sample.weighted(counter), base.weighted(counter)
    return intervals.ratio(times, theirs, known=known, shares=base.shares)
