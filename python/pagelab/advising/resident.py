"""Memory that a program and its descendants have, looked at while they run."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_SECONDS_BETWEEN = 0.01
# Kinds of huge pages, as proc_pid_smaps(5) has them.
_HUGE = ("AnonHugePages", "ShmemPmdMapped", "FilePmdMapped", "Private_Hugetlb", "Shared_Hugetlb")
_KIB = 1024
_HUGE_PAGE = 2 << 20


@dataclass(frozen=True)
class Resident:
    """Most bytes at any look: all that is resident, and what of it is in huge pages.

    `remote` bytes are on other NUMA nodes than that which has most.
    """

    peak: int = 0
    huge: int = 0
    remote: int = 0

    def most(self, other: "Resident") -> "Resident":
        """The more of both."""
        return Resident(
            max(self.peak, other.peak),
            max(self.huge, other.huge),
            max(self.remote, other.remote),
        )


# Allocators besides the C library's, by how their libraries are named.
_ALLOCATORS = ("jemalloc", "mimalloc", "tcmalloc")


class Look:
    """Memory of a process as far as it was looked at, with that of its descendants.

    `allocator` is one besides the C library's that it has loaded, `threads` the most of a process,
    `code` the most bytes of a process's code that whole huge pages hold. With `nodes`,
    where its memory is is looked at, too.
    """

    found = Resident()
    nodes: bool
    allocator: str | None = None
    threads = 0
    code = 0

    def __init__(self, *, nodes: bool = False) -> None:
        self.nodes = nodes

    def at(self, processes: list[int]) -> None:
        """Looks once more."""
        seen = [_of(process) for process in processes]
        nodes = Counter[bytes]()
        for process in processes if self.nodes else ():
            nodes += on_nodes(process)
        now = Resident(
            sum(one.peak for one in seen),
            sum(one.huge for one in seen),
            nodes.total() - max(nodes.values(), default=0),
        )
        self.found = self.found.most(now)
        for process in processes:
            with suppress(OSError):
                self.threads = max(self.threads, len([*Path(f"/proc/{process}/task").iterdir()]))
                self._mapped(Path(f"/proc/{process}/maps").read_bytes())

    def _mapped(self, maps: bytes) -> None:
        code = 0
        for line in maps.splitlines():
            name = line.rpartition(b"/")[2]
            for allocator in _ALLOCATORS:
                if name.startswith(f"lib{allocator}".encode()):
                    self.allocator = allocator
            addresses, permissions = line.split(None, 2)[:2]
            if permissions == b"r-xp" and b"/" in line:
                start, end = (int(at, 16) for at in addresses.split(b"-"))
                code += max(0, end // _HUGE_PAGE - -(-start // _HUGE_PAGE)) * _HUGE_PAGE
        self.code = max(self.code, code)


@contextmanager
def looking(pid: int, *, nodes: bool = False) -> Iterator[Look]:
    """Looks at a process every 10 ms, on a thread of its own.

    A page that came and went between two looks was not seen.
    """
    look = Look(nodes=nodes)
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(_SECONDS_BETWEEN):
            look.at(descendants(pid))

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield look
    finally:
        over.set()
        thread.join()


def descendants(pid: int) -> list[int]:
    """A process, and all that it has started."""
    found = [pid]
    # The list grows while it is gone through.
    for process in found:
        try:
            for thread in Path(f"/proc/{process}/task").iterdir():
                children = (thread / "children").read_text(encoding="ascii")
                found += map(int, children.split())
        except OSError:
            continue
    return found


def on_nodes(pid: int) -> Counter[bytes]:
    """Bytes of a process on each node (numa(7), /proc/PID/numa_maps)."""
    found = Counter[bytes]()
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/numa_maps").read_bytes().splitlines():
            of = dict(field.split(b"=", 1) for field in line.split() if b"=" in field)
            size = int(of.get(b"kernelpagesize_kB", 0)) * _KIB
            for name, pages in of.items():
                if name[:1] == b"N" and name[1:].isdigit():
                    found[name] += int(pages) * size
    return found


def _of(pid: int) -> Resident:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return Resident()
    sizes = {}
    for line in text.splitlines()[1:]:
        name, _, value = line.partition(":")
        sizes[name] = int(value.split()[0]) * _KIB
    hugetlb = sizes.get("Private_Hugetlb", 0) + sizes.get("Shared_Hugetlb", 0)
    # Rss leaves out pages of hugetlbfs.
    return Resident(sizes.get("Rss", 0) + hugetlb, sum(sizes.get(kind, 0) for kind in _HUGE))
