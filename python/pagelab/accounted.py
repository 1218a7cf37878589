"""Accounting of pages: what it costs under each of several schemes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pagelab.results import Comparison, Run


def lines(comparison: Comparison) -> list[str]:
    """A sentence for each page table and page size that accounting schemes differ with.

    Cache lines of metadata are in the result beside the atomic operations.
    """
    if len({_scheme(run) for run in comparison.runs}) < 2:
        return []
    groups: dict[str, list[Run]] = {}
    for run in comparison.runs:
        if run.os.accounting is not None:
            groups.setdefault(f"{run.without_system} {run.pages}", []).append(run)
    return [
        f"{name}: atomic operations of accounting a page under "
        f"{', '.join(run.system for run in runs)}: {parts}."
        for name, runs in groups.items()
        if (parts := _differing(runs))
    ]


def _scheme(run: Run) -> str:
    # The machine has no key that is as by default.
    scheme: str = run.machine["memory"].get("accounting", "mm_owner")
    return scheme


def _differing(runs: list[Run]) -> str:
    """The kinds of work that cost more under one than under another, with what they cost."""
    kinds = {"fork()": "fork", "faults": "fault", "unmapping": "unmap"}
    found = {}
    for kind, name in kinds.items():
        works = [getattr(run.os.accounting, name) for run in runs]
        if all(work.pages for work in works):
            found[kind] = [f"{work.atomics / work.pages:.2f}" for work in works]
    return "; ".join(
        f"{kind} {', '.join(costs)}" for kind, costs in found.items() if len(set(costs)) > 1
    )
