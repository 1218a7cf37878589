"""Free memory of a machine that has run for a while, by its /proc/buddyinfo."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pagelab import units
from pagelab.errors import UsageError
from pagelab.growth import MOST
from pagelab.machine import MachineBase

M = TypeVar("M", bound=MachineBase)

# A line is a zone of a node with the number of free blocks of each order (proc_buddyinfo(5)).
_ZONE = re.compile(r"Node\s+(\d+),\s+zone\s+(\S+)((?:\s+\d+)+)\s*", re.ASCII)
_MEMINFO = re.compile(r"([\w()]+):\s+(\d+)( kB)?\s*", re.ASCII)
# Machines of thousands of zones have less.
_MOST_BYTES = 1 << 20
_MOST_BLOCKS = (1 << 32) - 1
_PAGE = 4096
_HUGE_ORDER = 9
# No kernel has blocks of more than 2^18 pages.
_MOST_ORDERS = 19


@dataclass(frozen=True)
class Free:
    """Free blocks by order, of all nodes and zones; with /proc/meminfo also what that says."""

    blocks: tuple[int, ...]
    total: int | None = None
    available: int | None = None

    @property
    def bytes(self) -> int:
        """All that is free."""
        return _bytes(self.blocks)

    @property
    def huge(self) -> int:
        """Bytes of it in blocks of 2 MiB and more."""
        return sum(_PAGE * count << o for o, count in enumerate(self.blocks) if o >= _HUGE_ORDER)

    def __str__(self) -> str:
        """In words, with the share that huge pages can have."""
        share = units.percent(self.huge / self.bytes, 0)
        text = f"{units.size(self.bytes)} free, {share} of it in blocks of 2 MiB and more"
        if self.available and self.available > self.bytes:
            more = units.size(self.available - self.bytes)
            text += f"; {more} are available besides, and taken to be in the largest blocks"
        return text


def _bytes(blocks: tuple[int, ...]) -> int:
    return sum(_PAGE * count << order for order, count in enumerate(blocks))


def read(path: Path) -> Free:
    """Free memory by a file like /proc/buddyinfo, behind which /proc/meminfo may follow.

    Raises UsageError for a file that is none.
    """
    try:
        with path.open("rb") as stream:
            raw = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    if len(raw) > _MOST_BYTES:
        raise UsageError(f"{path} is no /proc/buddyinfo: it has more than {_MOST_BYTES} bytes")
    return parse(raw.decode("ascii", errors="replace"), str(path))


def parse(text: str, name: str) -> Free:
    """Free memory by the text of /proc/buddyinfo. Raises UsageError, with the line."""
    zones: dict[tuple[str, str], list[int]] = {}
    kib: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{name} is no /proc/buddyinfo: line {number}"
        if found := _ZONE.fullmatch(line):
            zone = found[1], found[2]
            counts = [int(count) for count in found[3].split()]
            if zone in zones:
                raise UsageError(f"{where}: zone {zone[1]} of node {zone[0]} is there twice")
            if zones and len(counts) != len(next(iter(zones.values()))):
                raise UsageError(f"{where} has {len(counts)} orders, others have another number")
            if len(counts) > _MOST_ORDERS:
                raise UsageError(f"{where} has {len(counts)} orders, {_MOST_ORDERS} are the most")
            zones[zone] = counts
        elif found := _MEMINFO.fullmatch(line):
            kib[found[1]] = int(found[2])
        else:
            raise UsageError(f"{where}: {line.strip()[:60]!r}")
    blocks = tuple(map(sum, zip(*zones.values(), strict=True)))
    if not any(blocks):
        said = "no block is free" if zones else "it has no line like `Node 0, zone Normal 5 3 1`"
        raise UsageError(f"{name} is no /proc/buddyinfo: {said}")
    if max(blocks) > _MOST_BLOCKS:
        raise UsageError(f"{name} is no /proc/buddyinfo: {max(blocks):,} blocks of one order")
    total, available = (kib.get(key) for key in ("MemTotal", "MemAvailable"))
    return Free(blocks, total and total << 10, available and available << 10)


def on(machine: M, free: Free, say: Callable[[str], None] = lambda _: None) -> M:
    """The machine with so much free memory when the program starts; `say` is told of a share.

    Its memory grows to what has room for it. What /proc/meminfo says is available besides, as page
    cache is, is free in the largest blocks. Raises UsageError for a machine that cannot have it.
    """
    memory = machine.config["memory"]
    own, most = int(memory["memory_bytes"]), int(memory["max_order"])
    # Larger blocks than the simulator's are several of its largest.
    above = sum(count << order for order, count in enumerate(free.blocks[most + 1 :], start=1))
    blocks = free.blocks[: most + 1]
    blocks = (*blocks[:-1], blocks[-1] + above)
    while _bytes(blocks) > MOST // 2:
        blocks = tuple((count + 1) // 2 for count in blocks)
    if _bytes(blocks) != free.bytes:
        say(f"simulated memory ends at {units.size(MOST)}: a share of what is free is taken")
    largest = _PAGE << (len(blocks) - 1)
    more = max(0, min(free.available or 0, MOST // 2) - _bytes(blocks)) // largest
    blocks = (*blocks[:-1], blocks[-1] + more)
    size = max(own, -(-min(free.total or 0, MOST) >> 30) << 30)
    keys = f"memory.free_blocks={list(blocks)}"
    while True:
        try:
            return machine.set(keys, f"memory.memory_bytes={size}")
        except UsageError:
            # Smaller blocks are in blocks that are half in use.
            if size >= MOST or size > 8 * max(own, _bytes(blocks)):
                raise
            size = min(2 * size, MOST)
