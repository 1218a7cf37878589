"""Counters of some designs only: a table a run, of whatever its result has."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pagelab import sampling
from pagelab.report.tables import Column, flat, shown

if TYPE_CHECKING:
    from pagelab.results import Comparison, Run

_DASH = "\N{EN DASH}"
_COLUMNS = [
    Column("counter", "", "By the name that docs/designs and the result's files have"),
    Column("in all", "", "From the machine's first access on, also where nothing is measured"),
]
_RATE = Column(
    "measured",
    "per 1000 instr.",
    "Per thousand instructions that were measured, with the 95 % confidence interval over windows. "
    "What a page table counts is no rate: sizes are among it",
)


@dataclass(frozen=True)
class CounterTable:
    """The counters of a run; those that are zero by their names alone."""

    label: str
    columns: list[Column]
    rows: list[list[str]]
    zero: list[str]


def counter_tables(comparison: Comparison) -> list[CounterTable]:
    """A table for each run whose design counts something of its own."""
    tables = [_table(comparison.label(run), run) for run in comparison.runs]
    return [table for table in tables if table.rows or table.zero]


def _table(label: str, run: Run) -> CounterTable:
    counters: list[tuple[str, Any, str]] = [
        (name, count, _rate(run, name)) for name, count in run.tlb_counters.items()
    ]
    counters += [(name, value, _DASH) for name, value in flat(run.design_counters or {})]
    # A page table alone has no rates, and so no column of them.
    cells = 3 if run.tlb_counters else 2
    return CounterTable(
        label,
        [*_COLUMNS, _RATE][:cells],
        [
            [name, shown(value, name), rate][:cells]
            for name, value, rate in counters
            if not _is_zero(value)
        ],
        [name for name, value, _ in counters if _is_zero(value)],
    )


def _is_zero(value: Any) -> bool:
    return value == 0 or (isinstance(value, list) and not any(value))


def _rate(run: Run, name: str) -> str:
    """Rate in what was measured."""
    if not run.windows:
        return f"{1000 * run.tlb_counters[name] / (run.instructions or 1):.2f}"
    sample = sampling.Sample(run.windows)
    rate, half = sample.of_instructions(lambda window: (window.tlb_counters or {})[name])
    text = _DASH if math.isnan(rate) else f"{1000 * rate:.2f}"
    return f"{text} \N{PLUS-MINUS SIGN} {1000 * half:.2f}" if half and math.isfinite(half) else text
