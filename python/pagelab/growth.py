"""A machine that grows with the program.

A preset has as much memory as the machine that it follows. A program that needs more would end
there, and nothing be learnt of it; so the runs of a machine are begun again with twice the memory,
the same share of it in use beforehand. A first pass that asks for the footprint would cost every
comparison the time that only this saves a few; and what a design and its page sizes need (page
tables, copies after fork, free blocks that are large enough) is known by running them.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby

from pagelab import _core, units
from pagelab import jobs as jobs_
from pagelab.jobs import Simulation, Stop
from pagelab.measuring import here
from pagelab.progress import Display
from pagelab.results import Failure, Run

# The simulator's own limit (docs/developers/map.md).
MOST = 128 << 30


def simulate_all(
    simulations: list[Simulation],
    display: Display,
    stop: Stop,
    jobs: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[list[Run | Failure], list[str]]:
    """As `jobs.simulate_all`, machine after machine; those that `may_grow` do.

    Returns the outcomes, and what was done about memory in words; `say` is given the same at once.
    """
    outcomes: list[Run | Failure] = []
    notes: list[str] = []
    for _, group in groupby(simulations, key=lambda simulation: simulation.machine):
        work = list(group)
        while True:
            ended, needy = _attempt(work, display, stop, jobs)
            if needy is None:
                break
            work, note = _grown(work, needy)
            notes.append(note)
            say(note)
        outcomes += ended
    return outcomes, notes


def _attempt(
    work: list[Simulation], display: Display, stop: Stop, jobs: int | None
) -> tuple[list[Run | Failure], Simulation | None]:
    """Runs them until one lacks memory that it could be given; that one."""
    attempt = Stop(parent=stop)
    needy: list[Simulation] = []

    def ended(place: int, outcome: Run | Failure) -> None:
        if outcome.lacks_memory and work[place].may_grow and 2 * _memory(work[place])[0] <= MOST:
            needy.append(work[place])
            attempt.event.set()

    outcomes = jobs_.simulate_all(work, display, attempt, jobs, ended)
    return outcomes, needy[0] if needy and not stop.wanted else None


def _memory(simulation: Simulation) -> tuple[int, float, str]:
    """Bytes of a machine's memory, the share in use beforehand, and the machine's name."""
    machine = json.loads(_core.machine(simulation.machine, simulation.overrides))
    memory = machine["memory"]
    return int(memory["memory_bytes"]), float(memory["utilisation"]), str(machine["name"])


def _grown(work: list[Simulation], needy: Simulation) -> tuple[list[Simulation], str]:
    size, share, name = _memory(needy)
    in_use = units.percent(share, 0)
    text = (
        f"{name} has {units.size(size)} of memory, {in_use} of it in use, and this program needs "
        f"more than the rest with {needy.title or needy.label}: begun again with "
        f"{units.size(2 * size)}, {in_use} in use (--set memory.memory_bytes={size} keeps it)"
    )
    return [_with_memory(simulation, 2 * size) for simulation in work], text


def _with_memory(simulation: Simulation, size: int) -> Simulation:
    overrides = [*simulation.overrides, f"memory.memory_bytes={size}"]
    return replace(simulation, overrides=overrides)


def may_grow(asked: str, machine: str, overrides: list[str]) -> bool:
    """True if a machine's memory is a preset's: neither the user's choice nor that of a file.

    `asked` is what the user called it, `machine` the preset's name or its file.
    """
    if asked not in [here.NAME, *(name for name, _ in _core.machines())]:
        return False
    keys = [override.partition("=")[0].strip() for override in overrides]
    chosen = any(key in ("memory.memory_bytes", "memory.nodes") for key in keys)
    return not chosen and "nodes" not in json.loads(_core.machine(machine, overrides))["memory"]
