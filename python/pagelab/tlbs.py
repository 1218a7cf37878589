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
    return changed_tlb("mosaic", locals())


def range(
    *,
    entries: int | None = None,
) -> Tlb:
    """A range TLB over redundant memory mappings, placed eagerly."""
    return changed_tlb("range", locals())


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
    return changed_tlb("victima", locals())


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
    return changed_tlb("revelator", locals())


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
    return changed_tlb("pom_tlb", locals())


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
    return changed_tlb("utopia", locals())
