"""Stacked bars: where the cycles went, and which level served the walks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagelab import units
from pagelab.counts import CYCLE_PARTS
from pagelab.report.scales import Tick, linear_ticks

if TYPE_CHECKING:
    from pagelab.results import Comparison

PART_LABELS = {
    "compute": "computing",
    "data": "waiting for data",
    "translation": "translation",
    "mispredictions": "mispredicted branches",
    "fetch": "fetching instructions",
    "faults": "faults, unmapping",
    "zeroing": "zeroing pages",
    "migrations": "moving pages",
}
LEVEL_LABELS = {
    "l1": "L1 cache",
    "l2": "L2 cache",
    "other_cores": "another core's caches",
    "llc": "last-level cache",
    "dram": "DRAM",
}


@dataclass(frozen=True)
class Segment:
    """A piece of a bar, `width` in percent of the plot."""

    kind: str
    width: float
    label: str
    tip: str


@dataclass(frozen=True)
class Row:
    """One design's bar, and the figure written behind it."""

    design: str
    segments: list[Segment]
    figure: str
    note: str


@dataclass(frozen=True)
class BarChart:
    """Bars over a common axis."""

    rows: list[Row]
    legend: list[tuple[str, str]]
    ticks: list[Tick]
    reference: float | None


def cycles_chart(comparison: Comparison) -> BarChart:
    """Cycles by cause, scaled so that the baseline's total is 100 %."""
    longest = max(1.0, *(comparison.relative_time(run) for run in comparison.runs))
    ticks = linear_ticks(longest)
    # The axis ends with the longest bar, not with the tick after it.
    end = longest * 1.02
    rows = []
    for run in comparison.runs:
        base, name = comparison.baseline_of(run), comparison.label(run)
        segments = []
        for part in CYCLE_PARTS:
            share = run.share(part) * comparison.relative_time(run)
            if share <= 0:
                continue
            segments.append(
                Segment(
                    part,
                    share / end * 100,
                    units.percent(share, 0),
                    f"{name}: {PART_LABELS[part]}, "
                    f"{units.percent(share)} of {comparison.label(base)}'s time",
                )
            )
        gain = comparison.speedup(run) - 1
        rows.append(
            Row(
                name + ("" if run.complete else " *"),
                segments,
                units.percent(comparison.relative_time(run)),
                "baseline" if run is base else f"{units.signed_percent(gain)} speed",
            )
        )
    present = [p for p in CYCLE_PARTS if any(run.share(p) for run in comparison.runs)]
    return BarChart(
        rows,
        [(part, PART_LABELS[part]) for part in present],
        [Tick(tick / end * 100, f"{tick * 100:.0f} %") for tick in ticks if tick <= end],
        100 / end,
    )


def levels_chart(comparison: Comparison) -> BarChart:
    """Levels that answered the walks' memory references, each design's adding up to 100 %."""
    rows = []
    for run in comparison.runs:
        served = run.walks.served_by
        total = sum(getattr(served, level) for level in LEVEL_LABELS)
        if not total:
            continue
        segments = []
        for level, name in LEVEL_LABELS.items():
            count = getattr(served, level)
            share = count / total
            if count:
                segments.append(
                    Segment(
                        level,
                        share * 100,
                        units.percent(share, 0),
                        f"{comparison.label(run)}: {units.count(count)} references of walks "
                        f"served by {name}, {units.percent(share)}",
                    )
                )
        per_walk = run.walks.reads / run.walks.count if run.walks.count else 0
        rows.append(Row(comparison.label(run), segments, f"{per_walk:.2f}", "references a walk"))
    coherent = any(run.caches.coherence for run in comparison.runs)
    legend = [level for level in LEVEL_LABELS.items() if coherent or level[0] != "other_cores"]
    return BarChart(rows, legend, [], None)
