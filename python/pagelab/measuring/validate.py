"""The same chain on the real machine and on its preset in the simulator."""

import json
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pagelab import _core
from pagelab.errors import PagelabError
from pagelab.measuring.charts import Chart, Series, log_chart
from pagelab.measuring.result import Curve, Measurement
from pagelab.sources import Trace
from pagelab.units import size
from pagelab.window import Window

PAGE = 4096
LINE = 64
_BASE = 0x7F00_0000_0000


@dataclass(frozen=True)
class Point:
    """Latency of one load at one length of the chain, ns."""

    pages: int
    real: float
    simulated: float

    @property
    def error(self) -> float:
        """Error of the simulator, relative to the machine."""
        return self.simulated / self.real - 1


def validate(
    measurement: Measurement, machine: str, say: Callable[[str], None], design: str = "radix"
) -> list[Point]:
    """Simulates the plain chain of a measurement point by point.

    `machine` is a preset or a TOML file, `design` the one that it has. Raises PagelabError when
    the chain was not measured or the simulator refuses the machine.
    """
    raw = measurement.parts.get("chain", {}).get("pages")
    if raw is None:
        raise PagelabError("the result holds no plain chain: run  pagelab measure chain")
    curve = Curve.model_validate(raw)
    points = []
    for pages, real in curve.points:
        say(f"simulating {pages:,} pages")
        simulated = simulated_latency(pages, machine, measurement.seed, design)
        points.append(Point(pages, real, simulated))
    if not points:
        raise PagelabError("every point of the plain chain was lost: measure again")
    return points


def median_error(points: list[Point]) -> float:
    """Median over the sweep of how far off the simulator is."""
    return median(abs(point.error) for point in points)


def simulated_latency(pages: int, machine: str, seed: int, design: str = "radix") -> float:
    """Nanoseconds a load of the chain over so many pages takes in the simulator.

    The difference between a long run and a short one: both begin with the same faults and cold
    misses.
    """
    least = 4096
    short = max(2, least // pages)
    cycles = []
    for laps in (short, 2 * short):
        with tempfile.TemporaryDirectory(prefix="pagelab-") as directory:
            trace = Path(directory) / "chain.csv"
            trace.write_text(trace_text(pages, laps, seed), encoding="ascii")
            source = Trace(trace).describe(Window())
            try:
                text = _core.simulate(
                    design, machine, [], json.dumps(source), lambda done, total: True
                )
            except _core.Error as error:
                raise PagelabError(str(error)) from error
        run = json.loads(text)
        cycles.append(run["cycles"]["elapsed"])
        frequency = run["cycles"]["frequency_hz"]
    return float((cycles[1] - cycles[0]) / (short * pages) / frequency * 1e9)


def trace_text(pages: int, laps: int, seed: int) -> str:
    """The accesses of the probe's plain chain (Spread::LineInEachPage) as lines of a trace.

    The probe has written all pages before: what is only read has no frames of its own.
    """
    order = list(range(pages))
    random.Random(seed).shuffle(order)
    lap = "".join(f"L,{_BASE + offset(i):x},8,0,1\n" for i in order)
    written = "".join(f"S,{_BASE + offset(i):x},8,0,0\n" for i in range(pages))
    return f"map,{_BASE:x},{pages * PAGE}\n" + written + lap * laps


def offset(place: int) -> int:
    """Byte offset of a place: one line in each page, spread over the sets of the caches."""
    return place * PAGE + (place + place // 64) % 64 * LINE


def chart(points: list[Point]) -> Chart:
    """Both curves."""
    x = [point.pages for point in points]
    what = (
        "One dependent load a page, by size of the pages. Median difference "
        f"{median_error(points):.1%}."
    )
    series = [
        Series("real", [point.real for point in points]),
        Series("simulated", [point.simulated for point in points]),
    ]
    labels = [size(pages * PAGE) for pages in x]
    return Chart(log_chart("Plain chain", x, labels, series), what, [])
