"""Intervals agree with printed tables and hold as often as they say."""

import math
import random

import pytest

from pagelab import intervals


@pytest.mark.parametrize(
    ("degrees", "confidence", "printed"),
    # Tables of Student's t, two-sided.
    [
        (1, 0.95, 12.706),
        (2, 0.95, 4.303),
        (3, 0.95, 3.182),
        (4, 0.95, 2.776),
        (5, 0.95, 2.571),
        (9, 0.95, 2.262),
        (19, 0.95, 2.093),
        (29, 0.95, 2.045),
        (29, 0.99, 2.756),
        (120, 0.95, 1.980),
    ],
)
def test_t_is_that_of_printed_tables(degrees: int, confidence: float, printed: float) -> None:
    assert intervals.student_t(degrees, confidence) == pytest.approx(printed, rel=0.004)


def test_intervals_hold_the_true_ratio_as_often_as_they_say() -> None:
    source = random.Random(1)
    held = 0
    trials = 2000
    for _ in range(trials):
        below = [source.uniform(50, 150) for _ in range(30)]
        above = [3 * value + source.gauss(0, 20) for value in below]
        value, half = intervals.ratio(above, below)
        held += abs(value - 3) <= half
    assert held / trials == pytest.approx(0.95, abs=0.02)


def test_what_varies_together_gives_a_narrow_interval() -> None:
    below = [100.0, 300.0, 200.0, 500.0]
    value, half = intervals.ratio([2 * cycles for cycles in below], below)
    assert value == pytest.approx(2)
    assert half == pytest.approx(0, abs=1e-12)


def test_one_window_has_no_interval() -> None:
    assert intervals.ratio([4], [2]) == (2, math.inf)
    assert math.isnan(intervals.ratio([], [])[0])
