"""Rest of a machine for programs while they run: a core's buffers, caches and memory.

In a guest it may be half of the buffers for a part of the time, which moves within minutes, as does
how fast memory is that others use, and how much of a last level: what was measured hours ago does
not say what a program had (docs/notebook/2026-11-26-zen3.md).
"""

import json
import os
import time
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from operator import attrgetter
from statistics import median
from typing import Any, NamedTuple

from pagelab.errors import PagelabError
from pagelab.measuring import cores, probe
from pagelab.measuring.result import Measurement, SharedLevel
from pagelab.measuring.serving import Serving

# A look takes about 50 ms a CPU.
_SECONDS_BETWEEN_LOOKS = 0.5

# Share of the time for looks at a last level, each of which takes about a second.
_LEVELS_SHARE = 0.2

# A state in a smaller share of the looks than this is not told from disturbances.
_LEAST_SHARE = 0.05

# A run before and after which there was half in no more samples than this had all throughout.
_ALONE = 0.1

# Instructions between two loads that tell half of a reorder buffer from all of it, by its size:
# registers may run out before all of it is full (on a Zen 3 at 234 of 256).
_BETWEEN = 0.7

# A look at more of them would take longer than the programs do.
_MOST_CPUS = 8


class Buffers(NamedTuple):
    """Instructions and stores that a core holds, and instructions that it dispatches a cycle."""

    reorder: int
    stores: int
    width: int

    @property
    def overrides(self) -> list[str]:
        """As keys of a machine."""
        return [
            f"core.reorder_buffer={self.reorder}",
            f"core.store_buffer={self.stores}",
            f"core.width={self.width}",
        ]


class Core(NamedTuple):
    """State of a CPU at a look.

    The share of the samples in which there was half of the core's buffers; how many instructions it
    dispatched a cycle; the nanoseconds that a line of memory took; the 10^9 bytes a second that it
    read in order, and moved where it wrote, too; and nanoseconds a page of each phase of its life,
    as `faults.per_page_ns` has them.
    """

    half: float
    width: float | None = None
    memory_ns: float | None = None
    reads: float | None = None
    moves: float | None = None
    life: dict[str, dict[str, float]] = {}


class Look(NamedTuple):
    """Findings at a time, in seconds of the monotonic clock, by CPU."""

    at: float
    cores: dict[int, Core]


@dataclass
class CoreStates:
    """State of the cores while a program ran. `whole` is all that one has of buffers.

    `level` is the last level as loads at random found it meanwhile, in some `rounds`.
    """

    whole: Buffers
    looks: list[Look] = field(default_factory=list)
    rounds: list[dict[str, Any]] = field(default_factory=list)
    level: SharedLevel | None = None

    def quietest(self) -> int | None:
        """The CPU that had most of its buffers when last looked at."""
        if not self.looks:
            return None
        last = self.looks[-1].cores
        return min(last, key=lambda cpu: last[cpu].half)

    def around(self, began: float, ended: float) -> list[Look]:
        """From the last look before a run to the first one after it; empty without one of these."""
        first = bisect_right(self.looks, began, key=attrgetter("at")) - 1
        last = bisect_left(self.looks, ended, key=attrgetter("at"))
        on_both_sides = first >= 0 and last < len(self.looks)
        return self.looks[first : last + 1] if on_both_sides else []

    def split(self, half: float) -> dict[Buffers, float]:
        """Buffers, and for what share of the time, if that was half for so large a share."""
        half = 0.0 if half < _LEAST_SHARE else 1.0 if half > 1 - _LEAST_SHARE else half
        halves = Buffers(self.whole.reorder // 2, self.whole.stores // 2, self._width_of_half())
        each = {self.whole: 1 - half, halves: half}
        return {buffers: share for buffers, share in each.items() if share}

    def _width_of_half(self) -> int:
        """Width of a core that has half of its buffers; all where that was never seen."""
        seen = [
            core.width
            for look in self.looks
            for core in look.cores.values()
            if core.half > 1 - _ALONE and core.width
        ]
        return min(max(1, round(median(seen))), self.whole.width) if seen else self.whole.width


def halves(looks: list[Look], cpu: int | None) -> list[float]:
    """In what shares of the samples there was half, on a CPU or on all of them."""
    return [core.half for look in looks for at, core in look.cores.items() if cpu in (None, at)]


def alone(found: list[float]) -> bool:
    """True if such shares around a run say that it had all buffers throughout."""
    return bool(found) and max(found) <= _ALONE


class Watch:
    """Looks at what the machine leaves the runs of programs, of one after the other.

    What cannot be looked at is said once, and tells nothing: the programs run all the same.
    """

    def __init__(self, whole: Buffers, say: probe.Say) -> None:
        self.had = CoreStates(whole)
        self._probe = Serving("looks", str(round(whole.reorder * _BETWEEN)))
        self._say = say
        self._fails = False
        self._level_due = 0.0

    def begin(self) -> CoreStates:
        """Forgets what was found; what is found from now on."""
        self.had = CoreStates(self.had.whole)
        self._level_due = 0.0
        return self.had

    def look(self, *, now: bool = False) -> None:
        """Looks, unless it has done so just before and need not look `now`."""
        looks = self.had.looks
        just = looks and time.monotonic() < looks[-1].at + _SECONDS_BETWEEN_LOOKS
        if just and not now:
            return
        cores = self._ask("cores")
        if cores is None:
            return
        cpus = sorted(os.sched_getaffinity(0))
        found = {cpu: Core(**core) for cpu, core in zip(cpus, cores, strict=True)}
        looks.append(Look(time.monotonic(), found))
        self._look_at_level()

    def conclude(self) -> None:
        """Concludes what the last level was meanwhile."""
        had = self.had
        if not had.rounds:
            return
        cores = [core for look in had.looks for core in look.cores.values()]
        memory = [core.memory_ns for core in cores if core.memory_ns is not None]
        asked = {
            "below": had.rounds[0]["below"],
            "x": had.rounds[0]["x"],
            "rounds": [one["ns"] for one in had.rounds],
            "memory_ns": median(memory) if memory else None,
        }
        level = self._ask(f"conclude {json.dumps(asked)}")
        had.level = None if level is None else SharedLevel.model_validate(level)

    def _look_at_level(self) -> None:
        began = time.monotonic()
        if began < self._level_due:
            return
        found = self._ask(f"last-level {self.had.quietest()}")
        if found is not None:
            self.had.rounds.append(found)
        now = time.monotonic()
        self._level_due = now + (now - began) * (1 / _LEVELS_SHARE - 1)

    def _ask(self, line: str) -> Any:
        """The answer to a question; None where there is none, which is said the first time."""
        if self._fails:
            return None
        try:
            return json.loads(self._probe.ask(line))
        except (PagelabError, ValueError) as error:
            self._say(f"what the machine leaves programs is not known: {error}")
            self._fails = True
            return None

    def end(self) -> None:
        """Ends the probe."""
        self._probe.end()


def watch(measurement: Measurement, say: probe.Say) -> Watch | None:
    """A watch of this machine's cores, or none where nothing could be told."""
    core = cores.documented(measurement.environment)
    if core is None or "window" not in measurement.parts:
        return None
    if len(os.sched_getaffinity(0)) > _MOST_CPUS:
        return None
    return Watch(Buffers(core.reorder_buffer, core.store_buffer, core.width), say)
