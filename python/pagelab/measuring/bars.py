"""Figures 4 and 5 and Table 1 of the measuring paper as bars."""

from collections.abc import Callable
from dataclasses import dataclass

from pagelab import units
from pagelab.measuring.findings import program_label, walk
from pagelab.measuring.result import Measurement
from pagelab.report.bars import BarChart, Row, Segment
from pagelab.report.scales import Tick, binary_ticks, linear_ticks
from pagelab.units import nanoseconds


@dataclass(frozen=True)
class Bars:
    """Bars with a heading, and a line on what they show."""

    title: str
    what: str
    chart: BarChart


# The colours of the report's four cache levels.
_PHASES = {
    "map": ("l1", "map"),
    "first_touch": ("l2", "first touch"),
    "later_touch": ("llc", "later touch"),
    "unmap": ("dram", "unmap"),
}
_USES = {
    "untouched": "not touched",
    "read": "read",
    "written": "written",
    "written_huge": "written, 2 MiB pages",
    "present_file": "page is there",
}
_MEMORY = {
    "file": ("l2", "pages of files"),
    "other": ("llc", "other pages"),
    "page_tables": ("dram", "page tables"),
}


def allocation(measurement: Measurement) -> Bars | None:
    """Figure 4: the parts of the life of a page, by what is done to it."""
    life = measurement.parts.get("faults", {}).get("per_page_ns")
    if not life:
        return None
    rows = {
        name: [
            (kind, life[use][phase]["median"], label) for phase, (kind, label) in _PHASES.items()
        ]
        for use, name in _USES.items()
    }
    what = "Nanoseconds a 4 KiB page of each part of a mapping's life."
    return Bars("Figure 4: parts of allocation time", what, _stacked(rows, _PHASES, nanoseconds))


def first_walks(measurement: Measurement) -> Bars | None:
    """Figure 5: random against sequential first walks, small against huge pages."""
    rows = {}
    for stride in (4, 64):
        for pages in ("small", "transparent", "hugetlb"):
            for random in (False, True):
                found = walk(measurement, pages, stride=stride, iterations=1, random=random)
                if found is not None:
                    order = "random" if random else "sequential"
                    kind = "dram" if random else "l2"
                    rows[f"{pages}, {stride} B, {order}"] = [(kind, found.median, order)]
    if not rows:
        return None
    what = "Nanoseconds an access of the first walk over new memory, faults included."
    legend = {"sequential": ("l2", "sequential"), "random": ("dram", "random")}
    return Bars("Figure 5: random against sequential", what, _stacked(rows, legend, nanoseconds))


def shared_code(measurement: Measurement) -> Bars | None:
    """Table 1: what N processes of a program take together."""
    raw = measurement.parts.get("shared-code")
    if not raw:
        return None
    programs = [*(raw.get("pair") or []), *raw["started_apart"]]
    memories = {program_label(row): row["all"] for row in programs}
    if raw["forked"]:
        memories["the probe, forked"] = raw["forked"]["all"]
    if not memories:
        return None
    rows = {}
    for name, memory in memories.items():
        parts = memory | {"file": memory["pss_file"], "other": memory["pss"] - memory["pss_file"]}
        rows[name] = [(kind, float(parts[key]), label) for key, (kind, label) in _MEMORY.items()]
    what = (
        f"Memory of {raw['processes']} processes together: proportional set size, and page tables."
    )
    return Bars("Table 1: what sharing saves", what, _stacked(rows, _MEMORY, _in_bytes))


def bars(measurement: Measurement) -> list[Bars]:
    """All that the measurement has the data for."""
    drawn = (allocation(measurement), first_walks(measurement), shared_code(measurement))
    return [one for one in drawn if one is not None]


def _in_bytes(value: float) -> str:
    return units.size(int(value))


def _stacked(
    rows: dict[str, list[tuple[str, float, str]]],
    legend: dict[str, tuple[str, str]],
    show: Callable[[float], str],
) -> BarChart:
    """Bars of (colour, value, name) segments."""
    longest = max(sum(value for _, value, _ in parts) for parts in rows.values()) or 1.0
    ticks = binary_ticks(longest) if show is _in_bytes else linear_ticks(longest)
    end = longest * 1.02
    drawn = [
        Row(
            name,
            [
                Segment(kind, value / end * 100, show(value), f"{name}: {label}, {show(value)}")
                for kind, value, label in parts
                if value > 0
            ],
            show(sum(value for _, value, _ in parts)),
            "",
        )
        for name, parts in rows.items()
    ]
    marks = [Tick(tick / end * 100, show(tick) if tick else "0") for tick in ticks if tick <= end]
    return BarChart(drawn, list(legend.values()), marks, None)
