"""Looks at what the machine leaves a program, and rounds that are judged by them."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pagelab import progress
from pagelab.errors import PagelabError
from pagelab.measuring import looks, native, predict
from pagelab.measuring.agreement import Predicted
from pagelab.measuring.kernel_settings import KernelSettings
from pagelab.measuring.looks import Buffers, Core, CoreStates, Look, Watch
from pagelab.measuring.native import HugePages, Run
from pagelab.measuring.serving import Serving

ZEN_3 = Buffers(256, 64, 6)
HALF_OF_IT = Buffers(128, 32, 6)
HALF_AS_WIDE = Buffers(128, 32, 3)


def test_what_is_half_for_a_part_of_the_time_is_split_so() -> None:
    had = CoreStates(ZEN_3)
    assert had.split(0.25) == {ZEN_3: 0.75, HALF_OF_IT: 0.25}
    # Too small a share is not told from disturbances.
    assert had.split(0.04) == {ZEN_3: 1.0}
    assert had.split(0.97) == {HALF_OF_IT: 1.0}


@pytest.mark.parametrize(
    ("began", "ended", "cpu", "alone"),
    [
        (1.5, 1.9, None, True),
        (1.0, 2.0, None, True),
        # A look on the other CPU found half between, or right after.
        (1.5, 3.5, None, False),
        (2.5, 2.9, None, False),
        (2.5, 2.9, 7, False),
        (1.5, 3.5, 4, True),
        # Nobody has looked before, or since.
        (0.5, 1.5, 4, False),
        (4.5, 5.5, None, False),
    ],
)
def test_a_run_has_the_core_to_itself_between_looks_that_say_so(
    began: float, ended: float, cpu: int | None, *, alone: bool
) -> None:
    found = [(0.0, 0.0), (0.03, 0.0), (0.0, 0.8), (0.0, 0.0)]
    times = (1.0, 2.0, 3.0, 5.0)
    all_looks = [
        Look(at, {4: Core(a), 7: Core(b)}) for at, (a, b) in zip(times, found, strict=True)
    ]
    around = CoreStates(ZEN_3, all_looks).around(began, ended)
    assert looks.alone(looks.halves(around, cpu)) is alone


def test_a_single_thread_runs_where_most_is_to_be_had() -> None:
    found = [Look(at, {0: Core(a), 1: Core(b)}) for at, a, b in ((1.0, 0.0, 1.0), (2.0, 0.5, 0.1))]
    assert CoreStates(ZEN_3, found).quietest() == 1
    assert CoreStates(ZEN_3).quietest() is None


CORE = ("half", "width", "memory_ns", "reads", "moves", "life")
LIFE = {
    "written": {"first_touch": 2000.0, "unmap": 300.0},
    "written_huge": {"first_touch": 500.0, "unmap": 20.0},
}
LEVEL = {
    "lines": 65_536,
    "lines_low": 60_000,
    "lines_high": 70_000,
    "others": 0.5,
    "others_low": 0.4,
    "others_high": 0.6,
    "misfit": 0.05,
    "explains": True,
    "no_conclusion": None,
}


class Rounds:
    """Runs of a second each on a machine that others use for all but 25 of 75 seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.concluded: list[dict[str, Any]] = []
        monkeypatch.setattr("time.monotonic", lambda: self.now)
        monkeypatch.setattr(native, "run", self.run)

    @property
    def busy(self) -> bool:
        """Whether others are at work now."""
        return int(self.now) // 25 % 3 > 0

    def run(self, _: object, __: object, policy: native.Policy, cpu: int | None) -> Run:
        """Two seconds apart; huge pages halve the time, others double it."""
        self.now += 1.0
        began = self.now
        self.now += 1.0
        seconds = (1.0 if policy == "own" else 2.0) * (2.0 if self.busy else 1.0)
        return Run(seconds, 0.0, 1.0, 10, began, cpu)

    def ask(self, line: str) -> str:
        """What a look finds, in half a second, or in a second of the last level."""
        if line.startswith("conclude"):
            self.concluded.append(json.loads(line.removeprefix("conclude ")))
            return json.dumps(LEVEL)
        if line.startswith("last-level"):
            self.now += 1.0
            return json.dumps({"below": 8, "x": [16, 32], "ns": [[20.0, 90.0], [2.0, 9.0]]})
        self.now += 0.5
        busy = [(1.0, 3.2, 160.0, 9.0, 12.0), (0.4, 5.0, 170.0, 11.0, 14.0)]
        quiet = [(0.0, 5.9, 95.0, 38.0, 50.0), (0.03, 5.9, 99.0, 40.0, 60.0)]
        cores = busy if self.busy else quiet
        return json.dumps([dict(zip(CORE, [*of, LIFE], strict=True)) for of in cores])


