"""Curves of the report, on logarithmic axes."""

import math
from dataclasses import dataclass

from pagelab.measuring.findings import FOLIO_FIGURES, folio_label, walk
from pagelab.measuring.result import Curve, Measurement, Stepped
from pagelab.report.scales import Tick
from pagelab.report.timeline import Line, LineChart
from pagelab.units import nanoseconds, size


@dataclass(frozen=True)
class Series:
    """Values over the abscissae of a chart; `None` where there is none."""

    name: str
    values: list[float | None]


@dataclass(frozen=True)
class Chart:
    """A chart with a heading, and vertical marks where steps were found."""

    lines: LineChart
    what: str
    marks: list[Tick]


def log_chart(title: str, x: list[int], labels: list[str], series: list[Series]) -> LineChart:
    """Lines over a binary logarithmic axis, values on a decimal one."""
    values = [v for one in series for v in one.values if v is not None and v > 0]
    low = math.log10(min(values, default=1.0))
    high = max(math.log10(max(values, default=10.0)), low + 0.1)
    left, right = math.log2(x[0]), max(math.log2(x[-1]), math.log2(x[0]) + 1)

    def across(at: float) -> float:
        return (math.log2(at) - left) / (right - left) * 100

    def up(value: float) -> float:
        return (math.log10(value) - low) / (high - low) * 100

    lines = [
        Line(
            name=one.name,
            series=index,
            points=" ".join(
                f"{across(at) * 10:.1f},{1000 - up(value) * 10:.1f}"
                for at, value in zip(x, one.values, strict=True)
                if value is not None and value > 0
            ),
            values=["" if v is None else nanoseconds(v) for v in one.values],
        )
        for index, one in enumerate(series)
    ]
    every = max(1, len(x) // 6)
    decades = range(math.floor(low), math.ceil(high) + 1)
    marks = [
        m * 10.0**d for d in decades for m in (1, 2, 5) if low <= math.log10(m * 10.0**d) <= high
    ]
    return LineChart(
        title,
        lines,
        [Tick(across(at), label) for at, label in list(zip(x, labels, strict=True))[::every]],
        [Tick(up(value), nanoseconds(value)) for value in marks],
        [round(across(at), 2) for at in x],
        labels,
    )


def stepped_chart(title: str, what: str, found: Stepped, unit: int) -> Chart:
    """A latency curve with its steps marked; abscissae are in units of `unit` bytes."""
    curve = found.curve
    labels = [size(x * unit) if unit > 1 else f"{x:,}" for x in curve.x]
    left, right = math.log2(curve.x[0]), math.log2(curve.x[-1])
    marks = [
        Tick(
            (math.log2(step.nominal) - left) / (right - left) * 100,
            size(step.nominal * unit) if unit > 1 else f"{step.nominal:,}",
        )
        for step in found.steps
        if step.nominal is not None and step.no_conclusion is None
    ]
    lines = log_chart(title, curve.x, labels, [Series("median", curve.ns)])
    return Chart(lines, what, marks)


def charts(measurement: Measurement) -> list[Chart]:
    """Every curve of a result."""
    out = []
    curves = [
        ("caches", "lines", "Caches", "Latency by size of the working set, in huge pages.", 64),
        ("tlb", "small", "TLB, 4 KiB pages", "By pages; what the caches cost is taken out.", 1),
        ("tlb", "contiguous", "TLB, contiguous 4 KiB pages", "By pages, in groups of eight.", 1),
        ("tlb", "pieces_of_huge_pages", "TLB, 4 KiB pieces of 2 MiB pages", "By pieces.", 1),
        ("tlb", "huge", "TLB, 2 MiB pages", "By pages.", 1),
        ("tlb", "giant", "TLB, 1 GiB pages", "By pages.", 1),
    ]
    for part, key, title, what, unit in curves:
        found = measurement.stepped(part, key)
        if found is not None:
            out.append(stepped_chart(title, what, found, unit))
    plain = measurement.parts.get("chain", {}).get("pages")
    if plain:
        curve = Curve.model_validate(plain)
        labels = [size(x * 4096) for x in curve.x]
        what = "One load a page, small pages, nothing taken out."
        lines = log_chart("Plain chain", curve.x, labels, [Series("median", curve.ns)])
        out.append(Chart(lines, what, []))
    more = (
        random_loads_chart(measurement),
        folio_chart(measurement),
        first_touch_chart(measurement),
        walk_chart(measurement, "Walks, sequential", random=False),
        walk_chart(measurement, "Walks, random", random=True),
    )
    return out + [chart for chart in more if chart]


def random_loads_chart(measurement: Measurement) -> Chart | None:
    """Loads at random by the memory they are spread over, alone and side by side."""
    of_walkers = measurement.parts.get("caches", {}).get("at_random", {}).get("walkers")
    if not of_walkers:
        return None
    counts = sorted(of_walkers, key=int)
    curves = {count: Curve.model_validate(of_walkers[count]) for count in counts}
    x = next(iter(curves.values())).x
    series = [
        Series("alone" if count == "1" else f"{count} side by side", curve.ns)
        for count, curve in curves.items()
    ]
    what = "Time of a load by the memory they are spread over: what a last level is worth."
    return Chart(log_chart("Loads at random", x, [size(c * 64) for c in x], series), what, [])


def first_touch_chart(measurement: Measurement) -> Chart | None:
    """First touch of new memory by stride, in order and at random, small and huge pages."""
    rows = measurement.parts.get("faults", {}).get("first_touch_by_stride")
    if not rows:
        return None
    strides = sorted({row["stride"] for row in rows})
    series = []
    for huge in (False, True):
        for random in (False, True):
            found = {
                row["stride"]: row["ns"]["median"]
                for row in rows
                if row["huge"] == huge and row["random"] == random
            }
            name = f"{'2 MiB' if huge else '4 KiB'} pages, {'random' if random else 'sequential'}"
            series.append(Series(name, [found.get(stride) for stride in strides]))
    what = "Nanoseconds an access to memory that nobody has touched, by stride."
    labels = [size(stride) for stride in strides]
    return Chart(log_chart("First touch", strides, labels, series), what, [])


def walk_chart(measurement: Measurement, title: str, *, random: bool) -> Chart | None:
    """Walks of new memory by stride: small against huge pages, fewest and most iterations."""
    walks = measurement.parts.get("huge", {}).get("walks")
    rows = [row for row in walks["rows"] if row["random"] == random] if walks else []
    if not rows:
        return None
    strides = sorted({row["stride"] for row in rows})
    counts = [row["iterations"] for row in rows]
    series = []
    for kind in dict.fromkeys(row["pages"] for row in rows):
        for iterations in sorted({min(counts), max(counts)}):
            found = [
                walk(measurement, kind, stride=s, iterations=iterations, random=random)
                for s in strides
            ]
            values = [one.median if one else None for one in found]
            series.append(Series(f"{kind}, {iterations} iterations", values))
    order = "random" if random else "sequential"
    what = f"Nanoseconds an access of a {order} walk by stride, faults included."
    labels = [size(stride) for stride in strides]
    return Chart(log_chart(title, strides, labels, series), what, [])


def folio_chart(measurement: Measurement) -> Chart | None:
    """Cost a page by folio size, a line an operation."""
    rows = [r for r in measurement.parts.get("folios", {}).get("sizes", []) if not r["split"]]
    if len(rows) < 2:
        return None
    series = [
        Series(what, [row["per_page_ns"][key]["median"] or None for row in rows])
        for key, what in FOLIO_FIGURES.items()
    ]
    what = "Nanoseconds a 4 KiB page by folio size."
    x = [row["bytes"] for row in rows]
    lines = log_chart("Folio sizes", x, [folio_label(row) for row in rows], series)
    return Chart(lines, what, [])
