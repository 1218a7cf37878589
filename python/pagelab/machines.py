"""The machines. Made by scripts/generate-api.py; do not edit.

A machine is not changed: each of its methods returns another one.

>>> dpt_paper.tlb(l2_cycles=9).memory(memory_bytes="4GiB")
Machine('dpt-paper with tlb.l2_cycles=9, memory.memory_bytes=4GiB')
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pagelab.machine import MachineBase


@dataclass(frozen=True, repr=False)
class Machine(MachineBase):
    """A machine; a method for each table of its keys, but for those of designs.

    Every method raises `pagelab.errors.UsageError` for a value that the machine cannot
    have. Keys end in their unit: `ns`, `cycles`, `kib`, `bytes` (a number, or text with
    a unit: "4GiB"). docs/simulate.md says what each of them means.
    """

    def general(
        self,
        *,
        name: str | None = None,
        description: str | None = None,
        cores: int | None = None,
        free_clock: bool | None = None,
        heat_map: bool | None = None,
        seed: int | None = None,
    ) -> "Machine":
        """Changes keys that are in no table."""
        return self._with("", locals())

    def core(
        self,
        *,
        ghz: float | None = None,
        width: int | None = None,
        reorder_buffer: int | None = None,
        execution: Mapping[str, Any] | None = None,
        store_buffer: int | None = None,
        store_ports: int | None = None,
        miss_buffers: int | None = None,
        l2_miss_buffers: int | None = None,
        walkers: int | None = None,
        misprediction: int | None = None,
    ) -> "Machine":
        """Changes keys of `core`."""
        return self._with("core", locals())

    def tlb(
        self,
        *,
        l1_4k: Mapping[str, Any] | None = None,
        l1_2m: Mapping[str, Any] | None = None,
        l1_1g: Mapping[str, Any] | None = None,
        l2_4k: Mapping[str, Any] | None = None,
        l2_2m: Mapping[str, Any] | None = None,
        l2_1g: Mapping[str, Any] | None = None,
        l2_cycles: int | None = None,
        asids: bool | None = None,
    ) -> "Machine":
        """Changes keys of `tlb`."""
        return self._with("tlb", locals())

    def caches(
        self,
        *,
        l1: Mapping[str, Any] | None = None,
        l2: Mapping[str, Any] | None = None,
        llc: Mapping[str, Any] | None = None,
        walks_enter: Literal["l1", "l2"] | None = None,
        prefetch: Mapping[str, Any] | None = None,
        coherence: Mapping[str, Any] | None = None,
        filled_pages: Literal["memory", "l2", "llc"] | None = None,
        others: Mapping[str, Any] | None = None,
    ) -> "Machine":
        """Changes keys of `caches`."""
        return self._with("caches", locals())

    def dram(
        self,
        *,
        latency_ns: float | None = None,
        gigabytes_per_second: float | None = None,
        spread: list[Any] | None = None,
        write_backs: bool | None = None,
        rows: Mapping[str, Any] | None = None,
    ) -> "Machine":
        """Changes keys of `dram`."""
        return self._with("dram", locals())

    def memory(
        self,
        *,
        memory_bytes: int | str | None = None,
        nodes: list[Any] | None = None,
        manager: Mapping[str, Any] | None = None,
        zone_starts: list[Any] | None = None,
        max_order: int | None = None,
        utilisation: float | None = None,
        fragmentation: float | None = None,
        free_blocks: list[Any] | None = None,
        unmovable_share: float | None = None,
        unhashed_share: float | None = None,
        page_policy: Literal[
            "base",
            "4K",
            "16K",
            "32K",
            "64K",
            "128K",
            "256K",
            "512K",
            "1M",
            "16K-madvise",
            "32K-madvise",
            "64K-madvise",
            "128K-madvise",
            "256K-madvise",
            "512K-madvise",
            "1M-madvise",
            "thp",
            "2M",
            "thp-madvise",
            "reserved",
            "quicksilver",
            "1G",
        ]
        | None = None,
        accounting: Literal["per_page", "mm_owner", "foliomap"] | None = None,
        khugepaged: Mapping[str, Any] | None = None,
        grouping: Literal["off", "mobility", "region"] | None = None,
        defrag: Literal["always", "defer", "defer+madvise", "madvise", "never"] | None = None,
        reclaim: Mapping[str, Any] | None = None,
        huge_code: bool | None = None,
        zero_page: bool | None = None,
        stack_limit: int | str | None = None,
    ) -> "Machine":
        """Changes keys of `memory`."""
        return self._with("memory", locals())

    def cost(
        self,
        *,
        fault_ns: float | None = None,
        give_ns: float | None = None,
        zero_4k_ns: float | None = None,
        zero_2m_ns: float | None = None,
        zero_4k_between_ns: list[Any] | None = None,
        zero_2m_between_ns: list[Any] | None = None,
        copy_4k_ns: float | None = None,
        table_page_ns: float | None = None,
        entry_ns: float | None = None,
        unmap_ns: float | None = None,
        free_4k_ns: float | None = None,
        probe_ns: float | None = None,
        migrate_4k_ns: float | None = None,
        shootdown_ns: float | None = None,
        shootdowns: Literal["migrations", "all"] | None = None,
    ) -> "Machine":
        """Changes keys of `cost`."""
        return self._with("cost", locals())

    def tlb_prefetch(
        self,
        *,
        prefetcher: Literal["sequential", "stride", "distance", "agile"] | None = None,
        free: bool | None = None,
        entries: int | None = None,
        cycles: int | None = None,
    ) -> "Machine":
        """Changes keys of `tlb_prefetch`."""
        return self._with("tlb_prefetch", locals())

    def fetch(
        self,
        *,
        tlb: Mapping[str, Any] | None = None,
        l1: Mapping[str, Any] | None = None,
        next_lines: int | None = None,
    ) -> "Machine":
        """Changes keys of `fetch`."""
        return self._with("fetch", locals())


dpt_paper = Machine("dpt-paper")
"""The DPT paper's simulated system: 4-wide out-of-order cores at 2.66 GHz, 16 GiB."""

