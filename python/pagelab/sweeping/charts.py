"""Charts of a sweep: small multiples of lines or columns, and points with their Pareto front."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pagelab.report.columns import Columns, columns
from pagelab.report.scales import Tick, linear_ticks
from pagelab.report.timeline import Line, LineChart
from pagelab.sweeping.file import Plot, Point, Sweep
from pagelab.sweeping.table import Estimate, Summary
from pagelab.units import number

# Above this ratio of the largest to the smallest, an axis is logarithmic.
_WIDE = 8


@dataclass(frozen=True)
class Dot:
    """A point, in percent of both axes."""

    x: float
    y: float
    series: int
    tip: str
    best: bool


@dataclass(frozen=True)
class Scatter:
    """Points; the front joins those that no other beats in both, as an SVG polyline."""

    dots: list[Dot]
    front: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    legend: list[str]


@dataclass(frozen=True)
class Panel:
    """One of the small multiples."""

    title: str
    lines: LineChart | None = None
    columns: Columns | None = None
    scatter: Scatter | None = None


@dataclass(frozen=True)
class Drawn:
    """A plot of the file."""

    title: str
    what: str
    panels: list[Panel]


def draw(sweep: Sweep, found: list[Summary]) -> list[Drawn]:
    """Every plot of the file; without any, those that suit the axes."""
    relative = any(summary.relative for summary in found)
    return [_draw(plot, found, relative) for plot in sweep.plot or _default(sweep, found)]


def _default(sweep: Sweep, found: list[Summary]) -> list[Plot]:
    """The first measure over the axis with most numbers, a line a design, a chart a program."""
    varied = [
        axis
        for axis in sweep.axes
        if axis != "seed" and len({summary.point.get(axis) for summary in found}) > 1
    ]
    if not varied:
        return []
    numeric = [axis for axis in varied if all(_is_number(s.point.get(axis)) for s in found)]
    x = max(numeric, key=lambda axis: len({s.point[axis] for s in found})) if numeric else varied[0]
    others = [axis for axis in varied if axis != x]
    line = next((axis for axis in ("design", *others) if axis in others), None)
    each = next(
        (axis for axis in ("workload", "trace", *others) if axis in others and axis != line), None
    )
    plots = [Plot(x=x, y=measure, line=line, each=each) for measure in sweep.measure[:2]]
    if len(sweep.measure) > 1:
        size = "os.peak_table_bytes" if "os.peak_table_bytes" in sweep.measure else sweep.measure[1]
        plots.append(Plot(x=size, y=sweep.measure[0], line=line, each=each, pareto=True))
    return plots


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _draw(plot: Plot, found: list[Summary], relative: bool) -> Drawn:
    each = _values(found, plot.each)
    # The same colour means the same in every panel.
    names = _values(found, plot.line)
    make = _scatter if plot.pareto else _lines_or_columns
    panels = []
    for value in each:
        members = [s for s in found if plot.each is None or s.point.get(plot.each) == value]
        made = make(plot, members, names, relative)
        title = f"{value}" if plot.each else ""
        panels.append(
            Panel(
                title,
                made if isinstance(made, LineChart) else None,
                made if isinstance(made, Columns) else None,
                made if isinstance(made, Scatter) else None,
            )
        )
    of = " relative to the baseline" if relative else ""
    by = f", by {plot.line}" if plot.line else ""
    if plot.pareto:
        what = f"{plot.y}{of} over {plot.x}{by}. Joined: no other point has less of both."
        return Drawn(f"{plot.y} and {plot.x}", what, panels)
    what = f"{plot.y}{of} over {plot.x}{by}; means of replicates."
    named = (plot.x, plot.line, plot.each)
    others = [
        axis
        for axis in dict.fromkeys(axis for summary in found for axis in summary.point)
        if axis not in named and len(_values(found, axis)) > 1
    ]
    if others:
        what += f" Of {', '.join(others)} only the value that comes first."
    return Drawn(plot.y, what, panels)


def _values(found: list[Summary], axis: str | None) -> list[Any]:
    if axis is None:
        return [None]
    return list(dict.fromkeys(summary.point.get(axis) for summary in found))


def _estimate(summary: Summary, measure: str, relative: bool) -> Estimate | None:
    return (summary.relative if relative else summary.measures).get(measure)


def tip(estimate: Estimate) -> str:
    """A number with its interval."""
    half = "" if not estimate.half else f" \N{PLUS-MINUS SIGN} {number(estimate.half)}"
    return f"{number(estimate.mean)}{half}"


def _lines_or_columns(
    plot: Plot, found: list[Summary], names: list[Any], relative: bool
) -> LineChart | Columns:
    xs = _values(found, plot.x)
    cells: dict[tuple[Any, Any], Estimate] = {}
    for summary in found:
        estimate = _estimate(summary, plot.y, relative)
        if estimate is not None:
            at = summary.point.get(plot.x), summary.point.get(plot.line) if plot.line else None
            cells.setdefault(at, estimate)
    labels = [str(name) if name is not None else plot.y for name in names]
    if len(xs) > 1 and all(_is_number(x) for x in xs):
        return _lines(plot, sorted(xs), names, labels, cells)
    rows = {
        str(x): [cells[x, name].mean if (x, name) in cells else None for name in names] for x in xs
    }
    return columns(labels, rows)


def _lines(
    plot: Plot,
    xs: list[float],
    names: list[Any],
    labels: list[str],
    cells: dict[tuple[Any, Any], Estimate],
) -> LineChart:
    across, _ = _axis(xs, from_zero=False)
    up, y_ticks = _axis([estimate.mean for estimate in cells.values()], from_zero=True)
    lines = []
    for series, (name, label) in enumerate(zip(names, labels, strict=True)):
        places = [(across(x), up(cells[x, name].mean)) for x in xs if (x, name) in cells]
        if len(places) == 1:
            # A dash where there is no line.
            (x, y) = places[0]
            places = [(x - 1.5, y), (x + 1.5, y)]
        points = " ".join(f"{x * 10:.1f},{1000 - y * 10:.1f}" for x, y in places)
        values = [tip(cells[x, name]) if (x, name) in cells else "" for x in xs]
        lines.append(Line(label, series, points, values))
    every = max(1, len(xs) // 6)
    return LineChart(
        plot.y,
        lines,
        [Tick(across(x), number(x)) for x in xs[::every]],
        y_ticks,
        [round(across(x), 2) for x in xs],
        [f"{plot.x} = {number(x)}" for x in xs],
    )


def _scatter(plot: Plot, found: list[Summary], names: list[Any], relative: bool) -> Scatter:
    points: list[tuple[float, float, int, str]] = []
    for summary in found:
        y = _estimate(summary, plot.y, relative)
        x = _estimate(summary, plot.x, relative) or summary.measures.get(plot.x)
        if x is not None and y is not None:
            series = names.index(summary.point.get(plot.line) if plot.line else None)
            points.append((x.mean, y.mean, series, f"{_name(summary.point)}: {tip(x)}, {tip(y)}"))
    across, x_ticks = _axis([x for x, *_ in points], from_zero=True)
    up, y_ticks = _axis([y for _, y, *_ in points], from_zero=True)
    best = front([(x, y) for x, y, *_ in points])
    dots = [Dot(across(x), up(y), series, text, (x, y) in best) for x, y, series, text in points]
    line = " ".join(f"{across(x) * 10:.1f},{1000 - up(y) * 10:.1f}" for x, y in sorted(best))
    legend = [str(name) for name in names] if plot.line else []
    return Scatter(dots, line, x_ticks, y_ticks, legend)


def front(points: Iterable[tuple[float, float]]) -> set[tuple[float, float]]:
    """The points that no other beats: less of one and no more of the other."""
    best: set[tuple[float, float]] = set()
    least = math.inf
    for x, y in sorted(points):
        if y < least:
            best.add((x, y))
            least = y
    return best


def _name(point: Point) -> str:
    return ", ".join(str(value) for value in point.values())


def _axis(values: list[float], *, from_zero: bool) -> tuple[Callable[[float], float], list[Tick]]:
    """Place of a value, in percent, and ticks; logarithmic where values are far apart."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if low > 0 and high / low >= _WIDE:
        left, right = math.log10(low), math.log10(high)
        marks = [
            m * 10.0**d
            for d in range(math.floor(left), math.ceil(right) + 1)
            for m in (1, 2, 5)
            if low <= m * 10.0**d <= high * 1.0001
        ]

        def scaled(value: float) -> float:
            return (math.log10(value) - left) / (right - left) * 100

        return scaled, [Tick(scaled(m), number(m)) for m in marks]
    if from_zero and low >= 0:
        ticks = linear_ticks(high or 1.0)
        return (lambda value: value / ticks[-1] * 100), [
            Tick(t / ticks[-1] * 100, number(t)) for t in ticks
        ]
    span = (high - low) or 1.0
    return (lambda value: (value - low) / span * 100), [
        Tick(0, number(low)),
        Tick(100, number(high)),
    ]
