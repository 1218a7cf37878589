"""Grouped columns over a common axis: a group a row, a column a series."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from pagelab.report.scales import Tick, linear_ticks
from pagelab.units import number


@dataclass(frozen=True)
class Column:
    """A value: its height in percent of the plot, and what it is."""

    series: int
    height: float
    tip: str


@dataclass(frozen=True)
class Group:
    """The columns of one row."""

    label: str
    columns: list[Column]
    average: bool


@dataclass(frozen=True)
class Columns:
    """The plot; `reference` is a line's height in percent."""

    groups: list[Group]
    ticks: list[Tick]
    legend: list[str]
    reference: float | None


def columns(
    series: list[str],
    rows: dict[str, list[float | None]],
    averages: AbstractSet[str] = frozenset(),
) -> Columns:
    """Rows of a value a series, from 0 on; a line at 1 where they are ratios around it."""
    values = [value for row in rows.values() for value in row if value is not None]
    ticks = linear_ticks(max(values, default=1.0))
    top = ticks[-1]
    groups = [
        Group(
            label,
            [
                Column(at, value / top * 100, f"{label}, {series[at]}: {number(value)}")
                for at, value in enumerate(row)
                if value is not None
            ],
            label in averages,
        )
        for label, row in rows.items()
    ]
    around = any(value == 1.0 for value in values) and top <= 4
    return Columns(
        groups,
        [Tick(tick / top * 100, number(tick)) for tick in ticks],
        series,
        100 / top if around else None,
    )
