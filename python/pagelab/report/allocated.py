"""The report's table of allocation sites: what larger pages save in whose memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagelab import sites, units
from pagelab.report.tables import Column, Table

if TYPE_CHECKING:
    from pagelab.results import Comparison

# Room of a report; `result.json` has all.
_MOST = 25

_COLUMNS = [
    Column("site", "", "The function that allocates, and its caller"),
    Column("saved", "% of time", "Part of the program's time that the larger pages save there"),
    Column("so far", "%", "Part of all that is saved, with the rows above"),
    Column("memory", "MiB", "Memory that they take more"),
    Column("a MiB", "cycles", "Cycles saved for each MiB of that; nothing where they take no more"),
    Column("callers", "", "The calls that lead there"),
    Column("source", "", "What stands where it is called"),
]


@dataclass(frozen=True)
class Sites:
    """The table, and which page sizes are compared."""

    pages: str
    table: Table


def of(comparison: Comparison) -> Sites | None:
    """The sites that gain; nothing without sites, larger pages or a gain."""
    found = sites.gains(comparison)
    if found is None or not (rows := _rows(found)):
        return None
    return Sites(f"{found.large.pages} instead of {found.small.pages} pages", Table(_COLUMNS, rows))


def _rows(found: sites.Gains) -> list[list[str]]:
    rows: list[list[str]] = []
    for gain, part in zip(found.sites, found.cumulative(), strict=True):
        if gain.saved <= 0 or len(rows) == _MOST:
            break
        frames = gain.site.frames
        rows.append(
            [
                gain.site.place,
                f"{100 * found.share(gain):.1f}",
                f"{100 * part:.0f}",
                f"{gain.extra / sites.MIB:+.1f}",
                "" if math.isinf(gain.per_mib) else units.count(gain.per_mib),
                " < ".join(frame.function or frame.place for frame in frames[1:]),
                (frames[0].text or "") if frames else "",
            ]
        )
    return rows
