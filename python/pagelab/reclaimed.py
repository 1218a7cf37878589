"""Memory that was short: pages that left it and came back, and the time that took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagelab import units

if TYPE_CHECKING:
    from pagelab.results import Comparison, Run


def lines(comparison: Comparison) -> list[str]:
    """A sentence for each run whose memory was short."""
    return [f"{comparison.label(run)}: {said}." for run in comparison.runs if (said := _said(run))]


def _said(run: Run) -> str:
    reclaim = run.os.reclaim
    if reclaim is None or not reclaim.reclaims:
        return ""
    time = run.cycles.total / run.cycles.frequency_hz
    share = units.percent(reclaim.device_ns / 1e9 / time if time else 0.0)
    text = (
        f"swap and files take {share} of the time; pages swapped out {reclaim.swapped_out:,}, "
        f"in {reclaim.swapped_in:,}"
    )
    if reclaim.files_read:
        text += f", pages of files read again {reclaim.files_read:,}"
    return text
