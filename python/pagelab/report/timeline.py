"""Memory over time: resident memory and page tables, by instructions executed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagelab import units
from pagelab.counts import TimelinePoint
from pagelab.report.scales import Tick, binary_ticks, linear_ticks, short

if TYPE_CHECKING:
    from pagelab.results import Comparison, Run


@dataclass(frozen=True)
class Line:
    """One line: SVG points in a 1000 by 1000 box, and the values for the tooltip."""

    name: str
    series: int
    points: str
    values: list[str]


@dataclass(frozen=True)
class LineChart:
    """Lines over a common axis; `positions` are the x of each value, in percent."""

    title: str
    lines: list[Line]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    positions: list[float]
    x_values: list[str]


# Enough for any screen, little enough for a small file.
_MOST_POINTS = 400


def resident_chart(comparison: Comparison) -> LineChart | None:
    """Resident memory; designs that agree at every point share a line."""
    return _chart(comparison, comparison.runs, "Resident memory", lambda p: p.resident_bytes)


def tables_chart(comparison: Comparison) -> LineChart | None:
    """Memory taken by page tables."""
    runs = [run for run in comparison.runs if run.os.peak_table_bytes]
    return _chart(comparison, runs, "Page tables", lambda p: p.table_bytes)


def _chart(
    comparison: Comparison, runs: list[Run], title: str, value: Callable[[TimelinePoint], int]
) -> LineChart | None:
    runs = [run for run in runs if run.timeline]
    if not runs:
        return None
    end = max(run.timeline[-1].instructions for run in runs) or 1
    longest = max(runs, key=lambda run: len(run.timeline))
    step = -(-len(longest.timeline) // _MOST_POINTS)
    xs = [0] + [point.instructions for point in longest.timeline[::step]]
    if xs[-1] != longest.timeline[-1].instructions:
        xs.append(longest.timeline[-1].instructions)
    series: dict[tuple[int | None, ...], list[int]] = {}
    for index, run in enumerate(runs):
        series.setdefault(tuple(_sampled(run, xs, value)), []).append(index)
    top = max((v for values in series for v in values if v is not None), default=0)
    y_values = binary_ticks(top)
    height = y_values[-1] or 1
    lines = [
        Line(
            name=", ".join(comparison.label(runs[i]) for i in members),
            series=members[0],
            points=" ".join(
                f"{x / end * 1000:.1f},{1000 - v / height * 1000:.1f}"
                for x, v in zip(xs, values, strict=True)
                if v is not None
            ),
            values=["" if v is None else units.size(v) for v in values],
        )
        for values, members in series.items()
    ]
    return LineChart(
        title,
        lines,
        [Tick(x / end * 100, short(units.count(x))) for x in linear_ticks(end) if x <= end * 1.001],
        [Tick(y / height * 100, short(units.size(y))) for y in y_values],
        [round(x / end * 100, 2) for x in xs],
        [f"{units.count(x)} instructions" for x in xs],
    )


def _sampled(run: Run, xs: list[int], value: Callable[[TimelinePoint], int]) -> list[int | None]:
    """The last value at or before each x; nothing past the end of an incomplete run."""
    out: list[int | None] = []
    last, points, place = 0, run.timeline, 0
    for x in xs:
        while place < len(points) and points[place].instructions <= x:
            last = value(points[place])
            place += 1
        out.append(None if place == len(points) and x > points[-1].instructions else last)
    return out
