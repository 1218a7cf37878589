"""From cases to their results: what is kept is taken, what is missing is run and kept."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from pagelab.errors import InterruptedRunError
from pagelab.experiment import local
from pagelab.experiment import store as stores
from pagelab.experiment.board import Board, board
from pagelab.experiment.case import Case, Ended, Failed
from pagelab.experiment.store import Store
from pagelab.experiment.work import work
from pagelab.jobs import Stop, stoppable

Executor = Callable[[list[Case], local.Sink, Board, Stop], None]


@dataclass(frozen=True)
class How:
    """Way in which cases are carried out.

    `executor` runs those that may run beside others. What failed before is run again if `again` is
    "failed", and everything if it is "all"; if `only` is "failed", nothing else is run. Of `shard`
    (i, n) it is the i-th share of n.
    """

    store: Path = stores.DEFAULT
    executor: Executor = local.run
    again: str = ""
    only: str = ""
    shard: tuple[int, int] | None = None
    quiet: bool = False

    def has(self, case: Case) -> bool:
        """True if a case is in the share."""
        if self.shard is None:
            return True
        turn, shards = self.shard
        # By key, not by place: a machine that has other results must not choose other cases.
        return int(case.key, 16) % shards == turn - 1


def run_all(cases: Iterable[Case], how: How) -> dict[str, Ended]:
    """End of each case, by its key; with a shard only those that are known afterwards.

    Raises InterruptedRunError when it was interrupted, and PagelabError when it could not keep what
    it found.
    """
    store = Store(how.store)
    wanted = {case.key: case for case in cases}
    kept = {} if how.again == "all" else {k: one for k in wanted if (one := store.get(k))}
    failed = {key for key, one in kept.items() if isinstance(one, Failed)}
    again = failed if "failed" in (how.again, how.only) else set()
    missing = [
        case
        for key, case in wanted.items()
        if how.has(case) and (key in again or (key not in kept and how.only != "failed"))
    ]
    ended = {key: one for key, one in kept.items() if key not in again}
    console = Console(stderr=True)
    if not how.quiet and ended:
        console.print(f"pagelab: {len(ended)} of {len(wanted)} runs are kept already")
    with board(len(ended) + len(missing), len(ended), console, quiet=how.quiet) as shown:
        sink = _Sink(store, ended, shown)
        try:
            beside = [case for case in missing if not case.alone]
            with stoppable() as stop:
                if beside:
                    how.executor(beside, sink, shown, stop)
                if stop.wanted:
                    raise KeyboardInterrupt
            for case in missing:
                if case.alone:
                    _run_here(case, sink, shown)
        except KeyboardInterrupt:
            raise InterruptedRunError(
                f"interrupted with {shown.summary()}; the same command goes on from there"
            ) from None
    if not how.quiet:
        print(f"pagelab: {shown.summary()}", file=sys.stderr)
    return ended


@dataclass(frozen=True)
class _Sink:
    """Keeps what executors find."""

    store: Store
    ended: dict[str, Ended]
    board: Board

    def finished(self, case: Case, ended: Ended) -> None:
        self.store.put(case, ended)
        self.ended[case.key] = ended
        self.board.ended(case, failed=isinstance(ended, Failed))


def _run_here(case: Case, sink: _Sink, shown: Board) -> None:
    """Runs a case in this process, which has the machine to itself but for the display."""
    shown.started(case)

    def progress(done: int, total: int | None, text: str = "") -> bool:
        shown.at(case, done, total, text)
        return True

    sink.finished(case, work(case.backend, case.task, progress))
