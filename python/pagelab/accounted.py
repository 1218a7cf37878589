"""Accounting of pages: what it costs under each of several schemes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagelab.counts import AccountingWork

if TYPE_CHECKING:
    from pagelab.results import Comparison, Run


def lines(comparison: Comparison) -> list[str]:
    """A sentence for each run, where runs differ by their accounting schemes."""
    if len({_scheme(run) for run in comparison.runs}) < 2:
        return []
    found = [(run, _said(run)) for run in comparison.runs]
    return [f"{comparison.label(run)}: {said}." for run, said in found if said]


def _scheme(run: Run) -> str:
    # The machine has no key that is as by default.
    scheme: str = run.machine.get("memory", {}).get("accounting", "mm_owner")
    return scheme


def _said(run: Run) -> str:
    work = run.os.accounting
    if work is None:
        return ""
    kinds = {"fork()": work.fork, "faults": work.fault, "unmapping": work.unmap}
    parts = [f"{kind} {_price(one)}" for kind, one in kinds.items() if one.pages]
    return f"accounting takes atomic operations, and cache lines of metadata, in {', '.join(parts)}"


def _price(work: AccountingWork) -> str:
    return (
        f"{work.atomics:,} and {work.lines:,} "
        f"({work.atomics / work.pages:.2f} and {work.lines / work.pages:.2f} a page)"
    )
