"""Memory that a program and its descendants have, looked at while they run."""

import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

_SECONDS_BETWEEN = 0.01
# Kinds of huge pages, as proc_pid_smaps(5) has them.
_HUGE = ("AnonHugePages", "ShmemPmdMapped", "FilePmdMapped", "Private_Hugetlb", "Shared_Hugetlb")
_KIB = 1024


@dataclass(frozen=True)
class Resident:
    """Most bytes at any look: all that is resident, and what of it is in huge pages."""

    peak: int = 0
    huge: int = 0


class Looking:
    """Looks at a process every 10 ms, as a context, on a thread of its own.

    A page that came and went between two looks was not seen.
    """

    def __init__(self, pid: int) -> None:
        self.found = Resident()
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(_SECONDS_BETWEEN):
            seen = [_of(pid) for pid in _descendants(self._pid)]
            self.found = Resident(
                max(self.found.peak, sum(one.peak for one in seen)),
                max(self.found.huge, sum(one.huge for one in seen)),
            )


def _descendants(pid: int) -> list[int]:
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
