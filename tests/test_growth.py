"""When a machine is given more memory, and when not; as commands: test_simulating_commands.py."""

from collections.abc import Callable
from typing import Any

import pytest

import canned
from pagelab import growth, jobs
from pagelab.jobs import Simulation, Stop
from pagelab.progress import Quiet
from pagelab.results import Failure, Run

GIB = 1 << 30


def outcome(simulation: Simulation, needs: dict[str, int]) -> Run:
    """What a design that needs so much does on the machine of a simulation, 70 % in use."""
    sizes = [int(key.partition("=")[2]) for key in simulation.overrides]
    size = sizes[-1] if sizes else 16 * GIB
    raw: dict[str, Any] = canned.run("radix")
    free = size * 3 // 10
    needed = needs[simulation.label]
    raw |= {"design": simulation.label, "out_of_memory": needed > free}
    raw["machine"]["memory"] |= {"memory_bytes": size, "utilisation": 0.7}
    raw["os"] |= dict.fromkeys(("resident_bytes", "peak_resident_bytes"), min(needed, free))
    return Run.model_validate(raw)


def simulate(
    monkeypatch: pytest.MonkeyPatch, needs: dict[str, int], *, may_grow: bool = True
) -> tuple[list[int], list[str]]:
    """The memory that each design ended with, and what was said."""

    def simulate_all(
        simulations: list[Simulation],
        display: object,
        stop: Stop,
        workers: int | None,
        ended: Callable[[int, Run | Failure], None],
    ) -> list[Run | Failure]:
        outcomes: list[Run | Failure] = []
        for place, simulation in enumerate(simulations):
            outcomes.append(
                Failure(design=simulation.label, error="stopped")
                if stop.wanted
                else outcome(simulation, needs)
            )
            ended(place, outcomes[-1])
        return outcomes

    monkeypatch.setattr(jobs, "simulate_all", simulate_all)
    work = [Simulation(name, "radix", "dpt-paper", [], {}, may_grow=may_grow) for name in needs]
    said: list[str] = []
    ended, notes = growth.simulate_all(work, Quiet(), Stop(), None, said.append)
    assert said == notes
    runs = [run for run in ended if isinstance(run, Run)]
    assert len(runs) == len(needs)
    return [run.machine["memory"]["memory_bytes"] // GIB for run in runs], notes


def test_all_designs_of_a_machine_get_the_memory_that_one_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 30 % of 16, 32 and 64 GiB are 4.8, 9.6 and 19.2.
    sizes, notes = simulate(monkeypatch, {"a": GIB, "b": 10 * GIB, "c": GIB})
    assert sizes == [64, 64, 64]
    assert len(notes) == 2
    assert "more than the rest with b" in notes[0]
    assert "begun again with 64.0 GiB, 70 % in use" in notes[1]


def test_what_fits_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert simulate(monkeypatch, {"a": GIB, "b": 4 * GIB}) == ([16, 16], [])


def test_a_limit_of_the_user_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert simulate(monkeypatch, {"a": 10 * GIB}, may_grow=False) == ([16], [])


def test_it_ends_with_the_largest_memory_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, notes = simulate(monkeypatch, {"a": 1000 * GIB})
    assert sizes == [128]
    assert len(notes) == 3


@pytest.mark.parametrize(
    ("machine", "overrides", "grows"),
    [
        ("dpt-paper", [], True),
        ("dpt-paper", ["memory.utilisation=0.5"], True),
        ("dpt-paper", ["memory.memory_bytes=17179869184"], False),
        ("of-mine.toml", [], False),
    ],
)
def test_only_a_presets_own_memory_grows(machine: str, overrides: list[str], grows: bool) -> None:
    assert growth.may_grow(machine, machine, overrides) is grows


def test_memory_that_is_mostly_free_is_not_what_lacks() -> None:
    simulation = Simulation("a", "radix", "dpt-paper", [], {})
    run = outcome(simulation, {"a": 5 * GIB})
    assert run.lacks_memory
    # A design that found no 64 contiguous megabytes.
    scattered = run.os.model_copy(update={"resident_bytes": GIB})
    assert not run.model_copy(update={"os": scattered}).lacks_memory
