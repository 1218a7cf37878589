"""Addresses over time, prepared for the script that draws them."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Literal

from pagelab import units
from pagelab.counts import HeatMap
from pagelab.report.scales import linear_ticks, short

if TYPE_CHECKING:
    from pagelab.results import Comparison

Counted = Literal["accesses", "l2_tlb_misses", "faults"]

# Counted quantity, what one of them is called, and the colour.
_PICTURES: list[tuple[Counted, str, str]] = [
    ("accesses", "accesses", "data"),
    ("l2_tlb_misses", "second-level TLB misses", "translation"),
    ("faults", "page faults", "faults"),
]


def heat_maps(comparison: Comparison) -> list[dict[str, Any]]:
    """The pictures: designs that agree in every cell share one."""
    found: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for counted, name, colour in _PICTURES:
        for run in comparison.runs:
            if run.heat_map is None:
                continue
            cells = _cells(run.heat_map, counted)
            if not cells:
                continue
            picture = _frame(run.heat_map) | {"of": name, "colour": colour, "cells": cells}
            _, designs = found.setdefault(repr(picture), (picture, []))
            designs.append(comparison.label(run))
    return [picture | {"designs": ", ".join(designs)} for picture, designs in found.values()]


def _cells(heat_map: HeatMap, counted: Counted) -> list[list[int]]:
    """The cells that have any: column and count in turn, a list for each row; or nothing at all."""
    rows = [
        [number for column, count in enumerate(row) if count for number in (column, count)]
        for row in heat_map.counts(counted)
    ]
    return rows if any(rows) else []


def _frame(heat_map: HeatMap) -> dict[str, Any]:
    """Axes: the kinds of memory with their rows, and how far the accesses go."""
    size, end = heat_map.bytes_per_row, heat_map.columns * heat_map.accesses_per_column
    return {
        "columns": heat_map.columns,
        "step": heat_map.accesses_per_column,
        "size": units.size(size),
        "bands": [
            {"kind": kind, "rows": [f"{row.address:#x}" for row in rows], "gaps": _gaps(rows, size)}
            for kind, rows in (
                (kind, list(rows))
                for kind, rows in groupby(heat_map.rows, key=lambda row: row.kind)
            )
        ],
        "ticks": [
            [round(x / end * 100, 2), short(units.count(x))] for x in linear_ticks(end) if x <= end
        ],
    }


def _gaps(rows: list[Any], size: int) -> list[int]:
    """The rows that do not follow right after the one above."""
    pairs = enumerate(pairwise(rows), 1)
    return [number for number, (above, row) in pairs if row.address != above.address + size]
