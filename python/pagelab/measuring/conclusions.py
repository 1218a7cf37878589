"""Zhai, "Measuring the Linux Virtual Memory Subsystem", again: Figures 1 and 4 to 7, Table 1.

Each figure is redrawn from a measurement of this machine, with the reason why the paper's
conclusion (experiments/measuring/) holds here or does not. Conclusions are computed from the
intervals, not looked up.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pagelab import units
from pagelab.measuring.bars import Bars, allocation, first_walks, shared_code
from pagelab.measuring.charts import Chart, stepped_chart, walk_chart
from pagelab.measuring.findings import program_label, walk
from pagelab.measuring.result import Estimate, Measurement
from pagelab.units import nanoseconds


@dataclass(frozen=True)
class Conclusion:
    """Answer of this machine to one figure; `agrees` is `None` when that is open."""

    agrees: bool | None
    reason: str
    chart: Chart | None = None
    bars: Bars | None = None


def of(figure: str, measurement: Measurement) -> Conclusion:
    """The figure redrawn: figure1, figure4 to figure7, or table1."""
    agrees, reason, chart = _ANSWERS[figure](measurement)
    drawn = _BARS[figure](measurement) if figure in _BARS else None
    return Conclusion(agrees, reason, chart, drawn)


_Answer = tuple[bool | None, str, Chart | None]
SAME, OTHER, OPEN = True, False, None


def _estimate(raw: Any) -> Estimate:
    return Estimate.model_validate(raw)


def _above(one: Estimate, other: Estimate) -> bool | None:
    """True if one figure is above another; `None` when their intervals overlap."""
    if one.low > other.high:
        return True
    return False if other.low > one.high else None


def _figure1(measurement: Measurement) -> _Answer:
    found = measurement.stepped("tlb", "small")
    if found is None:
        return OPEN, "the part tlb was not measured", None
    chart = stepped_chart("Figure 1", "Latency by pages, caches taken out.", found, 1)
    concluded = [step for step in found.steps if step.no_conclusion is None]
    if not concluded:
        return OPEN, "no step is concluded", chart
    first = concluded[0]
    reason = (
        f"the first level ends after {first.nominal:,} pages and its misses cost "
        f"{nanoseconds(first.high - first.low)}"
    )
    flat_to = found.plateaus[1].last if len(found.plateaus) > 1 else 0
    if flat_to > 512:
        reason += (
            f"; unlike the paper's, the curve stays flat past 512 pages, to {flat_to:,}: with "
            "one page at many addresses the second-level cache does not miss"
        )
        return OTHER, reason, chart
    return SAME, reason, chart


def _figure4(measurement: Measurement) -> _Answer:
    raw = measurement.parts.get("faults", {}).get("per_page_ns")
    if raw is None:
        return OPEN, "the part faults was not measured", None
    first = _estimate(raw["written"]["first_touch"])
    later = _estimate(raw["written"]["later_touch"])
    present = _estimate(raw["present_file"]["first_touch"])
    written = _estimate(raw["written"]["unmap"])
    read = _estimate(raw["read"]["unmap"])
    zero = _estimate(raw["zeroing_in_user_mode"])
    if _above(first, later) is None:
        return OPEN, "first and later touch cannot be told apart", None
    reason = (
        f"the first touch of a page takes {nanoseconds(first.median)}, a later one "
        f"{nanoseconds(later.median)}: allocation is on demand"
    )
    reason += (
        f". A fault that only maps takes {nanoseconds(present.median)}, and zeroing 4 KiB "
        f"{nanoseconds(zero.median)} in user mode"
    )
    if _above(written, read) is not None:
        reason += (
            f". Unmapping a written page takes {nanoseconds(written.median)}, one that shares the "
            f"zero page {nanoseconds(read.median)}: the paper could not tell them apart"
        )
    return (SAME if _above(first, later) else OTHER), reason, None


def _figure5(measurement: Measurement) -> _Answer:
    sides = []
    stride = 4 if walk(measurement, "small", stride=4, iterations=1, random=True) else 64
    for pages in ("small", "transparent"):
        random = walk(measurement, pages, stride=stride, iterations=1, random=True)
        sequential = walk(measurement, pages, stride=stride, iterations=1, random=False)
        if random is None or sequential is None:
            return OPEN, "the walks of the part huge were not measured", None
        sides.append((pages, random, sequential, _above(random, sequential)))
    if any(above is None for *_, above in sides):
        return OPEN, "random and sequential walks cannot be told apart", None
    reason = "; ".join(
        f"{pages} pages, {stride} B stride: random {nanoseconds(r.median)}, sequential "
        f"{nanoseconds(s.median)} an access"
        for pages, r, s, _ in sides
    )
    small_faster, huge_slower = not sides[0][3], bool(sides[1][3])
    if small_faster and huge_slower:
        return SAME, reason, None
    if huge_slower:
        reason += (
            ". With as many accesses as the memory has words, a random walk leaves hardly a page "
            "out, so that it saves few faults and misses the caches"
        )
    return OTHER, reason, None


def _walk_figure(random: bool) -> Callable[[Measurement], _Answer]:
    def answer(measurement: Measurement) -> _Answer:
        walks = measurement.parts.get("huge", {}).get("walks")
        if not walks:
            return OPEN, "the part huge was not measured", None
        rows = [row for row in walks["rows"] if row["random"] == random]
        strides = sorted({row["stride"] for row in rows})
        least = min(row["iterations"] for row in rows)
        most = max(row["iterations"] for row in rows)
        chart = walk_chart(measurement, f"Figure {7 if random else 6}", random=random)
        widest = strides[-1]
        pairs = []
        for iterations in (least, most):
            small = walk(measurement, "small", stride=widest, iterations=iterations, random=random)
            huge = walk(
                measurement, "transparent", stride=widest, iterations=iterations, random=random
            )
            if small is None or huge is None:
                return OPEN, "walks are missing", chart
            pairs.append((iterations, small, huge))
        (_, small, huge), (_, small_most, huge_most) = pairs
        slower = _above(huge, small)
        if slower is None:
            return OPEN, "small and huge pages cannot be told apart", chart
        gain = (huge_most.median / small_most.median) < (huge.median / small.median)
        reason = (
            f"at {units.size(widest)} stride a huge page takes {nanoseconds(huge.median)} an "
            f"access and a small one {nanoseconds(small.median)} with {least} iterations, "
            f"{nanoseconds(huge_most.median)} and {nanoseconds(small_most.median)} with {most}"
        )
        return (SAME if slower and gain else OTHER), reason, chart

    return answer


def _table1(measurement: Measurement) -> _Answer:
    raw = measurement.parts.get("shared-code")
    if raw is None:
        return OPEN, "the part shared-code was not measured", None
    rows = raw["started_apart"]
    pair = raw.get("pair")
    if not rows and not pair:
        return OPEN, "no program was found", None
    parts = []
    for row in [*(pair or []), *rows]:
        saved = row["all"]["rss"] - row["all"]["pss"]
        parts.append(f"{raw['processes']} {program_label(row)}: {units.size(saved)}")
    reason = "what the paper gave up on, memory that sharing saves: " + ", ".join(parts)
    if not pair:
        return OPEN, f"{reason}; no program could be linked both ways here", None
    shared, static = pair
    reason = (
        f"one program takes {units.size(shared['file_bytes'])} linked shared and "
        f"{units.size(static['file_bytes'])} static; {raw['processes']} processes of it take "
        f"{units.size(shared['all']['pss'])} (PSS) and {units.size(static['all']['pss'])}, with "
        f"{units.size(shared['all']['page_tables'])} and "
        f"{units.size(static['all']['page_tables'])} of page tables. W{reason[1:]}"
    )
    return (SAME if static["file_bytes"] > 2 * shared["file_bytes"] else OTHER), reason, None


_ANSWERS: dict[str, Callable[[Measurement], _Answer]] = {
    "figure1": _figure1,
    "figure4": _figure4,
    "figure5": _figure5,
    "figure6": _walk_figure(random=False),
    "figure7": _walk_figure(random=True),
    "table1": _table1,
}

_BARS: dict[str, Callable[[Measurement], Bars | None]] = {
    "figure4": allocation,
    "figure5": first_walks,
    "table1": shared_code,
}
