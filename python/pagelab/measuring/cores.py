"""Published figures of cores: width and buffers, whole, whoever has a part of them.

Sources: Intel 64 and IA-32 Architectures Optimization Reference Manual, the sections on each
microarchitecture (Skylake, Ice Lake, Golden Cove); AMD Software Optimization Guides for families
17h (55723), 19h (56665, 57647) and 1Ah (58455).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Identified(Protocol):
    """Marks of a processor's core."""

    @property
    def vendor(self) -> str | None: ...  # noqa: D102
    @property
    def family(self) -> int | None: ...  # noqa: D102
    @property
    def model(self) -> int | None: ...  # noqa: D102
    @property
    def extensions(self) -> Sequence[str]: ...  # noqa: D102


@dataclass(frozen=True)
class Core:
    """Buffers of a core; `walkers` are page walks under way at a time.

    `second_tlb` is the second level's entries and ways for small pages, `prefetch` what its second
    cache level fetches ahead (`caches.prefetch`), None where numbers are not published.
    """

    name: str
    width: int
    reorder_buffer: int
    store_buffer: int
    miss_buffers: int
    walkers: int
    second_tlb: tuple[int, int]
    prefetch: str | None = None


# Intel's second level: the spatial prefetcher completes pairs of lines; the streamer follows 32
# streams, one a page of 4 KiB, up to 20 lines ahead; what they fetch stays in the last level while
# the second is heavily loaded with misses. The manual has them since Sandy Bridge ("Data Prefetch
# to the L2 and Last Level Cache"), but not how many misses that is: half of the requests is ours.
# The first level's IP-based stride prefetcher sees strides of up to 2 KiB and fetches the next, in
# the same page ("Data Prefetch to L1 caches"); how many instructions it follows is not said.
_STRIDES = "{ instructions = 64, ahead = 1, longest = 2048, crosses_pages = false }"
_INTELS = f"{{ adjacent = true, streams = 32, ahead = 20, busy = 0.5, strides = {_STRIDES} }}"

_SKYLAKE = Core("Skylake", 4, 224, 56, 12, 2, (1536, 12), _INTELS)
_ICE_LAKE = Core("Ice Lake", 5, 352, 72, 12, 2, (2048, 16), _INTELS)
_GOLDEN_COVE = Core("Golden Cove", 6, 512, 112, 16, 4, (2048, 16), _INTELS)
_ZEN_2 = Core("Zen 2", 6, 224, 48, 22, 2, (2048, 16))
_ZEN_3 = Core("Zen 3", 6, 256, 64, 24, 6, (2048, 16))
_ZEN_4 = Core("Zen 4", 6, 320, 64, 24, 6, (3072, 12))
_ZEN_5 = Core("Zen 5", 8, 448, 104, 24, 6, (4096, 16))

# Intel: family 6, by model (SDM volume 4, table 2-1).
_INTEL = {
    **dict.fromkeys((78, 85, 94, 142, 158, 165, 166), _SKYLAKE),
    **dict.fromkeys((106, 108, 125, 126), _ICE_LAKE),
    **dict.fromkeys((143, 151, 154, 183, 186, 207), _GOLDEN_COVE),
    # Granite Rapids: Redwood Cove, a revision of Golden Cove, taken to have its buffers.
    **dict.fromkeys((173, 174), _GOLDEN_COVE),
}

# AMD: by family and range of models (the processor programming references).
_AMD = [
    (0x17, range(0x30, 0x100), _ZEN_2),
    (0x19, range(0x10), _ZEN_3),
    (0x19, range(0x10, 0x20), _ZEN_4),
    (0x19, range(0x20, 0x60), _ZEN_3),
    (0x19, range(0x60, 0x80), _ZEN_4),
    (0x19, range(0xA0, 0xB0), _ZEN_4),
    (0x1A, range(0x100), _ZEN_5),
]


def documented(here: Identified) -> Core | None:
    """The published buffers of this processor's core, if its model is known."""
    if here.family is None or here.model is None:
        return None
    if here.vendor == "GenuineIntel":
        known = _INTEL.get(here.model) if here.family == 6 else None
        # Hypervisors give models of their own. Matrix tiles came with Sapphire Rapids.
        return _GOLDEN_COVE if known is None and "amx_tile" in here.extensions else known
    if here.vendor == "AuthenticAMD":
        for family, models, core in _AMD:
            if here.family == family and here.model in models:
                return core
    return None
