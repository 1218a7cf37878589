"""The page of `pagelab validate`: predicted beside measured, as bars and in figures."""

from collections.abc import Callable, Iterator

from pagelab import units
from pagelab.measuring.agreement import Agreement, Change
from pagelab.measuring.bars import Bars
from pagelab.measuring.native import SMALL, HugePages
from pagelab.report.bars import BarChart, Row, Segment
from pagelab.report.scales import Tick, linear_ticks
from pagelab.report.templating import environment

_TEMPLATES = environment("pagelab.measuring")

_LEGEND = {"measured": ("l2", "measured"), "predicted": ("dram", "predicted")}


def render(rows: list[Agreement], sentences: list[str], machine: str, pages: HugePages) -> str:
    """The page as HTML."""
    facts = [
        ("machine", machine),
        ("huge pages", pages.how),
        ("time of an access", "user time with small pages, by the loads and stores recorded"),
        (
            "change by larger pages",
            "processor time without over that with them, less 1: the median of paired rounds, and "
            "its 95 % bootstrap interval",
        ),
        (
            "predicted (from, to)",
            "where cores had half of their buffers for a part of the time: for such shares of it; "
            "with all of them, and with half",
        ),
        (
            "rounds",
            "those compared: where cores had all of their buffers throughout, if that was so in "
            "five",
        ),
        ("without faults", "the predicted change of the program's own time"),
    ]
    return _TEMPLATES.get_template("validate.html").render(
        title="Predicted and measured",
        sentences=sentences,
        bars=[chart for chart in (*_gains(rows), _times(rows)) if chart],
        rows=[{"name": row.name, "cells": cells} for row in rows for cells in _lines(row)],
        facts=facts,
    )


def _lines(row: Agreement) -> list[list[str]]:
    """Lines of the table without the name: one for each larger page size, or one without any."""
    begin = [
        units.count(row.accesses),
        _time(row),
        _predicted(row),
    ]
    compared, run = len(row.native.small), row.native.rounds
    rounds = f"{compared} of {run}" if run > compared else str(compared)
    none = ["", "not measured", "", "", *_faults(row, SMALL), rounds, "no verdict: no huge pages"]
    return [
        [
            *begin,
            change.pages,
            _measured(change),
            f"{change.predicted:+.1%}",
            f"{change.without_faults:+.1%}",
            *_faults(row, change.pages),
            rounds,
            change.verdict,
        ]
        for change in row.changes
    ] or [[*begin, *none]]


def _time(row: Agreement) -> str:
    found = row.measured_interval
    return "" if found is None else f"{found.median:.2f} ({found.low:.2f} to {found.high:.2f})"


def _predicted(row: Agreement) -> str:
    """Nanoseconds an access, and with all and with half of the core's buffers."""
    text = f"{row.predicted_ns:.2f}"
    if ends := row.predicted_range:
        text += f" ({ends[0]:.2f} to {ends[1]:.2f})"
    return text


def _measured(change: Change) -> str:
    gain = change.measured
    return f"{gain.median:+.1%} ({gain.low:+.1%} to {gain.high:+.1%})" if gain else "not measured"


def _faults(row: Agreement, size: str) -> tuple[str, str]:
    """Without larger pages and with them, measured and predicted."""
    sizes = dict.fromkeys((SMALL, size))
    measured = [units.count(row.measured_faults(one)) for one in sizes]
    predicted = [
        units.count(count) for one in sizes if (count := row.predicted_faults(one)) is not None
    ]
    return " → ".join(measured), " → ".join(predicted)


def _gains(rows: list[Agreement]) -> Iterator[Bars]:
    """Changes by each page size; a bar has no length below 0, the figure behind it says it."""
    for size in dict.fromkeys(size for row in rows for size in row.larger):
        pairs = {
            row.name: (change.measured.median, change.predicted)
            for row in rows
            for change in row.changes
            if change.pages == size and change.measured is not None and not row.incomplete
        }
        if pairs:
            what = f"How much less processor time programs would take with pages of {size}."
            bars = _paired(pairs, lambda share: f"{share:+.0%}")
            yield Bars(f"Change by {size} pages", what, bars)


def _times(rows: list[Agreement]) -> Bars | None:
    """Times of an access."""
    pairs = {
        row.name: (row.measured_ns, row.predicted_ns) for row in rows if row.measured_ns is not None
    }
    if not pairs:
        return None
    what = "User time by loads and stores, with small pages."
    return Bars("Nanoseconds an access", what, _paired(pairs, lambda ns: f"{ns:.3g}"))


def _paired(pairs: dict[str, tuple[float, float]], show: Callable[[float], str]) -> BarChart:
    """Two bars a program: measured, predicted."""
    longest = max(max(pair) for pair in pairs.values()) or 1.0
    longest = max(longest, 1e-3)
    end = longest * 1.02
    drawn = []
    for name, pair in pairs.items():
        for (kind, label), value in zip(_LEGEND.values(), pair, strict=True):
            width = max(value, 0.0) / end * 100
            segment = Segment(kind, width, show(value), f"{name}, {label}: {show(value)}")
            heading = name if label == "measured" else ""
            drawn.append(Row(heading, [segment] if width else [], show(value), label))
    ticks = [Tick(t / end * 100, show(t)) for t in linear_ticks(longest) if t <= end]
    return BarChart(drawn, list(_LEGEND.values()), ticks, None)
