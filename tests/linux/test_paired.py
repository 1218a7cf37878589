"""Bounds on a slowdown: intervals as tables have them, and pairs that share a drift."""

import pytest

from pagelab.errors import PagelabError
from pagelab.linux import paired
from pagelab.linux.experiment import Sample, Table

TABLE = Table(
    title="t", suite="s/e", bench="b", unit="fault", paper_says="2 % slower", at_most=1.02
)


def _samples(times: list[dict[int, int]]) -> list[Sample]:
    return [
        Sample(bench="b", folio_kb=size, pages=10, ns=ns, copies=0, suite="s/e", boot=boot)
        for boot, sizes in enumerate(times)
        for size, ns in sizes.items()
    ]


# Rank from either end, e.g. Conover, Practical Nonparametric Statistics, table A3.
@pytest.mark.parametrize(
    ("n", "rank"), [(6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6), (25, 8)]
)
def test_ranks_of_the_sign_test(n: int, rank: int) -> None:
    ratio = paired.interval(range(n, 0, -1))
    assert (ratio.low, ratio.high) == (rank, n + 1 - rank)


def test_too_few_pairs_bound_nothing() -> None:
    with pytest.raises(PagelabError, match="at least 6"):
        paired.interval([1.0] * 5)


def test_what_both_boots_of_a_pair_suffer_cancels() -> None:
    drift = [1000, 8000, 2000, 9000, 1000, 4000]
    samples = {
        False: _samples([{4: ns, 64: ns, 2048: ns} for ns in drift]),
        True: _samples([{4: ns, 64: ns * 2, 2048: ns * 8} for ns in drift]),
    }
    small, middle, large, all_large = paired.rows(TABLE, samples)
    assert (small.off, small.on, small.ratio) == (300.0, 300.0, paired.Ratio(1, 1, 1))
    assert (middle.ratio.low, large.ratio.high) == (2.0, 8.0)
    assert all_large.ratio.median == pytest.approx(4.0)


def test_a_boot_stands_for_its_fastest_round() -> None:
    rounds = [_samples([{64: ns}] * 6) for ns in (1000, 700, 90000)]
    samples = {False: _samples([{64: 700}] * 6), True: [each for taken in rounds for each in taken]}
    assert paired.rows(TABLE, samples)[0].ratio == paired.Ratio(1, 1, 1)


def test_the_interval_decides_or_does_not() -> None:
    assert paired.Ratio(1.0, 0.99, 1.02).at_most(1.02) is True
    assert paired.Ratio(1.1, 1.03, 1.2).at_most(1.02) is False
    assert paired.Ratio(1.0, 0.9, 1.1).at_most(1.02) is None


def test_the_table_says_so() -> None:
    off = _samples([{64: 1000}] * 6)
    slower = _samples([{64: ns} for ns in (1000, 1010, 1005, 1030, 1000, 1000)])
    text = paired.render(TABLE, {False: off, True: slower})
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert ["64 KB", "100.0", "100.2", "1.0025", "1.0000 to 1.0300", "undecided"] in cells
    assert paired.render(TABLE, {False: [], True: []}) == ""
