"""Parts of a simulation: an interval of a program is looked at, a piece is simulated."""

import json
from base64 import b64decode, b64encode
from typing import Any

from pagelab import _core
from pagelab.errors import InterruptedRunError, PagelabError, RunError
from pagelab.experiment import traces
from pagelab.experiment.backends import simulate
from pagelab.experiment.case import Case
from pagelab.experiment.progress import Progress
from pagelab.surveys import simulator_version

# Before what is measured, before what is simulated, the end; and how many parts of `before` count.
Place = tuple[int, int, int | None, int]


def look_case(label: str, source: dict[str, Any], interval: int) -> Case:
    """A look at one interval of a source whose traces are named by content."""
    version = simulator_version()
    return Case(
        backend="look",
        label=label,
        task={"source": source, "interval": interval, "version": version},
        depends=[version, traces.content_of(source), interval],
        memory=simulate.PROCESS_BYTES,
    )


def piece_case(label: str, whole: Case, place: Place, before: list[str], lines: bytes) -> Case:
    """A piece of what `whole` simulates: on memory made from the events before it, lines first."""
    return Case(
        backend="piece",
        label=label,
        task=whole.task | {"place": place, "before": before, "lines": b64encode(lines).decode()},
        # The events and lines follow from the source.
        depends=[whole.depends, place],
        memory=whole.memory,
    )


def look(task: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Survey of an interval, as text."""
    simulate.check_version(task)
    source = traces.fetched(task["source"])
    try:
        seen = _core.look(json.dumps(source), task["interval"], progress)
    except _core.Error as error:
        raise RunError(str(error)) from error
    if seen is None:
        raise InterruptedRunError("interrupted")
    return {"seen": b64encode(seen).decode()}


def piece(task: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Outcome of a piece."""
    simulate.check_version(task)
    source = traces.fetched(task["source"])
    with simulate.machine_file(task["machine"]) as machine:
        return _piece(task, machine, source, progress)


def _piece(
    task: dict[str, Any], machine: str, source: dict[str, Any], progress: Progress
) -> dict[str, Any]:
    told = simulate.Told(progress)
    start, begins, end, parts = task["place"]
    before = [b64decode(part) for part in task["before"]]
    if len(before) != parts:
        raise PagelabError("a piece came with other events than it is simulated after")
    try:
        text = _core.piece(
            task["design"],
            machine,
            task["overrides"],
            json.dumps(source),
            (start, begins, end, parts),
            before,
            b64decode(task["lines"]),
            told,
        )
    except _core.Error as error:
        raise RunError(str(error)) from error
    if told.stopped:
        raise InterruptedRunError("interrupted")
    return {"piece": json.loads(text)}


def seen_of(data: dict[str, Any]) -> bytes:
    """Bytes that `look` returned."""
    return b64decode(data["seen"])
