"""Memory that was short or in pieces: pages that left it or were moved, and the time that took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagelab import units

if TYPE_CHECKING:
    from pagelab.results import Comparison, Run


def lines(comparison: Comparison) -> list[str]:
    """A sentence for each run whose memory was short or in pieces."""
    found = [(run, said) for run in comparison.runs for said in (_said(run), _compacted(run))]
    return [f"{comparison.label(run)}: {said}." for run, said in found if said]


def _said(run: Run) -> str:
    reclaim = run.os.reclaim
    if reclaim is None or not (reclaim.reclaims or reclaim.kswapd):
        return ""
    time = run.cycles.total / run.cycles.frequency_hz
    share = units.percent(reclaim.device_ns / 1e9 / time if time else 0.0)
    text = (
        f"swap and files take {share} of the time; pages swapped out {reclaim.swapped_out:,}, "
        f"in {reclaim.swapped_in:,}"
    )
    if reclaim.files_read:
        text += f", pages of files read again {reclaim.files_read:,}"
    if reclaim.kswapd:
        text += f"; kswapd took {reclaim.kswapd.taken:,} pages beside the program"
    if reclaim.underused_splits:
        zeros = units.size(reclaim.zeros_freed * 4096)
        text += f"; {reclaim.underused_splits:,} huge pages gave {zeros} of zeros back"
    return text


def _compacted(run: Run) -> str:
    compaction = run.os.compaction
    if compaction is None:
        return ""
    thread = compaction.kcompactd
    if thread and not compaction.stalls:
        return f"kcompactd made {thread.made:,} 2 MiB blocks, moving {thread.pages_moved:,} pages"
    costs = run.machine["cost"]
    moving = compaction.pages_moved * costs["migrate_4k_ns"] / 1e9
    time = run.cycles.total / run.cycles.frequency_hz
    return (
        f"2 MiB blocks were waited for {compaction.stalls:,} times and made {compaction.made:,} "
        f"times; moving {compaction.pages_moved:,} pages for it took "
        f"{units.percent(moving / time if time else 0.0)} of the time"
    )
