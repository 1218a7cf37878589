"""Settings of a kernel that the simulator has, too."""

from dataclasses import dataclass

from pagelab import pages as sizes
from pagelab import units
from pagelab.errors import UsageError
from pagelab.linux import layout

# Nodes of memory whose pages are counted.
MOST_NODES = 4
# The simulator's manager that is a memory file system.
MANAGERS = {"basicmfs": "basic", "bwmfs": "bandwidth"}
# khugepaged sleeps as shortly as a guest can, a tick of its clock, and then looks at all memory.
# An instruction takes 16 ns there: a tick of 4 ms is 250,000 instructions, on a busy host, too, and
# about a tenth of a millisecond of the simulated machine.
SCAN_MS, PAGES_TO_SCAN, KHUGEPAGED_SHIFT = 1, 1 << 24, 4
_SIMULATED_MS = 0.1


@dataclass(frozen=True)
class Setting:
    """Page sizes, kernel parameters, a memory file system, and bytes that a program may have.

    `max_ptes_none` is khugepaged's; without it khugepaged sleeps.
    """

    pages: str = "4K"
    append: str = ""
    manager: str | None = None
    memory_max: int | None = None
    max_ptes_none: int | None = None

    def __post_init__(self) -> None:
        """Refuse what only one of the two has."""
        if sizes.parse(self.pages) in ("1G", *sizes.RESERVED):
            raise UsageError(
                f"{self.pages} pages cannot be compared: give 4K, 64K, 2M, madvise or several "
                "(2M+64K)"
            )
        kind, _, options = (self.manager or "").partition(":")
        if self.manager is not None and kind not in MANAGERS:
            raise UsageError(f"{self.manager} cannot be compared: give {', '.join(MANAGERS)}")
        if kind == "bwmfs" and not options.startswith("weights="):
            raise UsageError("bwmfs wants weights: give bwmfs:weights=3:2")
        if self.nodes > MOST_NODES:
            raise UsageError(f"a guest has {MOST_NODES} nodes at most: {self.manager} has more")
        if self.max_ptes_none is None:
            return
        if not 0 <= self.max_ptes_none < 512:
            raise UsageError("khugepaged's max_ptes_none is 0 to 511")
        if self.manager or self.memory_max or self.pages not in ("2M", "madvise"):
            raise UsageError("khugepaged goes with --pages 2M or madvise, and with nothing else")

    @property
    def name(self) -> str:
        """Name in tables: `64K foliomap=on`."""
        manager = (self.manager or self.pages).replace(":weights=", " ")
        most = units.size(self.memory_max) if self.memory_max else ""
        empty = "" if self.max_ptes_none is None else f"ptes_none={self.max_ptes_none}"
        return " ".join(filter(None, [manager, self.append, most, empty]))

    @property
    def nodes(self) -> int:
        """Number of nodes of memory: one for each weight."""
        kind, _, options = (self.manager or "").partition(":")
        return 1 + options.count(":") if kind == "bwmfs" else 1

    def system(self, kernel: str) -> str:
        """The simulator's operating system that it is."""
        if self.manager:
            kind, colon, options = self.manager.partition(":")
            return f"{MANAGERS[kind]}{colon}{options}"
        system = "linux-6.12" if kernel == layout.VERSION else "linux"
        if "foliomap=on" in self.append.split():
            system = "foliomap"
        if self.max_ptes_none is not None:
            return (
                f"{system}:max_ptes_none={self.max_ptes_none}:scan_sleep_ms={_SIMULATED_MS}"
                f":pages_to_scan={PAGES_TO_SCAN}"
            )
        return system if self.memory_max is None else f"{system}:max_bytes={self.memory_max}"


# Settings of --settings and --suite.
SUITE = (
    Setting("4K"),
    Setting("2M"),
    Setting("64K"),
    Setting("64K", append="foliomap=on"),
    Setting("2M", max_ptes_none=511),
    Setting("2M", max_ptes_none=0),
    Setting("4K", manager="basicmfs"),
    Setting("4K", manager="bwmfs:weights=3:2"),
)