def test_rounds_are_compared_in_which_nobody_else_was_at_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds = Rounds(monkeypatch)
    watch = Watch(ZEN_3, print)
    monkeypatch.setattr(Serving, "ask", lambda _, line: rounds.ask(line))
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    pages = HugePages("always", "thp", {})
    found = native.measure(["true"], pages, KernelSettings(), ["2M"], 300.0, lambda _: None, watch)
    assert found.alone
    assert len(found.small) < found.rounds / 2
    assert {run.user for run in found.small} == {2.0}
    assert {run.user for run in found.larger["2M"]} == {1.0}
    assert found.buffers == {ZEN_3: 1.0}
    # Memory is slower while others are at work, which they were not in these rounds.
    assert found.beside.memory_ns
    assert found.beside.memory_ns.median == 97.0
    assert found.beside.reads
    assert found.beside.reads.median == 39.0
    assert found.beside.moves
    assert found.beside.moves.median == 55.0
    assert found.beside.life["written"]["first_touch"].median == 2000.0
    # The last level is looked at for a part of the time, and concluded from all of that.
    [asked] = rounds.concluded
    assert found.beside.level
    assert found.beside.level.lines == 65_536
    assert 0.1 < len(asked["rounds"]) / rounds.now < 0.2
    assert (asked["below"], asked["x"]) == (8, [16, 32])
    # Few undisturbed rounds say nothing: all are taken.
    few = native.measure(["true"], pages, KernelSettings(), ["2M"], 20.0, lambda _: None, watch)
    assert not few.alone
    assert len(few.small) == few.rounds
    assert set(few.buffers) == {ZEN_3, HALF_AS_WIDE}
    assert few.shared
    memory = few.beside.memory_ns
    assert memory
    assert memory.median == 165.0


def test_a_short_program_is_looked_at_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of its rounds take less time than lies between two looks."""
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)

    def run(*_: object, cpu: int | None, **__: object) -> Run:
        nonlocal now
        began = now
        now += 0.01
        return Run(0.01, 0.0, 0.01, 10, began, cpu)

    monkeypatch.setattr(native, "run", run)

    def ask(_: Serving, line: str) -> str:
        core = dict(zip(CORE, (0.0, 6.0, None, 30.0, 40.0, LIFE), strict=True))
        return json.dumps([core]) if line == "cores" else "null"

    monkeypatch.setattr(Serving, "ask", ask)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    watch, pages = Watch(ZEN_3, print), HugePages("always", "thp", {})
    for budget in (0.05, 60.0):
        found = native.measure(["true"], pages, KernelSettings(), ["2M"], budget, print, watch)
        assert (found.alone, found.half) == (True, 0.0)
        # Lines cannot be flushed here.
        assert found.beside.memory_ns is None
        assert len(found.small) == found.rounds >= 5


def test_what_cannot_be_looked_at_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> str:
        raise PagelabError("no memory")

    monkeypatch.setattr(Serving, "ask", fails)
    said: list[str] = []
    watch = Watch(ZEN_3, said.append)
    watch.look()
    watch.look()
    assert said == ["what the machine leaves programs is not known: no memory"]
    assert watch.had.looks == []


def test_cores_of_this_machine_are_looked_at() -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("not written for this processor")
    said: list[str] = []
    watch = Watch(ZEN_3, said.append)
    watch.look()
    watch.conclude()
    watch.end()
    assert said == []
    [look] = watch.had.looks
    assert set(look.cores) == os.sched_getaffinity(0)
    for core in look.cores.values():
        # No memory answers sooner than a last level does.
        assert core.memory_ns
        assert core.memory_ns > 20.0
        assert core.reads
        # A fault and its zeroing.
        assert core.life["written"]["first_touch"] > 50.0
    assert watch.had.level


def test_a_program_is_bound_to_the_cpu_that_is_given() -> None:
    last = max(os.sched_getaffinity(0))
    check = f"import os, sys; sys.exit(os.sched_getaffinity(0) != {{{last}}})"
    assert native.run([sys.executable, "-c", check], {}, "own", cpu=last).bound == last


def test_a_program_is_simulated_with_what_the_core_had(tmp_path: Path) -> None:
    """Loads that wait for memory, far from each other: with less of the buffer they take longer."""
    lines = ["map,7f0000000000,67108864"]
    for i in range(2000):
        lines += [f"L,{0x7F0000000000 + i * 32768:x},8,100,0"]
    trace = tmp_path / "far.csv"
    trace.write_text("\n".join(lines) + "\n")

    def predicted(half: float) -> Predicted:
        shares = CoreStates(ZEN_3).split(half)
        with progress.display(Console(stderr=True), quiet=True) as display:
            [found] = predict.simulate_in_turns(
                trace, "zen4", "radix", ["thp"], [], shares, display
            )
        return found

    whole, half, turns = predicted(0.0), predicted(1.0), predicted(0.5)
    assert half.program > 1.3 * whole.program
    assert turns.program == pytest.approx(2 / (1 / whole.program + 1 / half.program))
    # A single simulation has no ends.
    assert whole.least is None
    assert turns.least == pytest.approx(whole.program)
    assert turns.most == pytest.approx(half.program)
