"""report.html of an advice: what to type, and measured beside predicted, from its file."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pagelab import results, units
from pagelab.advising.saved import Interval, Saved, Tried
from pagelab.errors import cannot
from pagelab.report import allocated
from pagelab.report.scales import Tick, linear_ticks
from pagelab.report.templating import environment
from pagelab.results import Comparison

_TEMPLATES = environment("pagelab.advising")
# Folder of the model's own report, beside the advice.
MODEL = "model"
# Left of and right of what is drawn, as a share of it.
_MARGIN = 0.06


@dataclass(frozen=True)
class Row:
    """A setting: its interval, median and prediction, in percent of the axis, and in words."""

    name: str
    low: float | None
    width: float
    median: float
    predicted: float | None
    figure: str
    note: str
    tip: str


@dataclass(frozen=True)
class Picture:
    """Rows over an axis of times faster, with a line at 1."""

    rows: list[Row]
    ticks: list[Tick]
    one: float


def picture(saved: Saved) -> Picture:
    """All settings, those that gain most first, below the unchanged program against itself."""
    found: list[tuple[str, Interval, float | None, str]]
    found = [("unchanged", saved.noise, None, "against itself")]
    found += [
        (one.name, one.faster, one.predicted, one.effect)
        for one in sorted(saved.tried, key=lambda one: -one.faster.median)
    ]
    ends = [1.0]
    for _, interval, predicted, _ in found:
        ends += [value for value in (interval.median, interval.low, interval.high) if value]
        ends += [] if predicted is None else [predicted]
    ends = [end for end in ends if math.isfinite(end)]
    low, high = min(ends), max(ends)
    room = max(high - low, 0.02) * _MARGIN
    low, high = low - room, high + room

    def at(value: float) -> float:
        return 100 * (value - low) / (high - low)

    return Picture([_row(*one, at) for one in found], _ticks(low, high, at), at(1.0))


def _row(name: str, interval: Interval, predicted: float | None, note: str, at: Any) -> Row:
    known = interval.low is not None and interval.high is not None
    low, high = (interval.low, interval.high) if known else (interval.median, interval.median)
    words = f"{interval.median:.2f}"
    tip = f"{name}: measured {words} times"
    if known:
        tip += f", {low:.2f} to {high:.2f}"
    if predicted is not None:
        tip += f"\npredicted {predicted:.2f} times"
    return Row(
        name,
        at(low) if known else None,
        at(high) - at(low),
        at(interval.median),
        None if predicted is None else at(predicted),
        words,
        note,
        tip,
    )


def _ticks(low: float, high: float, at: Any) -> list[Tick]:
    step = linear_ticks(high - low, wanted=6)[1]
    steps = range(math.ceil(low / step), math.floor(high / step) + 1)
    return [Tick(at(step * i), f"{step * i:.5g}") for i in steps]


def _cells(saved: Saved) -> Iterable[tuple[str, list[str]]]:
    model = any(one.predicted is not None for one in saved.tried)
    blank = [""] if model else []
    yield "unchanged", [_interval(saved.noise), "", "", *blank, *_memory(saved.unchanged), "itself"]
    for one in sorted(saved.tried, key=lambda one: -one.faster.median):
        predicted = [] if not model else [f"{one.predicted:.2f}" if one.predicted else ""]
        overall = "" if one.faster_overall is None else f"{one.faster_overall:.2f}"
        gains = [_interval(one.faster), overall, _interval(one.faster_wall)]
        yield one.name, [*gains, *predicted, *_memory(one), one.effect]


def _interval(found: Interval) -> str:
    if found.low is None or found.high is None:
        return f"{found.median:.2f}"
    return f"{found.median:.2f} ({found.low:.2f} to {found.high:.2f})"


def _memory(one: Tried) -> list[str]:
    peak = units.size(one.peak_bytes) if one.peak_bytes else "?"
    return [units.size(one.huge_page_bytes), units.count(one.median("faults").median), peak]


def render(saved: Saved, model: Comparison | None = None) -> str:
    """The page as HTML; the report of a `model` is beside it."""
    perf = (saved.model or {}).get("perf")
    heads = [
        "times faster",
        "over all",
        "by wall clock",
        "predicted",
        "in huge pages",
        "faults",
        "peak",
        "",
    ]
    if all(one.predicted is None for one in saved.tried):
        heads.remove("predicted")
    program = " ".join(saved.command)
    return _TEMPLATES.get_template("advice.html").render(
        saved=saved,
        program=program if len(program) < 200 else f"{program[:200]} …",
        picture=picture(saved),
        predicted=any(one.predicted is not None for one in saved.tried),
        measured="what its load gets done" if saved.rated else "processor time",
        heads=heads,
        rows=list(_cells(saved)),
        where=(saved.model or {}).get("where", []),
        machine=(saved.model or {}).get("machine"),
        perf=perf,
        expected=_expected(perf),
        sites=None if model is None else allocated.of(model),
        link=None if model is None else f"{MODEL}/report.html",
    )


def _expected(perf: dict[str, Any] | None) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """The settings, and a row of counts for each event."""
    counts = (perf or {}).get("expected") or {}
    settings = list(next(iter(counts.values()), {}))
    rows = [
        (event, [units.count(of.get(name, 0)) for name in settings]) for event, of in counts.items()
    ]
    return settings, rows


def write(saved: Saved, folder: Path, out: Path | None = None) -> Path:
    """Writes the page, into the folder of the advice unless it goes elsewhere.

    Raises PagelabError where it cannot.
    """
    page = out or folder / "report.html"
    model = folder / MODEL
    html = render(saved, results.load(model) if (model / "report.html").is_file() else None)
    with cannot("write", page):
        page.write_text(html, encoding="utf-8")
    return page
