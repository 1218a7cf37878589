"""What differs between two tables: points that only one has, and how numbers changed."""

import math
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from pagelab.errors import PagelabError
from pagelab.sweep.table import DONE, Row

# Columns of the table that are no results: what comes before them are the axes.
STATUS = "status"


@dataclass(frozen=True)
class Change:
    """A measure over all points that both tables have.

    `ratio` is the geometric mean of second over first, where all are positive; `largest` is the
    ratio furthest from 1, and `where` its point.
    """

    measure: str
    points: int
    changed: int
    ratio: float | None
    largest: float | None
    where: dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """Points as dictionaries of their axes."""

    only_first: list[dict[str, Any]]
    only_second: list[dict[str, Any]]
    broken: list[dict[str, Any]]
    mended: list[dict[str, Any]]
    changes: list[Change]

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        lists = (self.only_first, self.only_second, self.broken, self.mended)
        return not any(lists) and not any(change.changed for change in self.changes)


def difference(first: list[Row], second: list[Row], measures: list[str]) -> Difference:
    """Compares tables by their common axes; `measures` picks columns, all numbers if it is empty.

    Raises PagelabError when the tables have no axis in common, or do not tell points apart by them.
    """
    axes = [axis for axis in _axes(first) if axis in _axes(second)]
    if not axes:
        raise PagelabError("the two results have no axis in common")
    ours, theirs = _by_point(first, axes), _by_point(second, axes)
    both = [point for point in ours if point in theirs]

    def named(points: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
        return [dict(zip(axes, point, strict=True)) for point in points]

    done = [p for p in both if ours[p][STATUS] == DONE and theirs[p][STATUS] == DONE]
    columns = measures or [
        name
        for name in first[0]
        if name not in _axes(first) and name in second[0] and name not in (STATUS, "error")
    ]
    return Difference(
        named([p for p in ours if p not in theirs]),
        named([p for p in theirs if p not in ours]),
        named([p for p in both if ours[p][STATUS] == DONE != theirs[p][STATUS]]),
        named([p for p in both if theirs[p][STATUS] == DONE != ours[p][STATUS]]),
        [_change(name, [(ours[p], theirs[p]) for p in done], axes) for name in columns],
    )


def _axes(table: list[Row]) -> list[str]:
    if not table or STATUS not in table[0]:
        raise PagelabError("this is no table of a sweep: it has no column status")
    names = list(table[0])
    return names[: names.index(STATUS)]


def _by_point(table: list[Row], axes: list[str]) -> dict[tuple[Any, ...], Row]:
    found = {tuple(row[axis] for axis in axes): row for row in table}
    if len(found) < len(table):
        raise PagelabError(
            f"points are not told apart by the axes that both have: {', '.join(axes)}"
        )
    return found


def _change(name: str, pairs: list[tuple[Row, Row]], axes: list[str]) -> Change:
    known = [(a, b) for a, b in pairs if _is_number(a.get(name)) and _is_number(b.get(name))]
    changed = [(a, b) for a, b in known if a[name] != b[name]]
    ratios = [(b[name] / a[name], a) for a, b in known if a[name] > 0 and b[name] > 0]
    furthest = max(ratios, key=lambda one: abs(math.log(one[0])), default=None)
    whole = len(ratios) == len(known) and ratios
    return Change(
        name,
        len(known),
        len(changed),
        geometric_mean([ratio for ratio, _ in ratios]) if whole else None,
        furthest[0] if furthest else None,
        {axis: furthest[1][axis] for axis in axes} if furthest else {},
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
