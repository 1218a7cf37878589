"""One long simulation in pieces, each a case that runs wherever cases run.

The intervals of the program are looked at, which is a case each unless a run before has kept what
was seen (`surveys.py`); then each piece is simulated; and what came of them is joined, to the same
bits as in one process.
"""

import json
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

from pagelab import _core, surveys
from pagelab.errors import RunError
from pagelab.experiment import store as stores
from pagelab.experiment import traces
from pagelab.experiment.backends import pieces as backend
from pagelab.experiment.backends import simulate
from pagelab.experiment.board import Board
from pagelab.experiment.case import Case, Ended, Failed, Result
from pagelab.experiment.run import How
from pagelab.jobs import Simulation, Stop

# Receiver of how many cases of how many have ended, and what they are.
Told = Callable[[int, int, str], None]


def run(how: How, job: Simulation, stop: Stop, told: Told) -> str:
    """The JSON of the run, as `_core.simulate` returns it.

    Raises RunError when a piece came to nothing, and PagelabError when nobody could run it.
    """
    design, machine, overrides, source = job.design, job.machine, job.overrides, job.source
    local = json.dumps(source)
    try:
        intervals = _core.intervals(design, machine, overrides, local)
        label = f"{design}, {traces.label(source)}"
        whole = simulate.case(label, design, machine, overrides, source)
        survey = surveys.file(source)
        seen: list[bytes] = []
        if intervals and not (survey and survey.exists()):
            seen = _looked(whole, intervals, how, stop, told)
        plan = _core.Plan(design, machine, overrides, local, seen, survey)
        try:
            places, parts = plan.pieces()
        except _core.Error:
            if seen:
                raise
            # The kept survey is of another version, or damaged.
            seen = _looked(whole, intervals, how, stop, told)
            plan = _core.Plan(design, machine, overrides, local, seen, survey)
            places, parts = plan.pieces()
        found = _simulated(whole, places, parts, how, stop, told)
        return plan.join([json.dumps(piece) for piece in found])
    except _core.Error as error:
        raise RunError(str(error)) from error


def _looked(whole: Case, intervals: int, how: How, stop: Stop, told: Told) -> list[bytes]:
    source = whole.task["source"]
    cases = [
        backend.look_case(f"{whole.label}: look at {number + 1} of {intervals}", source, number)
        for number in range(intervals)
    ]
    ended = _carry_out(cases, how, stop, lambda done, total: told(done, total, "looked at"))
    if len(ended) < len(cases):
        raise RunError("stopped before it began")
    return [backend.seen_of(_data(ended[case.key])) for case in cases]


def _simulated(
    whole: Case,
    places: list[tuple[backend.Place, bytes]],
    parts: list[bytes],
    how: How,
    stop: Stop,
    told: Told,
) -> list[Any]:
    """Outcome of each piece; None for one that was not simulated."""
    texts = [b64encode(part).decode() for part in parts]
    cases = [
        backend.piece_case(
            f"{whole.label}: piece {number} of {len(places)}",
            whole,
            place,
            texts[: place[3]],
            lines,
        )
        for number, (place, lines) in enumerate(places, 1)
    ]
    # Whoever has the fewest events before it can begin first.
    order = sorted(cases, key=lambda case: int(case.task["place"][3]))
    ended = _carry_out(order, how, stop, lambda done, total: told(done, total, "pieces"))
    return [_data(ended[case.key])["piece"] if case.key in ended else None for case in cases]


def _data(ended: Ended) -> dict[str, Any]:
    if isinstance(ended, Failed):
        raise RunError(ended.error)
    return ended.data


@dataclass
class _Sink:
    """Keeps what came of cases, and says how many have ended."""

    store: stores.Store
    total: int
    told: Callable[[int, int], None]
    ended: dict[str, Ended] = field(default_factory=dict)

    def finished(self, case: Case, ended: Ended) -> None:
        if isinstance(ended, Result):
            self.store.put(case, ended)
        self.ended[case.key] = ended
        self.told(len(self.ended), self.total)

    def forget(self, case: Case) -> None:
        self.store.drop(case.key)
        self.ended.pop(case.key)


def _carry_out(
    cases: list[Case], how: How, stop: Stop, told: Callable[[int, int], None]
) -> dict[str, Ended]:
    store = stores.Store(how.store)
    sink = _Sink(store, len(cases), told)
    for case in cases:
        kept = store.get(case.key)
        if isinstance(kept, Result):
            sink.ended[case.key] = kept
    missing = [case for case in cases if case.key not in sink.ended]
    told(len(sink.ended), len(cases))
    if missing:
        console = Console(stderr=True)
        board = Board(len(cases), len(sink.ended), console, quiet=True)
        how.executor(missing, sink, board, stop)
    return sink.ended
