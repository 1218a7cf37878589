"""Latencies of walks: one histogram a design over a common logarithmic axis."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagelab import units
from pagelab.counts import Latency
from pagelab.report.scales import Tick

if TYPE_CHECKING:
    from pagelab.results import Comparison, Run

# The simulator counts in buckets of a sixteenth; four bins for each doubling are what a narrow
# plot can show.
_PER_OCTAVE = 4


@dataclass(frozen=True)
class Bar:
    """One bin: its place and size in percent of the plot, and what it says."""

    x: float
    width: float
    height: float
    tip: str


@dataclass(frozen=True)
class Ridge:
    """One design's histogram; `mean` and `p99` in percent along the axis."""

    design: str
    bars: list[Bar]
    mean: Tick
    p99: Tick


@dataclass(frozen=True)
class LatencyChart:
    """All designs that walked, and the axis below them."""

    ridges: list[Ridge]
    ticks: list[Tick]
    without: list[str]


def latency_chart(comparison: Comparison) -> LatencyChart:
    """Histograms of walk latency, heights as shares of that design's walks."""
    runs = [run for run in comparison.runs if run.walks.count and run.walks.latency.histogram]
    without = [comparison.label(run) for run in comparison.runs if run not in runs]
    if not runs:
        return LatencyChart([], [], without)
    binned = {comparison.label(run): _bin(run.walks.latency) for run in runs}
    low = min(min(bins) for bins in binned.values())
    high = max(max(bins) for bins in binned.values()) + 1
    tallest = max(
        count / run.walks.count for run in runs for count in binned[comparison.label(run)].values()
    )

    def place(cycles: float) -> float:
        at = (math.log2(max(cycles, 1)) * _PER_OCTAVE - low) / (high - low) * 100
        return min(max(at, 0.0), 100.0)

    def ridge(run: Run) -> Ridge:
        latency, count, name = run.walks.latency, run.walks.count, comparison.label(run)
        bars = [
            Bar(
                x=(index - low) / (high - low) * 100,
                width=100 / (high - low),
                height=n / count / tallest * 100,
                tip=f"{_range(index)} cycles: {units.percent(n / count)} of the walks under {name}",
            )
            for index, n in sorted(binned[name].items())
        ]
        return Ridge(
            name,
            bars,
            Tick(place(latency.mean), f"{latency.mean:.0f}"),
            Tick(place(latency.p99), f"{latency.p99:,}"),
        )

    octaves = range(math.ceil(low / _PER_OCTAVE), high // _PER_OCTAVE + 1)
    step = max(1, round(len(octaves) / 7))
    ticks = [Tick(place(2**o), f"{2**o:,}") for o in octaves if o % step == 0]
    return LatencyChart([ridge(run) for run in runs], ticks, without)


def _bin(latency: Latency) -> Counter[int]:
    bins: Counter[int] = Counter()
    for upper, count in latency.histogram:
        if count:
            bins[math.floor(math.log2(max(upper, 1)) * _PER_OCTAVE + 1e-9)] += count
    return bins


def _range(index: int) -> str:
    low = math.ceil(2 ** (index / _PER_OCTAVE) - 1e-9)
    high = math.ceil(2 ** ((index + 1) / _PER_OCTAVE) - 1e-9) - 1
    return f"{low:,}" if high <= low else f"{low:,}\N{EN DASH}{high:,}"
