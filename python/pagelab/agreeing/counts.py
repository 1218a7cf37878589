"""Counts that a kernel and the simulator both have."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from pagelab import pages as sizes
from pagelab import units
from pagelab.agreeing.setting import MOST_NODES
from pagelab.counts import Os

# Functions of the kernel that are counted: a copy of a page (`copy_mc_user_highpage`), and a store
# to a page of 2 MiB that may not be written.
CALLS = ("copy_mc_to_kernel", "do_huge_pmd_wp_page")


class Line(BaseModel):
    """A count in the guest and in the simulator."""

    model_config = ConfigDict(extra="forbid")

    name: str
    kernel: int
    simulator: int

    @property
    def difference(self) -> float:
        """Difference relative to the kernel's count, which is not 0."""
        return (self.simulator - self.kernel) / self.kernel

    def __str__(self) -> str:
        """Both, or one where they are equal."""
        if self.kernel == self.simulator:
            return f"{self.kernel:,}"
        return f"{self.kernel:,}/{self.simulator:,}"


@dataclass(frozen=True)
class _Count:
    """A count by name: what it is in the guest's counters, and in the simulator's."""

    name: str
    kernel: Callable[[Mapping[str, int]], int]
    simulator: Callable[[Os], int]


FAULTS, COPIED, KEPT = "faults", "pages copied", "read-only pages kept"
COLLAPSED, PLACED = "2 MiB pages made of smaller ones", "pages of node"


def _folios(size: str) -> _Count:
    """Folios of a size of anonymous memory, such as 64K."""
    kib = units.parse_size(size) >> 10
    name = f"hugepages-{kib}kB/stats/anon_fault_alloc"
    huge = size == "2M"
    return _Count(
        f"{size} folios",
        lambda at: at.get(name, 0),
        lambda run: run.anonymous.large if huge else run.blocks.given if run.blocks else 0,
    )


def _placed(node: int) -> _Count:
    """Pages of a node, by the memory file system's own count."""
    return _Count(
        f"{PLACED} {node}",
        lambda at: at.get(f"placed/{node}", 0),
        lambda run: (*run.placed, *[0] * MOST_NODES)[node],
    )


def _reclaim(count: str) -> Callable[[Os], int]:
    return lambda run: getattr(run.reclaim, count) if run.reclaim else 0


_COUNTS = (
    _Count(FAULTS, lambda at: at["minor"] + at["major"], lambda run: run.faults),
    _Count(
        COPIED,
        # At stores, and by khugepaged.
        lambda at: at["copy_mc_to_kernel"],
        lambda run: run.cow_copies + (run.khugepaged.pages_copied if run.khugepaged else 0),
    ),
    _Count(
        KEPT,
        # A page of 2 MiB that is not kept is split; other splits are few where programs fork.
        lambda at: at["pgreuse"] + max(at["do_huge_pmd_wp_page"] - at["thp_split_pmd"], 0),
        lambda run: run.cow_reuses,
    ),
    _Count(
        "2 MiB mappings split",
        lambda at: at["thp_split_pmd"],
        lambda run: run.splits.large,
    ),
    _Count(
        COLLAPSED,
        lambda at: at["thp_collapse_alloc"],
        lambda run: run.collapsed + (run.khugepaged.collapsed if run.khugepaged else 0),
    ),
    *(_placed(node) for node in range(MOST_NODES)),
    _Count("pages swapped out", lambda at: at["pswpout"], _reclaim("swapped_out")),
    _Count("pages swapped in", lambda at: at["pswpin"], _reclaim("swapped_in")),
    _Count(
        "files' pages read again",
        lambda at: at["workingset_refault_file"],
        _reclaim("files_read"),
    ),
)


def lines(kernel: Mapping[str, int], simulator: Os, pages: str) -> list[Line]:
    """All counts that are not 0 in both; folios where pages are of one size above 4 KiB."""
    counts = _COUNTS
    if pages != "4K" and "+" not in pages:
        counts = (*_COUNTS, _folios(sizes.largest(pages)))
    found = [
        Line(name=one.name, kernel=one.kernel(kernel), simulator=one.simulator(simulator))
        for one in counts
    ]
    return [line for line in found if line.kernel or line.simulator]


class Agreement(BaseModel):
    """Counts of one program under one setting; or why there are none (`failed`)."""

    model_config = ConfigDict(extra="forbid")

    program: str
    kernel: str
    setting: str
    lines: list[Line] = []
    failed: str | None = None

    def line(self, name: str) -> Line:
        """A count; 0 in both where it is not among them."""
        none = Line(name=name, kernel=0, simulator=0)
        return next((line for line in self.lines if line.name == name), none)

    def folios(self) -> Line:
        """The count of folios."""
        named = (line.name for line in self.lines if line.name.endswith(" folios"))
        return self.line(next(named, ""))

    def further(self) -> list[Line]:
        """Counts beside faults, copies and folios."""
        others = (FAULTS, COPIED, KEPT)
        return [
            line
            for line in self.lines
            if line.name not in others and not line.name.endswith(" folios")
        ]

    def table(self) -> str:
        """The counts as a table."""
        head = f"{self.program}, {self.setting}, Linux {self.kernel}"
        rows = [f"{'':<28}{'kernel':>12}{'simulator':>12}{'':>10}"]
        for line in self.lines:
            told = f"{line.difference:+.1%}" if line.kernel else ""
            rows.append(f"{line.name:<28}{line.kernel:>12,}{line.simulator:>12,}{told:>10}")
        return "\n".join([head, *rows])
