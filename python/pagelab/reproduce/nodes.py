"""Share of a program's reads that goes to the remote node of memory, over its run."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pagelab.experiment.backends import guest
from pagelab.experiment.case import Case, Ended, Failed
from pagelab.reproduce.claim import Answer
from pagelab.reproduce.outcome import Outcome, failures
from pagelab.reproduce.paper import Changes, Paper, Shown

# In a line of counts of linux/guest/nodes.c: of node 0, of node 1. With its option `least`, what
# these would be with the best placement.
_COLUMNS = {"loads": slice(0, 2), "misses": slice(4, 6), "least": slice(6, 8)}
ALL, LAST = "all", "last"


class Nodes(Shown):
    """Shares of all loads, of those that miss a cache, or of these the least possible.

    `suites` has the entry of linux/bench by system. A row is a stretch of the run, for each of
    which the benchmark prints a line; where some of them are `moved`, after the hot set has moved,
    the table has the first and last before that and after it, and the chart has all.
    """

    kind: Literal["nodes"]
    suites: dict[str, str]
    reads: list[Literal["loads", "misses", "least"]] = ["loads"]

    def cases(self, paper: Paper, changes: Changes) -> dict[str, Case]:
        """A guest a system."""
        found = {}
        for system, name in self.suites.items():
            ((_, found[system]),) = guest.cases(name)
        return found

    def outcome(self, paper: Paper, ended: Mapping[str, Ended]) -> Outcome:
        """Shares by stretch."""
        data = {s: one.data for s, one in ended.items() if not isinstance(one, Failed)}
        columns = [_column(system, reads) for system in data for reads in self.reads]
        by_row: dict[str, dict[str, float]] = {}
        for system, found in data.items():
            for reads in self.reads:
                for row, shared in _stretches(found, _COLUMNS[reads]).items():
                    by_row.setdefault(row, {})[_column(system, reads)] = shared
        table: dict[str, list[float | None]] = {
            row: [cells.get(column) for column in columns] for row, cells in by_row.items()
        }
        summary = ("first", "before the move", "after it", LAST, ALL)
        moved = "after it" in table
        return Outcome(
            columns=columns,
            rows={r: v for r, v in table.items() if r in summary} if moved else table,
            averages=frozenset({ALL}),
            answers=[
                Answer(
                    claim=claim,
                    ours=by_row.get(claim.row, {}).get(_column(claim.series, self.reads[0])),
                )
                for claim in self.claim
            ],
            failures=failures(ended),
            drawn=(columns, {row: cells for row, cells in table.items() if row.isdigit()}),
        )


def _column(system: str, reads: str) -> str:
    return f"{system}: {reads}"


def _stretches(data: dict[str, Any], which: slice) -> dict[str, float]:
    printed, counts = data["printed"], data["counts"]
    found = {str(at + 1): share([row], which) for at, row in enumerate(counts)}
    after = [at for at, line in enumerate(printed) if line.get("moved")]
    if after:
        found["first"] = share([counts[0]], which)
        found["before the move"] = share([counts[after[0] - 1]], which)
        found["after it"] = share([counts[after[0]]], which)
    return found | {LAST: share([counts[-1]], which), ALL: share(counts, which)}


def share(counts: Sequence[Sequence[int]], which: slice) -> float:
    """Part of the loads of these lines that was of node 1."""
    local = sum(row[which][0] for row in counts)
    remote = sum(row[which][1] for row in counts)
    return remote / max(local + remote, 1)
