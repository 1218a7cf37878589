"""Larger pages that a program was given, and why it was not given others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagelab import units
from pagelab.counts import Blocks
from pagelab.pages import RESERVED, largest

if TYPE_CHECKING:
    from pagelab.results import Comparison, Run

_NOT_ELIGIBLE = {
    "not_covered": "not covered by a mapping",
    "not_advised": "not advised (MADV_HUGEPAGE)",
    "unwanted": "advised against (MADV_NOHUGEPAGE, MAP_STACK)",
    "forbidden": "forbidden by the program (PR_SET_THP_DISABLE)",
    "file": "of files",
    "shared": "of shared memory",
    "read_first": "read before they were written",
}


def lines(comparison: Comparison) -> list[str]:
    """A sentence for each page size above 4 KiB on one machine, of the baseline's design."""
    base = comparison.baseline
    found = []
    for pages in comparison.page_sizes:
        runs = [run for run in comparison.runs if run.pages == pages and run.os.blocks]
        if not runs:
            continue
        run = next((run for run in runs if run.design == base.design), runs[0])
        faults = f"{run.os.faults:,} faults"
        if run.os.faults == base.os.faults and run is not base:
            faults += f", as with {base.pages}"
        elif run is not base:
            faults += f" instead of {base.os.faults:,}"
        found.append(f"{pages}: {_sentence(run)}. {faults}.")
    return found


def eligible(blocks: Blocks) -> int:
    """Blocks that could be a page: given or not for want of memory alone."""
    return blocks.given + blocks.no_free_block


def why_none(run: Run) -> str:
    """Reason for no page of a run's size though it has blocks of it; empty if it has some."""
    blocks = run.os.blocks
    if blocks is None or blocks.given or _collapsed(run):
        return ""
    size = block_size(run.pages)
    if blocks.no_free_block:
        none = f"No block of {size} was free in the simulated memory"
        return f"{none}: all {blocks.no_free_block:,} that asked for one got small pages"
    return f"No block of {size} could be one: {_refused(blocks)}" if _refused(blocks) else ""


def in_steps(run: Run) -> str:
    """Advice where most blocks are larger than the mapping when they are touched, as a heap's."""
    blocks = run.os.blocks
    if blocks is None or blocks.not_covered <= blocks.given:
        return ""
    size = block_size(run.pages)
    return (
        f"{blocks.not_covered:,} blocks of {size} were larger than the mapping when they were "
        "touched, as of a heap that grows in steps: settings of malloc may change that (pagelab "
        "advise tries them)"
    )


def fell_back(run: Run) -> str:
    """Number of the blocks that got small pages, if it is enough to matter."""
    blocks = run.os.blocks
    if blocks is None or not blocks.given or blocks.no_free_block < eligible(blocks) / 10:
        return ""
    size = block_size(run.pages)
    return (
        f"{blocks.no_free_block:,} of {eligible(blocks):,} blocks of {size} got small pages, since "
        "no such block was free"
    )


def split(run: Run) -> str:
    """Number of the pages that were split again, if it is enough to matter."""
    blocks = run.os.blocks
    count = run.os.splits.large if largest(run.pages) == "2M" else 0
    if blocks is None or not blocks.given or count < blocks.given / 10:
        return ""
    which = f"All {count:,}" if count == blocks.given else f"{count:,} of {blocks.given:,}"
    return (
        f"{which} pages of 2 MiB were split again, since a part of each was unmapped, protected or "
        "copied"
    )


def block_size(pages: str) -> str:
    """A page size as bytes are written: `2 MiB`."""
    return units.size(units.parse_size(largest(pages))).replace(".00", "")


def _sentence(run: Run) -> str:
    blocks = run.os.blocks
    assert blocks is not None
    size = block_size(run.pages)
    asked, refused = eligible(blocks), _refused(blocks)
    if not asked:
        none = f"no block of {size} could be one page at a fault: {refused or 'none was used'}"
        return f"{none}{_later(run)}"
    eligible_blocks = f"{asked:,} eligible block{'s' if asked > 1 else ''}"
    text = f"{blocks.given:,} of {eligible_blocks} got a {size} page"
    if run.pages in RESERVED:
        text = (
            f"{blocks.given:,} of {eligible_blocks} of {size} reserved, "
            f"{run.os.promoted:,} became one page"
        )
    if blocks.no_free_block:
        text += f", {blocks.no_free_block:,} fell back (no free block of {size})"
    if count := run.os.splits.large if largest(run.pages) == "2M" else 0:
        text += f", {count:,} were split later"
    text += _later(run)
    return f"{text}; not eligible: {refused}" if refused else text


def _collapsed(run: Run) -> int:
    """Pages of 2 MiB that khugepaged has made."""
    thread = run.os.khugepaged
    return thread.collapsed if thread and largest(run.pages) == "2M" else 0


def _later(run: Run) -> str:
    count = _collapsed(run)
    return f", khugepaged made {count:,} later" if count else ""


def _refused(blocks: Blocks) -> str:
    counts = ((getattr(blocks, name), words) for name, words in _NOT_ELIGIBLE.items())
    return ", ".join(f"{count:,} {words}" for count, words in counts if count)
