"""Counts of processors that walk a distributed page table, guest by guest and in all."""

from collections import defaultdict
from dataclasses import dataclass, field

from pydantic import BaseModel, NonNegativeInt, ValidationError

from pagelab.linux.guest import DIFFERENCE, WALKS, Result

_HEAD = (
    "| program | file system | FolioMap | guests | checked | by hash only | of another page "
    "| differences |",
    "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
)


@dataclass
class Counts:
    """Counts of one guest, or of several."""

    guests: int = 0
    checks: int = 0
    walks: int = 0
    other_pages: int = 0
    differences: int = 0

    def add(self, other: "Counts") -> None:
        """Adds those of other guests."""
        self.guests += other.guests
        self.checks += other.checks
        self.walks += other.walks
        self.other_pages += other.other_pages
        self.differences += other.differences

    def cells(self) -> list[str]:
        """As a table has them."""
        numbers = (self.guests, self.checks, self.walks, self.other_pages, self.differences)
        return [f"{number:,}" for number in numbers]


class _Left(BaseModel):
    """File that the emulator leaves when it ends: linux/qemu/dpt.c."""

    checks: NonNegativeInt = 0
    walks: NonNegativeInt = 0
    other_pages: NonNegativeInt = 0
    mistranslated: NonNegativeInt = 0


def counts(result: Result) -> Counts | None:
    """Counts of a guest's processors; None if they walk no distributed page table.

    A guest in which walks go on to differ ends with it: there is one such difference, or none.
    Where they differed for a moment only and led to two pages, the guest did not end. An emulator
    that was killed leaves no numbers, or whatever the guest has put in their place.
    """
    left = result.files.get(WALKS)
    differences = sum(DIFFERENCE in line for line in result.console)
    if left is None and not differences:
        return None
    try:
        numbers = _Left.model_validate_json(left or b"{}")
    except ValidationError:
        numbers = _Left()
    return Counts(
        guests=1,
        checks=numbers.checks,
        walks=numbers.walks,
        other_pages=numbers.other_pages,
        differences=differences + numbers.mistranslated,
    )


@dataclass
class Walked:
    """Counts of the processors of many guests: by program, file system and FolioMap."""

    rows: dict[tuple[str, str, str], Counts] = field(default_factory=lambda: defaultdict(Counts))

    def add(self, program: str, manager: str, append: str, counted: Counts) -> None:
        """A guest more: what ran in it, under which file system, with which parameters."""
        foliomap = "on" if "foliomap=on" in append.split() else "off"
        self.rows[program, manager, foliomap].add(counted)

    def total(self) -> Counts:
        """Counts of all guests."""
        total = Counts()
        for row in self.rows.values():
            total.add(row)
        return total

    def summary(self) -> str:
        """A line for a person."""
        total = self.total()
        return (
            f"{total.checks:,} translations checked and {total.walks:,} by hash only in "
            f"{total.guests} guests; {total.other_pages:,} of another page than the one before; "
            f"{total.differences} differences"
        )

    def table(self) -> str:
        """A row a program, file system and FolioMap; the sum at last. Markdown."""
        lines = list(_HEAD)
        for (program, manager, foliomap), row in self.rows.items():
            system = f"`{manager}`" if manager else ""
            lines.append(f"| {' | '.join([program, system, foliomap, *row.cells()])} |")
        lines.append(f"| {' | '.join(['all', '', '', *self.total().cells()])} |")
        return "\n".join(lines) + "\n"
