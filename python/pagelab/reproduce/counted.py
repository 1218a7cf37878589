"""Tables of what is counted in the sources, not measured: lines of code, bytes of a structure."""

from collections.abc import Mapping
from typing import Literal

from pagelab.experiment.backends import checkout
from pagelab.experiment.case import Case, Ended, Failed
from pagelab.reproduce.outcome import Outcome, answers
from pagelab.reproduce.paper import Changes, Paper, Shown


class Counted(Shown):
    """Files and lines of memory file systems (`lines`), or bytes that track a folio.

    `like` has, for a row of lines, a name, files and lines of what the paper says it stands for.
    """

    kind: Literal["counted"]
    count: Literal["lines", "folio bytes"]
    first_patch: str = ""
    like: dict[str, tuple[str, int, int]] = {}

    def cases(self, paper: Paper, changes: Changes) -> dict[str, Case]:
        """One count."""
        lines = self.count == "lines"
        return {"": checkout.lines(self.first_patch) if lines else checkout.folio_bytes()}

    def outcome(self, paper: Paper, ended: Mapping[str, Ended]) -> Outcome:
        """A row a thing that was counted."""
        one = ended[""]
        data = {} if isinstance(one, Failed) else one.data
        columns = list(dict.fromkeys(key for row in data.values() for key in row))
        rows: dict[str, list[float | None]] = {
            row: [found.get(column) for column in columns] for row, found in data.items()
        }
        drawn = {row: cells[-1:] if self.count == "lines" else cells for row, cells in rows.items()}
        stand = [
            f"{row} stands for {system}: {count} files, {lines:,} lines."
            for row, (system, count, lines) in self.like.items()
        ]
        return Outcome(
            notes=stand,
            columns=columns,
            rows=rows,
            answers=answers(self.claim, columns, rows),
            failures=[one.error.splitlines()[0]] if isinstance(one, Failed) else [],
            drawn=(columns[-1:] if self.count == "lines" else columns, drawn),
        )
