"""The designs. Made by scripts/generate-api.py; do not edit.

A key that is left out is as the machine says. Every function raises
`pagelab.errors.UsageError` for a value that no machine can have; docs/designs/ has a
page a design.

>>> dpt(cpd=False)
Design('dpt:cpd=false')
"""

from collections.abc import Mapping
from typing import Any, Literal

from pagelab.design import Design as Design
from pagelab.design import changed

PageSize = Literal["4K", "16K", "32K", "64K", "128K", "256K", "512K", "1M", "2M", "1G", "madvise"]


def radix(
    *,
    levels: int | None = None,
    pwc: Mapping[str, Any] | None = None,
    pages: PageSize | None = None,
) -> Design:
    """The radix tree of x86-64 with a split page-walk cache (4 or 5 levels)."""
    return changed("radix", pages, {"levels": levels, "pwc": pwc})


def radix_mosaic(
    *,
    levels: int | None = None,
    pwc: Mapping[str, Any] | None = None,
    mosaic_pages: int | None = None,
    pages: PageSize | None = None,
) -> Design:
    """Radix with TLB entries for 4 to 64 neighbouring pages with hashed frames."""
    return changed(
        "radix+mosaic", pages, {"levels": levels, "pwc": pwc, "mosaic.pages": mosaic_pages}
    )


def radix_range(
    *,
    levels: int | None = None,
    pwc: Mapping[str, Any] | None = None,
    range_entries: int | None = None,
    pages: PageSize | None = None,
) -> Design:
    """Radix with a range TLB over redundant memory mappings, placed eagerly."""
    return changed(
        "radix+range", pages, {"levels": levels, "pwc": pwc, "range.entries": range_entries}
    )


def radix_victima(
    *,
    levels: int | None = None,
    pwc: Mapping[str, Any] | None = None,
    victima_insert_on_miss: bool | None = None,
    victima_insert_on_eviction: bool | None = None,
    victima_predictor: bool | None = None,
    victima_tlb_aware: bool | None = None,
    victima_parallel: bool | None = None,
    victima_frequency_bits: int | None = None,
    victima_cost_bits: int | None = None,
    victima_frequency: list[Any] | None = None,
    victima_cost: list[Any] | None = None,
    victima_tlb_mpki: float | None = None,
    victima_cache_mpki: float | None = None,
    victima_window: int | None = None,
    pages: PageSize | None = None,
) -> Design:
    """Radix with TLB entries in the second-level cache."""
    return changed(
        "radix+victima",
        pages,
        {
            "levels": levels,
            "pwc": pwc,
            "victima.insert_on_miss": victima_insert_on_miss,
            "victima.insert_on_eviction": victima_insert_on_eviction,
            "victima.predictor": victima_predictor,
            "victima.tlb_aware": victima_tlb_aware,
            "victima.parallel": victima_parallel,
            "victima.frequency_bits": victima_frequency_bits,
            "victima.cost_bits": victima_cost_bits,
            "victima.frequency": victima_frequency,
            "victima.cost": victima_cost,
            "victima.tlb_mpki": victima_tlb_mpki,
            "victima.cache_mpki": victima_cache_mpki,
            "victima.window": victima_window,
        },
    )


def radix_revelator(
    *,
    levels: int | None = None,
    pwc: Mapping[str, Any] | None = None,
    revelator_data: bool | None = None,
    revelator_entries: bool | None = None,
    revelator_functions: int | None = None,
    revelator_filtered: bool | None = None,
    revelator_least_share: float | None = None,
    revelator_window: int | None = None,
    revelator_cycles: int | None = None,
    pages: PageSize | None = None,
) -> Design:
    """Radix with hashed frames, guessed and fetched while the table is walked."""
    return changed(
        "radix+revelator",
        pages,
        {
            "levels": levels,
            "pwc": pwc,
            "revelator.data": revelator_data,
            "revelator.entries": revelator_entries,
            "revelator.functions": revelator_functions,
            "revelator.filtered": revelator_filtered,
            "revelator.least_share": revelator_least_share,
            "revelator.window": revelator_window,
            "revelator.cycles": revelator_cycles,
        },
    )


