"""The TLBs. Made by scripts/generate-api.py; do not edit.

Each is for `Design.with_tlb`. A key that is left out is as the machine says.
Every function raises `pagelab.errors.UsageError` for a value that no machine can have.

>>> from pagelab import designs
>>> designs.radix().with_tlb(range(entries=64))
Design('radix+range:range.entries=64')
"""

from typing import Any

from pagelab.design import Tlb as Tlb
from pagelab.design import changed_tlb


def mosaic(
    *,
    pages: int | None = None,
) -> Tlb:
    """TLB entries for 4 to 64 neighbouring pages with hashed frames."""
    return changed_tlb("mosaic", {"pages": pages})


def range(
    *,
    entries: int | None = None,
) -> Tlb:
    """A range TLB over redundant memory mappings, placed eagerly."""
    return changed_tlb("range", {"entries": entries})


def victima(
    *,
    insert_on_miss: bool | None = None,
    insert_on_eviction: bool | None = None,
    predictor: bool | None = None,
    tlb_aware: bool | None = None,
    parallel: bool | None = None,
    frequency_bits: int | None = None,
    cost_bits: int | None = None,
    frequency: list[Any] | None = None,
    cost: list[Any] | None = None,
    tlb_mpki: float | None = None,
    cache_mpki: float | None = None,
    window: int | None = None,
) -> Tlb:
    """TLB entries in the second-level cache."""
    return changed_tlb(
        "victima",
        {
            "insert_on_miss": insert_on_miss,
            "insert_on_eviction": insert_on_eviction,
            "predictor": predictor,
            "tlb_aware": tlb_aware,
            "parallel": parallel,
            "frequency_bits": frequency_bits,
            "cost_bits": cost_bits,
            "frequency": frequency,
            "cost": cost,
            "tlb_mpki": tlb_mpki,
            "cache_mpki": cache_mpki,
            "window": window,
        },
    )


def revelator(
    *,
    data: bool | None = None,
    entries: bool | None = None,
    functions: int | None = None,
    filtered: bool | None = None,
    least_share: float | None = None,
    window: int | None = None,
    cycles: int | None = None,
) -> Tlb:
    """Hashed frames, guessed and fetched while the table is walked."""
    return changed_tlb(
        "revelator",
        {
            "data": data,
            "entries": entries,
            "functions": functions,
            "filtered": filtered,
            "least_share": least_share,
            "window": window,
            "cycles": cycles,
        },
    )


def pom_tlb(
    *,
    kib: int | None = None,
    neighbours: int | None = None,
    cached: bool | None = None,
    size_predictor: bool | None = None,
    bypass_predictor: bool | None = None,
    predictor_entries: int | None = None,
) -> Tlb:
    """A TLB of many mebibytes in memory, whose lines the data caches hold."""
    return changed_tlb(
        "pom_tlb",
        {
            "kib": kib,
            "neighbours": neighbours,
            "cached": cached,
            "size_predictor": size_predictor,
            "bypass_predictor": bypass_predictor,
            "predictor_entries": predictor_entries,
        },
    )


def utopia(
    *,
    small_mib: int | None = None,
    large_mib: int | None = None,
    ways: int | None = None,
    set_filter: bool | None = None,
    filter_cache_kib: int | None = None,
    tag_cache_kib: int | None = None,
    cache_ways: int | None = None,
    cache_cycles: int | None = None,
    parallel: bool | None = None,
    at_faults: bool | None = None,
    evict_at_faults: bool | None = None,
    track: bool | None = None,
    costly_walks: int | None = None,
    costly_reads: int | None = None,
) -> Tlb:
    """Segments of memory in which a page has few places, beside the page table."""
    return changed_tlb(
        "utopia",
        {
            "small_mib": small_mib,
            "large_mib": large_mib,
            "ways": ways,
            "set_filter": set_filter,
            "filter_cache_kib": filter_cache_kib,
            "tag_cache_kib": tag_cache_kib,
            "cache_ways": cache_ways,
            "cache_cycles": cache_cycles,
            "parallel": parallel,
            "at_faults": at_faults,
            "evict_at_faults": evict_at_faults,
            "track": track,
            "costly_walks": costly_walks,
            "costly_reads": costly_reads,
        },
    )
