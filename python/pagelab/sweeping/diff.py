"""Differences between two tables: points that only one has, and how numbers changed."""

import math
from contextlib import suppress
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from pagelab.errors import PagelabError, unknown
from pagelab.sweeping.table import DONE, ERROR, STATUS, Row


@dataclass(frozen=True)
class Change:
    """A measure over all points that both tables have, and that it is a number of in one at least.

    `ratio` is the geometric mean of second over first, where all are positive; `where` is the point
    that changed most, and `largest` its ratio: none where a number came or went, also from 0 or to
    it, which is more than any ratio.
    """

    measure: str
    points: int
    changed: int
    ratio: float | None
    largest: float | None
    where: dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """Points as dictionaries of their axes, and measures that only one table has.

    Those that are `broken` are done in the first only, those `mended` in the second only, and of
    those that `ended_otherwise` neither is, for different reasons.
    """

    only_first: list[dict[str, Any]]
    only_second: list[dict[str, Any]]
    broken: list[dict[str, Any]]
    mended: list[dict[str, Any]]
    ended_otherwise: list[dict[str, Any]]
    measures_first: list[str]
    measures_second: list[str]
    changes: list[Change]

    @property
    def same(self) -> bool:
        """True if nothing differs."""
        points = (self.only_first, self.only_second, self.broken, self.mended)
        others = (self.ended_otherwise, self.measures_first, self.measures_second)
        return not any((*points, *others)) and not any(change.changed for change in self.changes)


def difference(first: list[Row], second: list[Row], measures: list[str]) -> Difference:
    """Compares tables by their common axes; `measures` picks columns, all numbers if it is empty.

    Raises PagelabError when the tables have no axis in common, or do not tell points apart by them,
    and UsageError for a measure that neither has.
    """
    axes = [axis for axis in _axes(first) if axis in _axes(second)]
    if not axes:
        raise PagelabError("the two results have no axis in common")
    ours, theirs = _by_point(first, axes), _by_point(second, axes)
    both = [point for point in ours if point in theirs]

    def named(points: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
        rows = (ours[point] if point in ours else theirs[point] for point in points)
        return [{axis: row[axis] for axis in axes} for row in rows]

    done = [p for p in both if ours[p][STATUS] == DONE and theirs[p][STATUS] == DONE]
    neither = [p for p in both if DONE not in (ours[p][STATUS], theirs[p][STATUS])]
    # The points that both have: what other designs count, they alone have.
    pairs = [(ours[p], theirs[p]) for p in done]
    here, there = (_measures([pair[side] for pair in pairs]) for side in (0, 1))
    for name in measures:
        if done and name not in {**here, **there}:
            raise unknown("measure", name, {**here, **there})
    wanted = measures or {**here, **there}
    return Difference(
        named([p for p in ours if p not in theirs]),
        named([p for p in theirs if p not in ours]),
        named([p for p in both if ours[p][STATUS] == DONE != theirs[p][STATUS]]),
        named([p for p in both if theirs[p][STATUS] == DONE != ours[p][STATUS]]),
        named([p for p in neither if _end(ours[p]) != _end(theirs[p])]),
        [name for name in wanted if name in here and name not in there],
        [name for name in wanted if name in there and name not in here],
        [_change(name, pairs, axes) for name in wanted if name in here and name in there],
    )


def _end(row: Row) -> tuple[Any, Any]:
    return row[STATUS], row.get(ERROR)


def _measures(table: list[Row]) -> dict[str, None]:
    """The columns that are a number somewhere, in order."""
    axes = _axes(table) if table else []
    return {
        name: None
        for row in table
        for name, value in row.items()
        if name not in axes and _is_number(value)
    }


def _axes(table: list[Row]) -> list[str]:
    if not table or STATUS not in table[0]:
        raise PagelabError("this is no table of a sweep: it has no column status")
    names = list(table[0])
    return names[: names.index(STATUS)]


def _by_point(table: list[Row], axes: list[str]) -> dict[tuple[Any, ...], Row]:
    found = {tuple(_value(row[axis]) for axis in axes): row for row in table}
    if len(found) < len(table):
        raise PagelabError(
            f"points are not told apart by the axes that both have: {', '.join(axes)}"
        )
    return found


def _value(value: Any) -> Any:
    """A value of an axis: a number is text where the axis has words, too, in one table alone."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        with suppress(ValueError):
            number = float(value)
            return number if math.isfinite(number) else value
    return value


def _change(name: str, pairs: list[tuple[Row, Row]], axes: list[str]) -> Change:
    values = [(_number(a, name), _number(b, name), a) for a, b in pairs]
    known = [(a, b, row) for a, b, row in values if not (a is None and b is None)]
    changed = [(a, b, row) for a, b, row in known if a != b]
    ratios = [_ratio(a, b) for a, b, _ in known]
    positive = [ratio for ratio in ratios if ratio is not None]
    furthest = max(changed, key=lambda one: _distance(*one[:2]), default=None)
    return Change(
        name,
        len(known),
        len(changed),
        geometric_mean(positive) if positive and len(positive) == len(known) else None,
        _ratio(*furthest[:2]) if furthest else None,
        {axis: furthest[2][axis] for axis in axes} if furthest else {},
    )


def _ratio(a: float | None, b: float | None) -> float | None:
    return b / a if a is not None and b is not None and a > 0 and b > 0 else None


def _distance(a: float | None, b: float | None) -> float:
    """Distance of two numbers."""
    ratio = _ratio(a, b)
    return math.inf if ratio is None else abs(math.log(ratio))


def _number(row: Row, name: str) -> float | None:
    value = row.get(name)
    return value if _is_number(value) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