def radix_pom_tlb(
    *,
    levels: int | None = None,
    pwc: Mapping[str, Any] | None = None,
    pom_tlb_kib: int | None = None,
    pom_tlb_neighbours: int | None = None,
    pom_tlb_cached: bool | None = None,
    pom_tlb_size_predictor: bool | None = None,
    pom_tlb_bypass_predictor: bool | None = None,
    pom_tlb_predictor_entries: int | None = None,
    pages: PageSize | None = None,
) -> Design:
    """Radix with a TLB of many mebibytes in memory, whose lines the data caches hold."""
    return changed(
        "radix+pom_tlb",
        pages,
        {
            "levels": levels,
            "pwc": pwc,
            "pom_tlb.kib": pom_tlb_kib,
            "pom_tlb.neighbours": pom_tlb_neighbours,
            "pom_tlb.cached": pom_tlb_cached,
            "pom_tlb.size_predictor": pom_tlb_size_predictor,
            "pom_tlb.bypass_predictor": pom_tlb_bypass_predictor,
            "pom_tlb.predictor_entries": pom_tlb_predictor_entries,
        },
    )


def radix_utopia(
    *,
    levels: int | None = None,
    pwc: Mapping[str, Any] | None = None,
    utopia_small_mib: int | None = None,
    utopia_large_mib: int | None = None,
    utopia_ways: int | None = None,
    utopia_set_filter: bool | None = None,
    utopia_filter_cache_kib: int | None = None,
    utopia_tag_cache_kib: int | None = None,
    utopia_cache_ways: int | None = None,
    utopia_cache_cycles: int | None = None,
    utopia_parallel: bool | None = None,
    utopia_at_faults: bool | None = None,
    utopia_evict_at_faults: bool | None = None,
    utopia_track: bool | None = None,
    utopia_costly_walks: int | None = None,
    utopia_costly_reads: int | None = None,
    pages: PageSize | None = None,
) -> Design:
    """Radix with segments of memory in which a page has few places, beside the page table."""
    return changed(
        "radix+utopia",
        pages,
        {
            "levels": levels,
            "pwc": pwc,
            "utopia.small_mib": utopia_small_mib,
            "utopia.large_mib": utopia_large_mib,
            "utopia.ways": utopia_ways,
            "utopia.set_filter": utopia_set_filter,
            "utopia.filter_cache_kib": utopia_filter_cache_kib,
            "utopia.tag_cache_kib": utopia_tag_cache_kib,
            "utopia.cache_ways": utopia_cache_ways,
            "utopia.cache_cycles": utopia_cache_cycles,
            "utopia.parallel": utopia_parallel,
            "utopia.at_faults": utopia_at_faults,
            "utopia.evict_at_faults": utopia_evict_at_faults,
            "utopia.track": utopia_track,
            "utopia.costly_walks": utopia_costly_walks,
            "utopia.costly_reads": utopia_costly_reads,
        },
    )


def flattened(
    *,
    upper: bool | None = None,
    lower: bool | None = None,
    pwc: Mapping[str, Any] | None = None,
    pages: PageSize | None = None,
) -> Design:
    """The radix tree with two levels a node of 2 MiB."""
    return changed("flattened", pages, {"upper": upper, "lower": lower, "pwc": pwc})


def flattened_mosaic(
    *,
    upper: bool | None = None,
    lower: bool | None = None,
    pwc: Mapping[str, Any] | None = None,
    mosaic_pages: int | None = None,
    pages: PageSize | None = None,
) -> Design:
    """Flattened with TLB entries for 4 to 64 neighbouring pages with hashed frames."""
    return changed(
        "flattened+mosaic",
        pages,
        {"upper": upper, "lower": lower, "pwc": pwc, "mosaic.pages": mosaic_pages},
    )


def flattened_range(
    *,
    upper: bool | None = None,
    lower: bool | None = None,
    pwc: Mapping[str, Any] | None = None,
    range_entries: int | None = None,
    pages: PageSize | None = None,
) -> Design:
    """Flattened with a range TLB over redundant memory mappings, placed eagerly."""
    return changed(
        "flattened+range",
        pages,
        {"upper": upper, "lower": lower, "pwc": pwc, "range.entries": range_entries},
    )


def clustered(
    *,
    hash_cycles: int | None = None,
    entries: int | None = None,
    occupancy: float | None = None,
    compaction: bool | None = None,
    pages: PageSize | None = None,
) -> Design:
    """A hashed table, eight entries a line, open addressing."""
    return changed(
        "clustered",
        pages,
        {
            "hash_cycles": hash_cycles,
            "entries": entries,
            "occupancy": occupancy,
            "compaction": compaction,
        },
    )


