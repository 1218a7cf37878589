"""Gain of larger pages by allocation site, and what it costs in memory."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pagelab import units
from pagelab.annotating import cut
from pagelab.counts import AllocationCosts

if TYPE_CHECKING:
    from pagelab.results import Comparison, Run

MIB = 1 << 20
# Rows of the table; --json has all.
_ROWS = 12
# The least part of a program's time that is worth a row; one that takes more memory has one, too.
WORTH = 0.0005


@dataclass(frozen=True)
class Gain:
    """Cycles that larger pages save in the memory of a site, and the memory that they take more."""

    site: AllocationCosts
    """As it is with larger pages."""
    saved: float
    extra: int
    """Bytes."""

    @property
    def per_mib(self) -> float:
        """Cycles saved per MiB of extra memory; infinite where that is none."""
        if self.extra <= 0:
            return math.inf if self.saved > 0 else -math.inf
        return self.saved / (self.extra / MIB)


@dataclass(frozen=True)
class Gains:
    """Gains of all sites, the best first, between two runs of a program."""

    small: "Run"
    large: "Run"
    sites: list[Gain]

    @property
    def saved(self) -> float:
        """Cycles saved in all sites that gain."""
        return sum(gain.saved for gain in self.sites if gain.saved > 0)

    def share(self, gain: Gain) -> float:
        """Part of the small run's time that a site saves."""
        return gain.saved / self.small.elapsed if self.small.elapsed else 0.0

    def cumulative(self) -> list[float]:
        """Part of all that is saved that each site and those before it save."""
        found, so_far = [], 0.0
        for gain in self.sites:
            so_far += max(gain.saved, 0.0)
            found.append(so_far / self.saved if self.saved else 0.0)
        return found


def gains(comparison: "Comparison") -> Gains | None:
    """Gains of the baseline's design with the largest pages; none without sites or other pages.

    1 GiB pages do not count: a program cannot ask for them site by site.
    """
    small = comparison.baseline
    large = [
        run
        for run in comparison.runs
        if run.design == small.design
        and run.machine_name == small.machine_name
        and run.pages not in (small.pages, "1G")
        and run.allocation_sites
    ]
    if not small.allocation_sites or not large:
        return None
    return between(small, large[-1])


def between(small: "Run", large: "Run") -> Gains:
    """Gains by site of one run over another of the same recording."""
    before = {row.key: cost(small, row) for row in small.allocation_sites}
    memory = {row.key: row.peak_resident_bytes for row in small.allocation_sites}
    found = [
        Gain(
            row,
            before.get(row.key, 0.0) - cost(large, row),
            row.peak_resident_bytes - memory.get(row.key, 0),
        )
        for row in large.allocation_sites
    ]
    found.sort(key=lambda gain: (gain.saved > 0, gain.per_mib, gain.saved), reverse=True)
    return Gains(small, large, found)


def cost(run: "Run", row: AllocationCosts) -> float:
    """Cycles that translation and page faults take in the memory of a site.

    Of the stalls for translation a site has its part of the cycles of walks. A sample's count for
    the whole program.
    """
    walks = sum(other.walk_cycles for other in run.allocation_sites)
    stalls = run.cycles.translation * row.walk_cycles / walks if walks else 0.0
    scale = run.elapsed / run.cycles.elapsed if run.cycles.elapsed else 1.0
    return scale * (stalls + row.fault_cycles)


def show(found: Gains, console: Console) -> None:
    """Prints the sites that gain most for the memory that they take."""
    large, small = found.large.pages, found.small.pages
    console.print(Text(f"By allocation site, {large} instead of {small} pages:", style="bold"))
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for heading in ("saved", "of all", "memory", "a MiB", "site"):
        table.add_column(heading, justify="left" if heading == "site" else "right", no_wrap=True)
    shown = [
        (gain, part)
        for gain, part in zip(found.sites, found.cumulative(), strict=True)
        if found.share(gain) >= WORTH or gain.extra >= MIB
    ]
    for gain, part in shown[:_ROWS]:
        ratio = units.count(gain.per_mib) if 0 < gain.per_mib < math.inf else ""
        table.add_row(
            units.percent(found.share(gain), 1),
            units.percent(part, 0),
            f"{gain.extra / MIB:+.1f} MiB",
            ratio,
            cut(gain.site.place, 44),
        )
    console.print(table)
    if len(shown) > _ROWS:
        console.print(f"{len(shown) - _ROWS} more", style="dim", highlight=False)
    console.print(
        "Time saved in the site's memory; part of all that is saved with the rows above;\n"
        "memory more; cycles saved a MiB of that, by which rows are sorted.",
        style="dim",
        highlight=False,
    )


def as_json(found: Gains) -> list[dict[str, object]]:
    """Rows for `--json` and files."""
    return [
        {
            "site": gain.site.place,
            "call": gain.site.call,
            "frames": [frame.model_dump() for frame in gain.site.frames],
            "saved_cycles": gain.saved,
            "saved_share": found.share(gain),
            "cumulative": part,
            "extra_bytes": gain.extra,
        }
        for gain, part in zip(found.sites, found.cumulative(), strict=True)
    ]
