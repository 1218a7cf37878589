"""Flame graph of the calls that lead to each allocation, by what its memory costs.

Gregg, "The flame graph", CACM 59(6), 2016, upside down: the program's start is at the top.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pagelab import sites, units

if TYPE_CHECKING:
    from pagelab.counts import AllocationCosts
    from pagelab.results import Comparison, Run

# Blocks of less than this part of the width are left out.
_LEAST = 0.002


@dataclass(frozen=True)
class Block:
    """A call: its place and width in percent, how many calls are above it, and what it is."""

    name: str
    left: float
    width: float
    depth: int
    tip: str


@dataclass(frozen=True)
class Stacks:
    """The blocks, and how many are above each other at most."""

    blocks: list[Block]
    depth: int
    pages: str


@dataclass
class _Call:
    cycles: float = 0.0
    calls: dict[str, _Call] = field(default_factory=dict)


def of(comparison: Comparison) -> Stacks | None:
    """Stacks of the baseline; nothing without allocation sites, or where they cost nothing."""
    run = comparison.baseline
    root = _tree(run)
    if not root.cycles:
        return None
    blocks = list(_blocks(root, 0.0, 0, root.cycles, run.elapsed))
    return Stacks(blocks, 1 + max(block.depth for block in blocks), run.pages)


def _tree(run: Run) -> _Call:
    root = _Call()
    for row in run.allocation_sites:
        cycles = sites.cost(run, row)
        root.cycles += cycles
        at = root
        for name in _path(row):
            at = at.calls.setdefault(name, _Call())
            at.cycles += cycles
    return root


def _path(row: AllocationCosts) -> list[str]:
    """Names from the program's start to the allocator."""
    if row.row != "site":
        return [row.place]
    return [*(frame.place for frame in reversed(row.frames)), str(row.call)]


def _blocks(call: _Call, left: float, depth: int, total: float, elapsed: float) -> Iterator[Block]:
    for name, inner in sorted(call.calls.items(), key=lambda item: -item[1].cycles):
        if inner.cycles < _LEAST * total:
            break
        width = 100 * inner.cycles / total
        tip = f"{name}: {units.percent(inner.cycles / elapsed)} of the time"
        yield Block(name, left, width, depth, tip)
        yield from _blocks(inner, left, depth + 1, total, elapsed)
        left += width
