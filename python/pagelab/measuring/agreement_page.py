"""The page of `pagelab validate`: predicted beside measured, as bars and in figures."""

from collections.abc import Callable

from pagelab import units
from pagelab.measuring.agreement import Agreement
from pagelab.measuring.bars import Bars
from pagelab.measuring.native import HugePages
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
            "change by huge pages",
            "processor time without over that with them, less 1: the median of paired rounds, and "
            "its 95 % bootstrap interval",
        ),
        ("without faults", "the predicted change of the program's own time"),
    ]
    return _TEMPLATES.get_template("validate.html").render(
        title="Predicted and measured",
        sentences=sentences,
        bars=[chart for chart in (_gains(rows), _times(rows)) if chart],
        rows=[{"name": row.name, "cells": _cells(row)} for row in rows],
        facts=facts,
    )


def _cells(row: Agreement) -> list[str]:
    """A line of the table, without the name."""
    gain = row.gain
    return [
        units.count(row.accesses),
        "" if row.measured_ns is None else f"{row.measured_ns:.2f}",
        f"{row.predicted_ns:.2f}",
        f"{gain.median:+.1%} ({gain.low:+.1%} to {gain.high:+.1%})" if gain else "not measured",
        _signed(row.predicted_gain),
        _signed(row.predicted_gain_of_translation),
        units.count(row.measured_faults),
        "" if row.incomplete else units.count(row.small.faults),
        str(len(row.native.small)),
        row.verdict,
    ]


def _signed(share: float | None) -> str:
    return "" if share is None else f"{share:+.1%}"


def _gains(rows: list[Agreement]) -> Bars | None:
    """Changes by huge pages; a bar has no length below 0, the figure behind it says it."""
    pairs = {
        row.name: (row.gain.median, row.predicted_gain)
        for row in rows
        if row.gain is not None and row.predicted_gain is not None and not row.incomplete
    }
    if not pairs:
        return None
    what = "How much less processor time programs would take with huge pages."
    return Bars("Change by huge pages", what, _paired(pairs, lambda share: f"{share:+.0%}"))


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
