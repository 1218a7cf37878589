"""Replicates with their intervals, ratios by seed, files that do not vary, and differences."""

import math
from pathlib import Path
from statistics import mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagelab.errors import PagelabError
from pagelab.experiment.case import Ended, Failed, Result
from pagelab.sweep import charts, table
from pagelab.sweep.diff import difference
from pagelab.sweep.table import Row

AXES = ["design", "seed"]


def ended(cycles: float | None) -> Ended:
    return Failed("no memory", {}) if cycles is None else Result({"cycles": {"n": cycles}}, {})


def made(values: dict[tuple[str, int], float | None]) -> list[Row]:
    return table.rows(
        [
            ({"design": design, "seed": seed}, ended(cycles))
            for (design, seed), cycles in values.items()
        ],
        AXES,
    )


ROWS = made(
    {("radix", 1): 100, ("radix", 2): 200, ("radix", 3): 330,
     ("dpt", 1): 90, ("dpt", 2): 180, ("dpt", 3): None}
)  # fmt: skip


def test_intervals_are_students() -> None:
    radix, dpt = table.summaries(ROWS, AXES, ["cycles.n"], {})
    values = [100, 200, 330]
    assert radix.measures["cycles.n"].mean == mean(values)
    # t with two degrees of freedom: 4.303 (any table).
    half = 4.303 * stdev(values) / math.sqrt(3)
    assert radix.measures["cycles.n"].half == pytest.approx(half, rel=1e-3)
    assert (radix.runs, radix.failed) == (3, 0)
    assert (dpt.runs, dpt.failed) == (2, 1)


def test_a_run_is_divided_by_the_baselines_of_the_same_seed() -> None:
    radix, dpt = table.summaries(ROWS, AXES, ["cycles.n"], {"design": "radix"})
    assert radix.relative["cycles.n"] == table.Estimate(1.0, 0.0)
    # Nine tenths with every seed, however far the seeds are apart.
    assert dpt.relative["cycles.n"].mean == pytest.approx(0.9)
    assert dpt.relative["cycles.n"].half == pytest.approx(0.0, abs=1e-12)


def test_the_same_rows_are_the_same_bytes(tmp_path: Path) -> None:
    table.save(ROWS, tmp_path / "a.parquet")
    table.save(list(ROWS), tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert table.load(tmp_path / "a.parquet")[:5] == [
        row | {"cycles.n": row["cycles.n"]} for row in ROWS[:5]
    ]


def test_a_result_does_not_differ_from_itself() -> None:
    found = difference(ROWS, ROWS, [])
    assert found.same
    assert found.changes[0].ratio == pytest.approx(1)


def test_points_and_numbers_that_differ() -> None:
    other = made(
        {("radix", 1): 200, ("radix", 2): 200, ("dpt", 1): None, ("dpt", 3): 1, ("x", 1): 1}
    )
    found = difference(ROWS, other, [])
    assert [tuple(p.values()) for p in found.only_first] == [("radix", 3), ("dpt", 2)]
    assert [tuple(p.values()) for p in found.only_second] == [("x", 1)]
    assert [tuple(p.values()) for p in found.broken] == [("dpt", 1)]
    assert [tuple(p.values()) for p in found.mended] == [("dpt", 3)]
    [change] = found.changes
    assert (change.points, change.changed) == (2, 1)
    assert change.ratio == pytest.approx(math.sqrt(2))
    assert change.largest == 2
    assert change.where == {"design": "radix", "seed": 1}


def test_tables_that_cannot_be_compared(tmp_path: Path) -> None:
    for missing in (tmp_path, tmp_path / "x.parquet"):
        with pytest.raises(PagelabError, match=r"there is no table .*\.parquet"):
            table.load(missing)
    with pytest.raises(PagelabError, match="no column status"):
        difference([{"a": 1}], ROWS, [])
    with pytest.raises(PagelabError, match="no axis in common"):
        difference(table.rows([({"x": 1}, None)], ["x"]), ROWS, [])
    by_design = table.rows([({"design": "radix"}, None)], ["design"])
    with pytest.raises(PagelabError, match="not told apart"):
        difference(by_design, ROWS, [])


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12))
def test_the_front_is_what_no_other_point_beats(points: list[tuple[int, int]]) -> None:
    found = charts.front([(float(x), float(y)) for x, y in points])
    for x, y in points:
        beaten = any(a <= x and b <= y and (a, b) != (x, y) for a, b in points)
        assert ((x, y) in found) == (not beaten)