def clustered_mosaic(
    *,
    hash_cycles: int | None = None,
    entries: int | None = None,
    occupancy: float | None = None,
    compaction: bool | None = None,
    mosaic_pages: int | None = None,
    pages: PageSize | None = None,
) -> Design:
    """Clustered with TLB entries for 4 to 64 neighbouring pages with hashed frames."""
    return changed(
        "clustered+mosaic",
        pages,
        {
            "hash_cycles": hash_cycles,
            "entries": entries,
            "occupancy": occupancy,
            "compaction": compaction,
            "mosaic.pages": mosaic_pages,
        },
    )


def clustered_range(
    *,
    hash_cycles: int | None = None,
    entries: int | None = None,
    occupancy: float | None = None,
    compaction: bool | None = None,
    range_entries: int | None = None,
    pages: PageSize | None = None,
) -> Design:
    """Clustered with a range TLB over redundant memory mappings, placed eagerly."""
    return changed(
        "clustered+range",
        pages,
        {
            "hash_cycles": hash_cycles,
            "entries": entries,
            "occupancy": occupancy,
            "compaction": compaction,
            "range.entries": range_entries,
        },
    )


def ecpt(
    *,
    ways: int | None = None,
    entries: int | None = None,
    occupancy: float | None = None,
    growth: int | None = None,
    rehash_per_insertion: int | None = None,
    max_displacements: int | None = None,
    hash_cycles: int | None = None,
    compaction: bool | None = None,
    cwt: Mapping[str, Any] | None = None,
    cwc: Mapping[str, Any] | None = None,
    pages: PageSize | None = None,
) -> Design:
    """Elastic cuckoo page tables: hashed tables of several ways, read at once."""
    return changed(
        "ecpt",
        pages,
        {
            "ways": ways,
            "entries": entries,
            "occupancy": occupancy,
            "growth": growth,
            "rehash_per_insertion": rehash_per_insertion,
            "max_displacements": max_displacements,
            "hash_cycles": hash_cycles,
            "compaction": compaction,
            "cwt": cwt,
            "cwc": cwc,
        },
    )


def ecpt_mosaic(
    *,
    ways: int | None = None,
    entries: int | None = None,
    occupancy: float | None = None,
    growth: int | None = None,
    rehash_per_insertion: int | None = None,
    max_displacements: int | None = None,
    hash_cycles: int | None = None,
    compaction: bool | None = None,
    cwt: Mapping[str, Any] | None = None,
    cwc: Mapping[str, Any] | None = None,
    mosaic_pages: int | None = None,
    pages: PageSize | None = None,
) -> Design:
    """Ecpt with TLB entries for 4 to 64 neighbouring pages with hashed frames."""
    return changed(
        "ecpt+mosaic",
        pages,
        {
            "ways": ways,
            "entries": entries,
            "occupancy": occupancy,
            "growth": growth,
            "rehash_per_insertion": rehash_per_insertion,
            "max_displacements": max_displacements,
            "hash_cycles": hash_cycles,
            "compaction": compaction,
            "cwt": cwt,
            "cwc": cwc,
            "mosaic.pages": mosaic_pages,
        },
    )


def ecpt_range(
    *,
    ways: int | None = None,
    entries: int | None = None,
    occupancy: float | None = None,
    growth: int | None = None,
    rehash_per_insertion: int | None = None,
    max_displacements: int | None = None,
    hash_cycles: int | None = None,
    compaction: bool | None = None,
    cwt: Mapping[str, Any] | None = None,
    cwc: Mapping[str, Any] | None = None,
    range_entries: int | None = None,
    pages: PageSize | None = None,
) -> Design:
    """Ecpt with a range TLB over redundant memory mappings, placed eagerly."""
    return changed(
        "ecpt+range",
        pages,
        {
            "ways": ways,
            "entries": entries,
            "occupancy": occupancy,
            "growth": growth,
            "rehash_per_insertion": rehash_per_insertion,
            "max_displacements": max_displacements,
            "hash_cycles": hash_cycles,
            "compaction": compaction,
            "cwt": cwt,
            "cwc": cwc,
            "range.entries": range_entries,
        },
    )


