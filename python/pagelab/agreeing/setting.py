"""Settings of a kernel that the simulator has, too."""

from dataclasses import dataclass

from pagelab import pages as sizes
from pagelab import units
from pagelab.errors import UsageError
from pagelab.linux import layout

# The simulator's manager that is a memory file system.
MANAGERS = {"basicmfs": "basic"}


@dataclass(frozen=True)
class Setting:
    """Page sizes, kernel parameters, a memory file system, and bytes that a program may have."""

    pages: str = "4K"
    append: str = ""
    manager: str | None = None
    memory_max: int | None = None

    def __post_init__(self) -> None:
        """Refuse what only one of the two has."""
        if sizes.parse(self.pages) in ("1G", *sizes.CONDITIONAL):
            raise UsageError(
                f"{self.pages} pages cannot be compared: give 4K, 64K, 2M or several (2M+64K)"
            )
        if self.manager is not None and self.manager not in MANAGERS:
            raise UsageError(f"{self.manager} cannot be compared: give {', '.join(MANAGERS)}")

    @property
    def name(self) -> str:
        """Name in tables: `64K foliomap=on`."""
        most = units.size(self.memory_max) if self.memory_max else ""
        return " ".join(filter(None, [self.manager or self.pages, self.append, most]))

    def system(self, kernel: str) -> str:
        """The simulator's operating system that it is."""
        if self.manager:
            return MANAGERS[self.manager]
        system = "linux-6.12" if kernel == layout.VERSION else "linux"
        if "foliomap=on" in self.append.split():
            system = "foliomap"
        return system if self.memory_max is None else f"{system}:max_bytes={self.memory_max}"


# Settings of --settings and --suite.
FIVE = (
    Setting("4K"),
    Setting("2M"),
    Setting("64K"),
    Setting("64K", append="foliomap=on"),
    Setting("4K", manager="basicmfs"),
)
