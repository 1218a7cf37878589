"""Metrics of figures, computed from a run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pagelab.results import Run

_LINE_BYTES = 64


@dataclass(frozen=True)
class Metric:
    """A number of a run.

    `window` names a counter of the windows: between runs of the same instructions, its ratios are
    those of the metric or the inverse of them.
    """

    of: Callable[[Run], float]
    window: str | None = None


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")


def _translation(run: Run) -> float:
    return _ratio(run.walks.latency.mean * run.walks.count, run.instructions)


def _translation_with_wait(run: Run) -> float:
    return _ratio(run.walks.mean_with_wait * run.walks.count, run.instructions)


def _metadata_cache_share(run: Run) -> float:
    """Figure 17 of the DPT paper: of the time spent on metadata, what the DMC answered.

    A look-up takes the cache's cycles; what it misses takes the latency of where it was found.
    """
    found = run.walks.metadata_served_by
    caches, dram = run.machine["caches"], run.machine["dram"]
    memory = dram["latency_ns"] * run.machine["core"]["ghz"] + caches["llc"]["cycles"]
    latencies = {
        "l1": caches["l1"]["cycles"],
        "l2": caches["l2"]["cycles"],
        "llc": caches["llc"]["cycles"],
        "dram": memory,
    }
    if coherence := caches.get("coherence"):
        latencies["other_cores"] = coherence["transfer_cycles"]
    missed = sum(getattr(found, level) * cycles for level, cycles in latencies.items())
    hits = run.walks.cache_hits * run.machine["dpt"]["dmc"]["4K"]["cycles"]
    return _ratio(hits, hits + missed)


def _pages(run: Run) -> int:
    """Pages that were given a frame, of any size."""
    os: dict[str, Any] = run.os.model_dump()
    return sum(int(pages) for kind in ("anonymous", "file") for pages in os[kind].values())


def _counter(name: str) -> Callable[[Run], float]:
    def of(run: Run) -> float:
        value = (run.design_counters or {}).get(name)
        return float("nan") if value is None else float(value)

    return of


def _read_rate(run: Run) -> float:
    """Bytes a nanosecond, of lines read from all nodes of memory."""
    return _ratio(_LINE_BYTES * sum(node.reads for node in run.nodes), run.seconds * 1e9)


METRICS: dict[str, Metric] = {
    # Instructions a cycle.
    "speed": Metric(lambda run: _ratio(run.instructions, run.cycles.elapsed), "cycles"),
    # Cycles of page walks an instruction.
    "translation_latency": Metric(_translation, "walk_cycles"),
    # The same from when a walker is asked for, not from when one begins.
    "translation_latency_with_wait": Metric(_translation_with_wait),
    "l2_mpki": Metric(lambda run: run.caches.l2_mpki, "l2_misses"),
    "llc_mpki": Metric(lambda run: run.caches.llc_mpki, "llc_misses"),
    # Memory references of walks an instruction, and the share of them that DRAM served.
    "walk_references": Metric(lambda run: _ratio(run.walks.reads, run.instructions), "walk_reads"),
    "walk_references_from_dram": Metric(
        lambda run: _ratio(run.walks.served_by.dram, run.walks.reads)
    ),
    "metadata_cache_share": Metric(_metadata_cache_share),
    # Pages of data moved out of a page table's way.
    "pages_migrated": Metric(lambda run: run.os.pages_migrated),
    "pages_migrated_per_page": Metric(lambda run: _ratio(run.os.pages_migrated, _pages(run))),
    # PTEs moved within the table, per page mapped.
    "ptes_migrated_per_page": Metric(
        lambda run: _ratio(_counter("ptes_migrated")(run), _counter("pages_mapped")(run))
    ),
    "read_gigabytes_per_second": Metric(_read_rate),
    # Before the program gives its memory back.
    "free_2m_blocks": Metric(lambda run: run.free_2m_blocks),
}