def me_hpt(
    *,
    ways: int | None = None,
    entries: int | None = None,
    occupancy: float | None = None,
    chunk_kib: list[Any] | None = None,
    l2p_entries: int | None = None,
    l2p_cycles: int | None = None,
    rehash_per_insertion: int | None = None,
    max_displacements: int | None = None,
    hash_cycles: int | None = None,
    compaction: bool | None = None,
    cwt: Mapping[str, Any] | None = None,
    cwc: Mapping[str, Any] | None = None,
    pages: PageSize | None = None,
) -> Design:
    """Memory-efficient hashed page tables: the same in small chunks."""
    return changed(
        "me_hpt",
        pages,
        {
            "ways": ways,
            "entries": entries,
            "occupancy": occupancy,
            "chunk_kib": chunk_kib,
            "l2p_entries": l2p_entries,
            "l2p_cycles": l2p_cycles,
            "rehash_per_insertion": rehash_per_insertion,
            "max_displacements": max_displacements,
            "hash_cycles": hash_cycles,
            "compaction": compaction,
            "cwt": cwt,
            "cwc": cwc,
        },
    )


def me_hpt_mosaic(
    *,
    ways: int | None = None,
    entries: int | None = None,
    occupancy: float | None = None,
    chunk_kib: list[Any] | None = None,
    l2p_entries: int | None = None,
    l2p_cycles: int | None = None,
    rehash_per_insertion: int | None = None,
    max_displacements: int | None = None,
    hash_cycles: int | None = None,
    compaction: bool | None = None,
    cwt: Mapping[str, Any] | None = None,
    cwc: Mapping[str, Any] | None = None,
    mosaic_pages: int | None = None,
    pages: PageSize | None = None,
) -> Design:
    """Me_hpt with TLB entries for 4 to 64 neighbouring pages with hashed frames."""
    return changed(
        "me_hpt+mosaic",
        pages,
        {
            "ways": ways,
            "entries": entries,
            "occupancy": occupancy,
            "chunk_kib": chunk_kib,
            "l2p_entries": l2p_entries,
            "l2p_cycles": l2p_cycles,
            "rehash_per_insertion": rehash_per_insertion,
            "max_displacements": max_displacements,
            "hash_cycles": hash_cycles,
            "compaction": compaction,
            "cwt": cwt,
            "cwc": cwc,
            "mosaic.pages": mosaic_pages,
        },
    )


def me_hpt_range(
    *,
    ways: int | None = None,
    entries: int | None = None,
    occupancy: float | None = None,
    chunk_kib: list[Any] | None = None,
    l2p_entries: int | None = None,
    l2p_cycles: int | None = None,
    rehash_per_insertion: int | None = None,
    max_displacements: int | None = None,
    hash_cycles: int | None = None,
    compaction: bool | None = None,
    cwt: Mapping[str, Any] | None = None,
    cwc: Mapping[str, Any] | None = None,
    range_entries: int | None = None,
    pages: PageSize | None = None,
) -> Design:
    """Me_hpt with a range TLB over redundant memory mappings, placed eagerly."""
    return changed(
        "me_hpt+range",
        pages,
        {
            "ways": ways,
            "entries": entries,
            "occupancy": occupancy,
            "chunk_kib": chunk_kib,
            "l2p_entries": l2p_entries,
            "l2p_cycles": l2p_cycles,
            "rehash_per_insertion": rehash_per_insertion,
            "max_displacements": max_displacements,
            "hash_cycles": hash_cycles,
            "compaction": compaction,
            "cwt": cwt,
            "cwc": cwc,
            "range.entries": range_entries,
        },
    )


def dpt(
    *,
    first_pid: int | None = None,
    hash_cycles: int | None = None,
    max_soa_step: int | None = None,
    max_cva_count: int | None = None,
    max_cva_mib: int | None = None,
    cpd: bool | None = None,
    fap: bool | None = None,
    prefer: Literal["performance", "fragmentation"] | None = None,
    ptp_mib: int | None = None,
    dmt: Mapping[str, Any] | None = None,
    dmc: Mapping[str, Any] | None = None,
    pages: PageSize | None = None,
) -> Design:
    """The distributed page table: physical memory as one hashed table."""
    return changed(
        "dpt",
        pages,
        {
            "first_pid": first_pid,
            "hash_cycles": hash_cycles,
            "max_soa_step": max_soa_step,
            "max_cva_count": max_cva_count,
            "max_cva_mib": max_cva_mib,
            "cpd": cpd,
            "fap": fap,
            "prefer": prefer,
            "ptp_mib": ptp_mib,
            "dmt": dmt,
            "dmc": dmc,
        },
    )


