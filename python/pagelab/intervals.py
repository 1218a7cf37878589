"""Confidence intervals of figures that come from windows of a sampled program."""

import math
from collections.abc import Sequence
from statistics import NormalDist

CONFIDENCE = 0.95


def student_t(degrees: int, confidence: float = CONFIDENCE) -> float:
    """The value that Student's t stays within, either side of 0, with this probability.

    Cornish and Fisher's expansion about the normal distribution (Abramowitz and Stegun 26.7.5);
    with ten degrees of freedom it is off by less than one in a thousand. Below four it would be
    off by more than 1 %, and exact values exist for one and two.
    """
    if degrees < 1:
        return math.inf
    p = (1 + confidence) / 2
    if degrees == 1:
        return math.tan(math.pi * (p - 0.5))
    if degrees == 2:
        return (2 * p - 1) * math.sqrt(2 / (4 * p * (1 - p)))
    z = NormalDist().inv_cdf(p)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / degrees**power for power, term in enumerate(terms, start=1))


def ratio(
    numerators: Sequence[float],
    denominators: Sequence[float],
    *,
    known: tuple[float, float] = (0.0, 0.0),
    shares: Sequence[float] | None = None,
    confidence: float = CONFIDENCE,
) -> tuple[float, float]:
    """The ratio of two sums over windows, and half the width of its confidence interval.

    The windows are a sample; the ratio is that of their sums, and its variance is that of the
    residuals (Cochran, Sampling Techniques, 1977, section 6.4). Pairs of the same window, such as
    its cycles under two designs, vary together, which the interval takes into account. `known` are
    parts of the two sums that are not sampled. `shares` are the parts that windows have of what
    they stand for, 0 unless given: where they have all of it nothing is uncertain (section 5.6).
    The width is infinite for a single window, and 0 where all is known.
    """
    count = len(numerators)
    total = math.fsum(denominators) + known[1]
    if total == 0:
        return math.nan, math.inf
    value = (math.fsum(numerators) + known[0]) / total
    if count < 2:
        return value, math.inf if count else 0.0
    pairs = zip(numerators, denominators, strict=True)
    residuals = [above - value * below for above, below in pairs]
    mean = math.fsum(residuals) / count
    squares = math.fsum(
        (1 - share) * (residual - mean) ** 2
        for residual, share in zip(residuals, shares or [0.0] * count, strict=True)
    )
    deviation = math.sqrt(squares / (count - 1) * count) / abs(total)
    return value, student_t(count - 1, confidence) * deviation
