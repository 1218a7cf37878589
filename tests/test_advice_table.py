"""The figures of scripts/advice_table.py."""

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))
advice_table = pytest.importorskip("advice_table")


def test_intervals_hold_the_true_ratio_as_often_as_they_say() -> None:
    held = 0
    for seed in range(400):
        source = random.Random(seed)
        ratios = [1.08 * source.lognormvariate(0, 0.2) for _ in range(30)]
        middle, low, high = advice_table.mean(ratios)
        assert low < middle < high
        held += low <= 1.08 <= high
    assert held >= 0.975 * 400


@pytest.mark.parametrize(
    ("interval", "told"), [((1.02, 1.3), 1), ((0.9, 0.98), -1), ((0.98, 1.3), 0), ((1.005, 1.3), 0)]
)
def test_a_direction_is_told_where_the_interval_leaves_out_1(
    interval: tuple[float, float], told: int
) -> None:
    assert advice_table.direction(*interval, advice_table.NONE) == told
