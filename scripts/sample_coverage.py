#!/usr/bin/env python3
"""Samples of recorded programs beside all of them: a row of Markdown a trace.

For each trace every access is simulated once, then samples of it, whose period is drawn anew for
each seed. A cell has the value of the whole, the mean error of the samples with the mean half of
their intervals, and how many intervals held the value.

    scripts/sample_coverage.py --seeds 20 sort.trace xz.trace
"""

import argparse
import random
import statistics
import sys
from pathlib import Path

import pagelab
from pagelab import sampling
from pagelab.results import Run
from pagelab.window import Window

PIECE = 100_000
PERIODS = (600_000, 1_000_000)
# Known of the whole program, and so without an interval: it may be as far off as this.
FAULTS = 0.01

Figures = dict[str, tuple[float, float]]


def figures(trace: Path, window: Window) -> Figures:
    """What is said of a trace: values, and half of each interval's width."""
    compared = pagelab.compare(
        pagelab.Trace(trace), ["radix", "ideal"], pages=["4K", "2M"], window=window
    )
    runs = {(run.design, run.pages): run for run in compared.runs}
    base = runs["radix", "4K"]
    return {
        "2M": _speed(base, runs["radix", "2M"]),
        "ideal": _speed(base, runs["ideal", "4K"]),
        "TLB MPKI": base.per_kilo("l2_tlb_misses"),
        "LLC MPKI": base.per_kilo("llc_misses"),
        "faults": (base.os.faults, 0.0),
    }


def _speed(base: Run, run: Run) -> tuple[float, float]:
    if base.sample is None or run.sample is None:
        return base.elapsed / run.elapsed, 0.0
    return sampling.relative(base.sample, run.sample)


def row(trace: Path, seeds: int) -> list[str]:
    """The cells of a trace."""
    whole = figures(trace, Window())
    samples = []
    for seed in range(seeds):
        period = random.Random(1000 + seed).randrange(*PERIODS)
        samples.append(figures(trace, Window(sample=(PIECE, period))))
        print(f"{trace.stem}: {seed + 1} of {seeds}", file=sys.stderr)
    cells = [trace.stem]
    for name, (value, _) in whole.items():
        found = [sample[name] for sample in samples]
        error = statistics.mean(one - value for one, _ in found)
        half = statistics.mean(half for _, half in found)
        allowed = FAULTS * value if name == "faults" else 0.0
        held = sum(abs(one - value) <= max(half, allowed) for one, half in found)
        cells.append(f"{value:.4g} ({error:+.2g} ± {half:.2g}) {held}/{seeds}")
    return cells


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    print("| program | speed of 2M | speed of ideal | TLB MPKI | LLC MPKI | faults |")
    print("| --- | --- | --- | --- | --- | --- |")
    for trace in options.traces:
        print("| " + " | ".join(row(trace, options.seeds)) + " |", flush=True)


if __name__ == "__main__":
    main()