def dpt_mosaic(
    *,
    first_pid: int | None = None,
    hash_cycles: int | None = None,
    max_soa_step: int | None = None,
    max_cva_count: int | None = None,
    max_cva_mib: int | None = None,
    cpd: bool | None = None,
    fap: bool | None = None,
    prefer: Literal["performance", "fragmentation"] | None = None,
    ptp_mib: int | None = None,
    dmt: Mapping[str, Any] | None = None,
    dmc: Mapping[str, Any] | None = None,
    mosaic_pages: int | None = None,
    pages: PageSize | None = None,
) -> Design:
    """Dpt with TLB entries for 4 to 64 neighbouring pages with hashed frames."""
    return changed(
        "dpt+mosaic",
        pages,
        {
            "first_pid": first_pid,
            "hash_cycles": hash_cycles,
            "max_soa_step": max_soa_step,
            "max_cva_count": max_cva_count,
            "max_cva_mib": max_cva_mib,
            "cpd": cpd,
            "fap": fap,
            "prefer": prefer,
            "ptp_mib": ptp_mib,
            "dmt": dmt,
            "dmc": dmc,
            "mosaic.pages": mosaic_pages,
        },
    )


def dpt_range(
    *,
    first_pid: int | None = None,
    hash_cycles: int | None = None,
    max_soa_step: int | None = None,
    max_cva_count: int | None = None,
    max_cva_mib: int | None = None,
    cpd: bool | None = None,
    fap: bool | None = None,
    prefer: Literal["performance", "fragmentation"] | None = None,
    ptp_mib: int | None = None,
    dmt: Mapping[str, Any] | None = None,
    dmc: Mapping[str, Any] | None = None,
    range_entries: int | None = None,
    pages: PageSize | None = None,
) -> Design:
    """Dpt with a range TLB over redundant memory mappings, placed eagerly."""
    return changed(
        "dpt+range",
        pages,
        {
            "first_pid": first_pid,
            "hash_cycles": hash_cycles,
            "max_soa_step": max_soa_step,
            "max_cva_count": max_cva_count,
            "max_cva_mib": max_cva_mib,
            "cpd": cpd,
            "fap": fap,
            "prefer": prefer,
            "ptp_mib": ptp_mib,
            "dmt": dmt,
            "dmc": dmc,
            "range.entries": range_entries,
        },
    )


def nested_radix(
    *,
    levels: int | None = None,
    pwc: Mapping[str, Any] | None = None,
    nested_tlb: Mapping[str, Any] | None = None,
    nested_host_memory_bytes: int | str | None = None,
    nested_host_thp: bool | None = None,
    pages: PageSize | None = None,
) -> Design:
    """Radix in a virtual machine, on a host with radix."""
    return changed(
        "nested-radix",
        pages,
        {
            "levels": levels,
            "pwc": pwc,
            "nested.tlb": nested_tlb,
            "nested.host_memory_bytes": nested_host_memory_bytes,
            "nested.host_thp": nested_host_thp,
        },
    )


def nested_radix_pom_tlb(
    *,
    levels: int | None = None,
    pwc: Mapping[str, Any] | None = None,
    nested_tlb: Mapping[str, Any] | None = None,
    nested_host_memory_bytes: int | str | None = None,
    nested_host_thp: bool | None = None,
    pom_tlb_kib: int | None = None,
    pom_tlb_neighbours: int | None = None,
    pom_tlb_cached: bool | None = None,
    pom_tlb_size_predictor: bool | None = None,
    pom_tlb_bypass_predictor: bool | None = None,
    pom_tlb_predictor_entries: int | None = None,
    pages: PageSize | None = None,
) -> Design:
    """Nested-radix with a TLB of many mebibytes in memory, whose lines the data caches hold."""
    return changed(
        "nested-radix+pom_tlb",
        pages,
        {
            "levels": levels,
            "pwc": pwc,
            "nested.tlb": nested_tlb,
            "nested.host_memory_bytes": nested_host_memory_bytes,
            "nested.host_thp": nested_host_thp,
            "pom_tlb.kib": pom_tlb_kib,
            "pom_tlb.neighbours": pom_tlb_neighbours,
            "pom_tlb.cached": pom_tlb_cached,
            "pom_tlb.size_predictor": pom_tlb_size_predictor,
            "pom_tlb.bypass_predictor": pom_tlb_bypass_predictor,
            "pom_tlb.predictor_entries": pom_tlb_predictor_entries,
        },
    )


