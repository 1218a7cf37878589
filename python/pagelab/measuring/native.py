"""Runs programs natively in turns, until what differs is known well enough."""

import os
import random
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

from pagelab.errors import PagelabError
from pagelab.measuring import probe
from pagelab.measuring.given_pages import GivenPages
from pagelab.progress import SECONDS_BETWEEN_LINES

_THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")

# Where huge pages are only for who asks: glibc's allocator asks for its memory (tunables of glibc
# 2.35 and later). Both settings run with it, so that they allocate alike.
TUNABLES = "glibc.malloc.hugetlb=1"

# Page sizes as `--pages` has them.
SMALL = "4K"
HUGE = "2M"

CONFIDENCE = 0.95
_RESAMPLES = 2000
_LEAST_ROUNDS = 5
# Fewer rounds than that say nothing: the budget is overdrawn so many times before they do not.
_PATIENCE = 4

# A change is known well enough when its interval reaches no further than this either side: in
# points, or relative to the change.
_WIDEST = 0.015
_WIDEST_SHARE = 0.1


@dataclass(frozen=True)
class HugePages:
    """How this kernel gives huge pages to programs, and which `memory.page_policy` that is."""

    mode: str
    policy: str | None
    environment: dict[str, str]

    def policy_of(self, size: str) -> str:
        """The `memory.page_policy` of programs that are given pages of that size."""
        assert self.policy is not None
        if size == HUGE:
            return self.policy
        return size if self.mode == "always" else f"{size}-{self.mode}"

    @property
    def how(self) -> str:
        """In words."""
        return {
            "always": "given to all memory",
            "madvise": f"asked for by the C library's allocator ({TUNABLES})",
        }.get(self.mode, "switched off")


def huge_pages() -> HugePages:
    """What /sys/kernel/mm/transparent_hugepage/enabled says."""
    try:
        text = _THP.read_text(encoding="ascii")
    except OSError:
        return HugePages("none", None, {})
    mode = text.partition("[")[2].partition("]")[0]
    if mode == "always":
        return HugePages(mode, "thp", {})
    if mode == "madvise":
        return HugePages(mode, "thp-madvise", {"GLIBC_TUNABLES": TUNABLES})
    return HugePages(mode, None, {})


@dataclass(frozen=True)
class Run:
    """What one run of a program took: seconds, and page faults that needed no input."""

    user: float
    system: float
    wall: float
    faults: int

    @property
    def cpu(self) -> float:
        """Seconds of processor time."""
        return self.user + self.system


@dataclass(frozen=True)
class Interval:
    """A median with its bootstrap interval."""

    median: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether it is on one side of 0."""
        return self.low > 0 or self.high < 0

    @property
    def narrow(self) -> bool:
        """Whether a change is known well enough."""
        return (self.high - self.low) / 2 <= max(_WIDEST, _WIDEST_SHARE * abs(self.median))


@dataclass
class Native:
    """All runs of a program: rounds of one with small pages and one with each larger size."""

    small: list[Run] = field(default_factory=list)
    larger: dict[str, list[Run]] = field(default_factory=dict)

    def gain(self, size: str) -> Interval | None:
        """What pages of that size change: processor time without over with them, less 1."""
        return changes((run.cpu for run in self.small), (run.cpu for run in self.larger[size]))

    def user(self) -> Interval:
        """Seconds in the program itself with small pages."""
        return bootstrap([run.user for run in self.small])

    def settled(self) -> bool:
        """Whether every change is known well enough."""
        gains = [self.gain(size) for size in self.larger]
        return all(gain is not None and gain.narrow for gain in gains)


def changes(above: Iterable[float], below: Iterable[float]) -> Interval | None:
    """The ratio of what two settings took, less 1, from their runs of each round; of few, none."""
    ratios = [a / b - 1 for a, b in zip(above, below, strict=False) if b]
    return bootstrap(ratios) if len(ratios) >= _LEAST_ROUNDS else None


def bootstrap(samples: list[float]) -> Interval:
    """The median and its percentile bootstrap interval (Efron and Tibshirani 1993, chapter 13)."""
    draw = random.Random(1)
    medians = sorted(
        statistics.median(draw.choices(samples, k=len(samples))) for _ in range(_RESAMPLES)
    )
    tail = (1 - CONFIDENCE) / 2
    low, high = medians[int(tail * _RESAMPLES)], medians[int((1 - tail) * _RESAMPLES) - 1]
    return Interval(statistics.median(samples), low, high)


def interleave(
    settings: Mapping[str, Callable[[], Run]],
    settled: Callable[[Mapping[str, list[Run]]], bool],
    budget: float,
    say: Callable[[str], None],
    between: Callable[[], None] = lambda: None,
) -> dict[str, list[Run]]:
    """Runs rounds of all settings, in an order drawn anew, until settled or for `budget` s.

    It takes five rounds at the least, if they can be had in four times the budget. The first one
    warms up files and is thrown away. `between` is called before each round.
    Raises PagelabError when a program cannot be run or fails.
    """
    runs: dict[str, list[Run]] = {name: [] for name in settings}
    order = random.Random(1)
    begin = time.monotonic()
    said = 0.0
    names = list(settings)
    for name in names:
        settings[name]()
    for rounds in count(1):
        between()
        order.shuffle(names)
        for name in names:
            runs[name].append(settings[name]())
        spent = time.monotonic() - begin
        if spent >= said + SECONDS_BETWEEN_LINES:
            said = spent
            say(f"{rounds} rounds, {spent:.0f} s")
        over = spent > budget or settled(runs)
        if (over and rounds >= _LEAST_ROUNDS) or spent > _PATIENCE * budget:
            break
    return runs


def measure(
    command: list[str],
    pages: HugePages,
    kernel: GivenPages,
    sizes: list[str],
    budget: float,
    say: Callable[[str], None],
    between: Callable[[], None],
) -> Native:
    """Runs rounds with small pages and with each of the larger `sizes`, as `interleave` does.

    Raises PagelabError when a program cannot be run or fails, or the kernel gives no such pages.
    """

    def larger(size: str) -> Run:
        kernel.give(size)
        return run(command, pages.environment, huge=True)

    settings = {SMALL: lambda: run(command, pages.environment, huge=False)}
    settings |= {size: partial(larger, size) for size in sizes}

    def gathered(runs: Mapping[str, list[Run]]) -> Native:
        return Native(runs[SMALL], {size: runs[size] for size in sizes})

    def settled(runs: Mapping[str, list[Run]]) -> bool:
        return not sizes or gathered(runs).settled()

    return gathered(interleave(settings, settled, budget, say, between))


def run(command: list[str], environment: Mapping[str, str], *, huge: bool) -> Run:
    """One run. Without `huge` it has no huge pages, whatever the kernel's setting is."""
    # The probe becomes the program, so that the setting is the program's alone.
    become = [str(probe.find()), "exec", *([] if huge else ["--no-huge-pages"]), "--", *command]
    begin = time.monotonic()
    with subprocess.Popen(
        become,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment},
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - begin
    code = process.returncode
    if code != 0:
        ended = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
        raise PagelabError(f"{command[0]} {ended}")
    return Run(usage.ru_utime, usage.ru_stime, wall, usage.ru_minflt)