skylake_sp = Machine("skylake-sp")
"""An Intel Skylake-SP server core at 2.4 GHz, 1 MiB second level, 64 GiB."""

zen2 = Machine("zen2")
"""An AMD Zen 2 desktop core at 4.7 GHz, 16 MiB last level, DDR4-3333, 64 GiB."""

zen3 = Machine("zen3")
"""An AMD Zen 3 server core at 3.5 GHz, 32 MiB last level, DDR4-3200, 64 GiB."""

zen4 = Machine("zen4")
"""An AMD Zen 4 desktop core at 5.7 GHz, 32 MiB last level, DDR5-6000, 64 GiB."""

zen5 = Machine("zen5")
"""An AMD Zen 5 desktop core at 5.7 GHz, 32 MiB last level, DDR5-6000, 64 GiB."""

ice_lake_sp = Machine("ice-lake-sp")
"""An Intel Ice Lake-SP server core at 3.4 GHz, 1.25 MiB second level, 64 GiB."""

sapphire_rapids = Machine("sapphire-rapids")
"""An Intel Sapphire Rapids server core at 3.8 GHz, 2 MiB second level, 64 GiB."""

golden_cove = Machine("golden-cove")
"""An Intel Golden Cove desktop core at 4.9 GHz, 1.25 MiB second level, DDR5-4800, 64 GiB."""

neoverse_v1 = Machine("neoverse-v1")
"""An Arm Neoverse V1 server core at 2.6 GHz, 1 MiB second level, DDR5, 64 GiB."""

neoverse_v2 = Machine("neoverse-v2")
"""An Arm Neoverse V2 server core at 2.8 GHz, 2 MiB second level, DDR5, 64 GiB."""

here = Machine("here")
"""The machine in front of you, measured on first use."""

ALL = (
    dpt_paper,
    skylake_sp,
    zen2,
    zen3,
    zen4,
    zen5,
    ice_lake_sp,
    sapphire_rapids,
    golden_cove,
    neoverse_v1,
    neoverse_v2,
)
"""Every preset."""
