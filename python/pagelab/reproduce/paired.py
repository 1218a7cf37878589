"""Bounds on a slowdown: boots of two configurations in turn, compared pair by pair.

Times drift with what else the machine does, and so do counts of instructions, which have those of
timer interrupts. It only ever adds, so a boot stands for its fastest round; boots that follow each
other share most of it, so their ratio scatters less than the times do. The interval is the one of
the sign test: it needs no assumption about how ratios are distributed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from statistics import geometric_mean, median

from pagelab.errors import PagelabError

_TAIL = 0.025  # of 95 %, on either side
SMALL = "4 KB"
ALL_LARGE = f"all but {SMALL}"
# The samples of a boot: row and value.
Boot = Sequence[tuple[str, float]]


@dataclass(frozen=True)
class Ratio:
    """The median of the pairs' ratios, and its 95 % confidence interval."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    """One row, or all of large folios together: medians of boots, and the pairs' ratio."""

    name: str
    above: float
    below: float
    ratio: Ratio


def interval(ratios: Sequence[float]) -> Ratio:
    """The median and its interval, from as many pairs.

    The k-th smallest and the k-th largest of n enclose the median unless fewer than k of n fair
    coins fall on one side; k is the largest for which that is improbable.

    Raises:
        PagelabError: there are fewer than six: not even the extremes enclose it with 95 %.

    """
    ordered, n = sorted(ratios), len(ratios)
    outside, k = 0.0, 0
    while (outside := outside + comb(n, k) / 2**n) <= _TAIL:
        k += 1
    if k == 0:
        raise PagelabError(f"{n} pairs of boots are too few for an interval: at least 6")
    return Ratio(median(ordered), ordered[k - 1], ordered[-k])


def rows(above: Sequence[Boot], below: Sequence[Boot]) -> list[Row]:
    """A row each, and one of the geometric mean of all but 4 KB; none if boots are missing."""
    pairs = [(_fastest(ours), _fastest(theirs)) for ours, theirs in zip(above, below, strict=False)]
    if len(pairs) < 6 or len(above) != len(below):
        return []
    names = list(pairs[0][0])
    large = [name for name in names if name != SMALL]
    found = [_row(name, [(ours[name], theirs[name]) for ours, theirs in pairs]) for name in names]
    means = [tuple(geometric_mean(side[name] for name in large) for side in pair) for pair in pairs]
    return [*found, _row(ALL_LARGE, [(ours, theirs) for ours, theirs in means])]


def _fastest(boot: Boot) -> dict[str, float]:
    found: dict[str, float] = {}
    for row, value in boot:
        found[row] = min(value, found.get(row, value))
    return found


def _row(name: str, pairs: list[tuple[float, float]]) -> Row:
    return Row(
        name,
        median(above for above, _ in pairs),
        median(below for _, below in pairs),
        interval([above / below for above, below in pairs]),
    )
