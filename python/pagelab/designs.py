"""The designs. Made by scripts/generate-api.py; do not edit.

A page table with the TLB that processors have; `with_tlb` gives it one of `tlbs`.
A key that is left out is as the machine says. Every function raises
`pagelab.errors.UsageError` for a value that no machine can have; docs/designs/ has a
page a design.

>>> dpt(cpd=False)
Design('dpt:cpd=false')
"""

from collections.abc import Mapping
from typing import Any, Literal

from pagelab.design import Design as Design
from pagelab.design import changed, names, usual

PageSize = Literal[
    "4K",
    "16K",
    "32K",
    "64K",
    "128K",
    "256K",
    "512K",
    "1M",
    "2M",
    "1G",
    "madvise",
    "reserved",
    "quicksilver",
]


def radix(
    *,
    levels: int | None = None,
    pwc: Mapping[str, Any] | None = None,
    pages: PageSize | None = None,
) -> Design:
    """The radix tree of x86-64 with a split page-walk cache (4 or 5 levels)."""
    return changed("radix", locals())


def flattened(
    *,
    upper: bool | None = None,
    lower: bool | None = None,
    pwc: Mapping[str, Any] | None = None,
    pages: PageSize | None = None,
) -> Design:
    """The radix tree with two levels a node of 2 MiB."""
    return changed("flattened", locals())


def clustered(
    *,
    hash_cycles: int | None = None,
    entries: int | None = None,
    occupancy: float | None = None,
    compaction: bool | None = None,
    pages: PageSize | None = None,
) -> Design:
    """A hashed table, eight entries a line, open addressing."""
    return changed("clustered", locals())


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
    return changed("ecpt", locals())


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
    return changed("me_hpt", locals())


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
    return changed("dpt", locals())


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
    return changed("nested-radix", locals())


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
    return changed("nested-ecpt", locals())


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
    return changed("nested-dpt", locals())


def ideal(
    *,
    pages: PageSize | None = None,
) -> Design:
    """Every translation free: the bound that no design can pass."""
    return changed("ideal", locals())


USUAL = tuple(map(Design, usual()))
"""Every page table with the TLB that processors have: what a comparison takes unless told."""
ALL = tuple(map(Design, names()))
"""Every page table with each TLB it goes with."""