def nested_ecpt(
    *,
    ways: int | None = None,
    entries: int | None = None,
    occupancy: float | None = None,
    growth: int | None = None,
    rehash_per_insertion: int | None = None,
    max_displacements: int | None = None,
    hash_cycles: int | None = None,
    compaction: bool | None = None,
    cwt: Mapping[str, Any] | None = None,
    cwc: Mapping[str, Any] | None = None,
    nested_tlb: Mapping[str, Any] | None = None,
    nested_host_memory_bytes: int | str | None = None,
    nested_host_thp: bool | None = None,
    pages: PageSize | None = None,
) -> Design:
    """Ecpt in a virtual machine, on a host with ecpt."""
    return changed(
        "nested-ecpt",
        pages,
        {
            "ways": ways,
            "entries": entries,
            "occupancy": occupancy,
            "growth": growth,
            "rehash_per_insertion": rehash_per_insertion,
            "max_displacements": max_displacements,
            "hash_cycles": hash_cycles,
            "compaction": compaction,
            "cwt": cwt,
            "cwc": cwc,
            "nested.tlb": nested_tlb,
            "nested.host_memory_bytes": nested_host_memory_bytes,
            "nested.host_thp": nested_host_thp,
        },
    )


def nested_dpt(
    *,
    first_pid: int | None = None,
    hash_cycles: int | None = None,
    max_soa_step: int | None = None,
    max_cva_count: int | None = None,
    max_cva_mib: int | None = None,
    cpd: bool | None = None,
    fap: bool | None = None,
    prefer: Literal["performance", "fragmentation"] | None = None,
    ptp_mib: int | None = None,
    dmt: Mapping[str, Any] | None = None,
    dmc: Mapping[str, Any] | None = None,
    nested_tlb: Mapping[str, Any] | None = None,
    nested_host_memory_bytes: int | str | None = None,
    nested_host_thp: bool | None = None,
    pages: PageSize | None = None,
) -> Design:
    """Dpt in a virtual machine, on a host with dpt."""
    return changed(
        "nested-dpt",
        pages,
        {
            "first_pid": first_pid,
            "hash_cycles": hash_cycles,
            "max_soa_step": max_soa_step,
            "max_cva_count": max_cva_count,
            "max_cva_mib": max_cva_mib,
            "cpd": cpd,
            "fap": fap,
            "prefer": prefer,
            "ptp_mib": ptp_mib,
            "dmt": dmt,
            "dmc": dmc,
            "nested.tlb": nested_tlb,
            "nested.host_memory_bytes": nested_host_memory_bytes,
            "nested.host_thp": nested_host_thp,
        },
    )


def ideal(
    *,
    pages: PageSize | None = None,
) -> Design:
    """Every translation free: the bound that no design can pass."""
    return changed("ideal", pages, {})


USUAL = (
    radix(),
    flattened(),
    clustered(),
    ecpt(),
    me_hpt(),
    dpt(),
    ideal(),
)

"""Every page table with the TLB that processors have: what a comparison takes unless told."""

ALL = (
    radix(),
    radix_mosaic(),
    radix_range(),
    radix_victima(),
    radix_revelator(),
    radix_pom_tlb(),
    radix_utopia(),
    flattened(),
    flattened_mosaic(),
    flattened_range(),
    clustered(),
    clustered_mosaic(),
    clustered_range(),
    ecpt(),
    ecpt_mosaic(),
    ecpt_range(),
    me_hpt(),
    me_hpt_mosaic(),
    me_hpt_range(),
    dpt(),
    dpt_mosaic(),
    dpt_range(),
    nested_radix(),
    nested_radix_pom_tlb(),
    nested_ecpt(),
    nested_dpt(),
    ideal(),
)

"""Every design."""
