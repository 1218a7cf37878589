"""Replicates with their intervals, ratios by seed, files that do not vary, and differences."""

import math
import subprocess
import sys
from pathlib import Path
from statistics import mean, stdev

import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagelab.errors import PagelabError, UsageError
from pagelab.experiment.case import Ended, Failed, Result
from pagelab.sweeping import charts, file, report, table
from pagelab.sweeping.diff import difference
from pagelab.sweeping.table import Row

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


def test_a_mean_of_fewer_replicates_says_so() -> None:
    sweep = file.Sweep(vary={"design": ["radix", "dpt"]}, replicates=3, measure=["cycles.n"])
    found = table.summaries(ROWS, AXES, ["cycles.n"], {})
    radix, dpt = [text for _, (text, _) in report.cells(sweep, found)]
    assert "of" not in radix
    assert dpt.endswith(" (2 of 3)")


def test_a_run_is_divided_by_the_baselines_of_the_same_seed() -> None:
    radix, dpt = table.summaries(ROWS, AXES, ["cycles.n"], {"design": "radix"})
    assert radix.relative["cycles.n"] == table.Estimate(1.0, 0.0, 3)
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


def test_reading_a_table_leaves_no_threads_behind(tmp_path: Path) -> None:
    # In a process of its own: Arrow keeps its threads for what comes later.
    table.save(ROWS, tmp_path / "a.parquet")
    code = f"""
import os
from pathlib import Path
from pagelab.sweeping import table

def threads():
    return len(os.listdir("/proc/self/task"))

before = threads()
table.load(Path({str(tmp_path / "a.parquet")!r}))
# A process that is aborted has not said it.
print(threads() - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


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


def row(design: str, **numbers: float | None) -> Row:
    return {"design": design, "status": "done", "error": None, **numbers}


def test_numbers_that_only_one_table_has_are_a_difference() -> None:
    first = [row("radix", a=1, b=2, c=3), row("dpt", a=1, b=2, c=3)]
    second = [row("radix", a=1, b=2, d=3), row("dpt", a=1, b=None, d=3)]
    found = difference(first, second, [])
    assert not found.same
    assert (found.measures_first, found.measures_second) == (["c"], ["d"])
    same, gone = found.changes
    assert (same.measure, same.points, same.changed, same.where) == ("a", 2, 0, {})
    assert (gone.points, gone.changed, gone.largest, gone.where) == (2, 1, None, {"design": "dpt"})
    with pytest.raises(UsageError, match="unknown measure 'e'"):
        difference(first, second, ["e"])
    # Columns of points that only one has are no other difference.
    assert difference(first, [*first, row("ideal", z=1)], []).measures_second == []


def test_an_axis_may_have_words_in_one_table_only(tmp_path: Path) -> None:
    values: dict[str, list[file.Value]] = {"a": [4], "b": [4, "none"]}
    for name, of in values.items():
        rows = table.rows([({"x.y": value}, ended(1)) for value in of], ["x.y"])
        table.save(rows, tmp_path / f"{name}.parquet")
    first, second = (table.load(tmp_path / f"{name}.parquet") for name in "ab")
    found = difference(first, second, [])
    assert found.only_first == []
    assert found.only_second == [{"x.y": "none"}]


def test_what_becomes_more_than_nothing_has_changed_most() -> None:
    first = [row("radix", a=0), row("dpt", a=5), row("ideal", a=5)]
    second = [row("radix", a=7), row("dpt", a=5), row("ideal", a=6)]
    [change] = difference(first, second, []).changes
    assert (change.changed, change.ratio, change.largest) == (2, None, None)
    assert change.where == {"design": "radix"}


def test_runs_that_fail_in_both_may_fail_for_different_reasons() -> None:
    failed: list[Row] = [
        {"design": name, "status": "failed", "error": "no memory"} for name in ("a", "b")
    ]
    other = [failed[0], failed[1] | {"error": "no disk"}]
    assert difference(failed, failed, []).same
    assert difference(failed, other, []).ended_otherwise == [{"design": "b"}]
    missing = [failed[0], failed[1] | {"status": "missing", "error": None}]
    assert difference(failed, missing, []).ended_otherwise == [{"design": "b"}]


def test_counters_of_a_design_are_in_the_table() -> None:
    data = {
        "schema": "x", "design": "dpt", "complete": True, "stopped": None, "machine": {"cores": 1},
        "design_counters": {"pages_mapped": 3, "sizes": [1]}, "cycles": {"elapsed": 2.5},
    }  # fmt: skip
    [found] = table.rows([({"design": "dpt"}, Result(data, {}))], ["design"])
    assert set(found) == {
        "design", "status", "error", "design_counters.pages_mapped", "cycles.elapsed"
    }  # fmt: skip
    assert table.measures([found], ["design"]) == {"design_counters.pages_mapped", "cycles.elapsed"}


def test_tables_go_together_whether_a_run_failed_or_not(tmp_path: Path) -> None:
    table.save(ROWS[:2], tmp_path / "a.parquet")
    table.save(ROWS[-1:], tmp_path / "b.parquet")
    a, b = (pyarrow.parquet.read_schema(tmp_path / f"{name}.parquet") for name in "ab")
    assert a.field("error").type == b.field("error").type == pyarrow.string()


def test_numbers_may_be_larger_than_arrows(tmp_path: Path) -> None:
    large = [row("radix", a=2**64), row("dpt", a=1)]
    table.save(large, tmp_path / "a.parquet")
    assert [one["a"] for one in table.load(tmp_path / "a.parquet")] == [str(2**64), "1"]


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
