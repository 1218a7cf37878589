"""Collisions of keys in a hashed table, by the table's size."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from pagelab.experiment.backends import collisions
from pagelab.experiment.case import Case, Ended, Failed
from pagelab.reproduce.outcome import Outcome, answers, failures
from pagelab.reproduce.paper import Changes, Paper, Shown


class Collisions(Shown):
    """Sizes are in KiB; a row is named by its size. Shown relative to the first size."""

    kind: Literal["collisions"]
    table_kib: list[int]
    addresses: int = Field(gt=0)

    def cases(self, paper: Paper, changes: Changes) -> dict[int, Case]:
        """A count a size."""
        # An entry takes 8 bytes.
        return {
            kib: collisions.case(f"collisions in {_name(kib)}", kib << 7, self.addresses)
            for kib in self.table_kib
        }

    def outcome(self, paper: Paper, ended: Mapping[int, Ended]) -> Outcome:
        """Relative counts."""
        counts = {kib: _count(ended[kib]) for kib in self.table_kib}
        first = counts[self.table_kib[0]]
        rows = {
            _name(kib): [count / first if count is not None and first else None]
            for kib, count in counts.items()
        }
        columns = ["collisions"]
        return Outcome(
            columns=columns,
            rows=rows,
            answers=answers(self.claim, columns, rows),
            failures=failures({_name(kib): one for kib, one in ended.items()}),
        )


def _count(one: Ended) -> int | None:
    return None if isinstance(one, Failed) else int(one.data["collisions"])


def _name(kib: int) -> str:
    for unit, name in ((1 << 20, "GB"), (1 << 10, "MB")):
        if kib >= unit:
            return f"{kib // unit} {name}"
    return f"{kib} KB"
