"""TLB misses that a range TLB prevents, with the layout that a guest's kernel really makes."""

from collections.abc import Mapping
from typing import Literal

from pagelab.experiment.backends import guest
from pagelab.experiment.case import Case, Ended, Failed
from pagelab.reproduce.outcome import Outcome, answers, failures
from pagelab.reproduce.paper import Changes, Paper, Shown

_PREVENTED = "walks prevented"


class Ranges(Shown):
    """`suites` has the entry of linux/bench by program; the TLB is that of a machine, changed."""

    kind: Literal["ranges"]
    machine: str
    set: list[str] = []
    entries: int
    suites: dict[str, str]

    def cases(self, paper: Paper, changes: Changes) -> dict[str, Case]:
        """A guest a program, whose accesses are run through both TLBs."""
        replay = {"machine": self.machine, "set": self.set, "entries": self.entries}
        found = {}
        for program, name in self.suites.items():
            ((_, found[program]),) = guest.cases(name, replay=replay)
        return found

    def outcome(self, paper: Paper, ended: Mapping[str, Ended]) -> Outcome:
        """Shares of walks prevented, and how long the ranges are."""
        rows: dict[str, list[float | None]] = {}
        for program, one in ended.items():
            if isinstance(one, Failed):
                continue
            found = one.data["ranges"]
            prevented = 1 - found["walks_with_ranges"] / found["walks"] if found["walks"] else None
            length = found["pages"] / found["ranges"] if found["ranges"] else None
            rows[program] = [prevented, found["walks"], found["accesses"], found["outside"]]
            rows[program] += [found["ranges"], length]
        columns = [_PREVENTED, "walks without", "accesses", "in no range", "ranges", "their pages"]
        return Outcome(
            columns=columns,
            rows=rows,
            answers=answers(self.claim, columns, rows),
            failures=failures(ended),
            drawn=([_PREVENTED], {program: row[:1] for program, row in rows.items()}),
        )
