"""Runs programs natively in turns, until what differs is known well enough."""

import os
import random
import resource
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal

from pagelab.environment import given
from pagelab.errors import PagelabError
from pagelab.measuring import looks, probe
from pagelab.measuring.kernel_settings import KernelSettings
from pagelab.measuring.looks import Buffers, CoreStates, Watch
from pagelab.measuring.result import Conditions, Estimate
from pagelab.progress import SECONDS_BETWEEN_LINES

_THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")

# glibc's allocator asks for huge pages where they are only for who asks (tunables of glibc 2.35
# and later). Both settings run with it, so that they allocate alike.
TUNABLES = "glibc.malloc.hugetlb=1"

# Memory of a program: as the kernel gives it to all, without transparent huge pages, with those it
# asks for, or spread over all nodes.
Policy = Literal["own", "none", "advised", "interleaved"]
_FLAGS: dict[Policy, list[str]] = {
    "own": [],
    "none": ["--no-huge-pages"],
    "advised": ["--only-advised-huge-pages"],
    "interleaved": ["--interleaved"],
}

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
    """Way in which this kernel gives huge pages to programs, and its `memory.page_policy`."""

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
    """The setting in /sys/kernel/mm/transparent_hugepage/enabled."""
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
    """One run of a program: seconds, and page faults that needed no input."""

    user: float
    system: float
    wall: float
    faults: int
    # By the monotonic clock.
    began: float = 0.0
    # The CPU that it was bound to.
    bound: int | None = None
    # Figure of a server's load, for example requests a second.
    rate: float | None = None

    @property
    def ended(self) -> float:
        """When, by the same clock."""
        return self.began + self.wall

    @property
    def cpu(self) -> float:
        """Seconds of processor time."""
        return self.user + self.system

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        rate = {} if self.rate is None else {"rate": self.rate}
        times = {"user": self.user, "system": self.system, "wall": self.wall}
        return {**times, "faults": self.faults, **rate}


@dataclass(frozen=True)
class Interval:
    """A median with its bootstrap interval."""

    median: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """True if it is on one side of 0."""
        return self.low > 0 or self.high < 0

    @property
    def narrow(self) -> bool:
        """True if a change is known well enough."""
        return (self.high - self.low) / 2 <= max(_WIDEST, _WIDEST_SHARE * abs(self.median))


@dataclass
class Native:
    """Runs of a program: rounds of one with small pages and one with each larger size.

    `had` is what cores had of their buffers in all `rounds`, if that was looked at, and `half` for
    what share of the time that was half. `alone`: these runs are of the rounds in which it was all;
    else of all rounds.
    """

    small: list[Run] = field(default_factory=list)
    larger: dict[str, list[Run]] = field(default_factory=dict)
    rounds: int = 0
    had: CoreStates | None = None
    half: float | None = None
    alone: bool = False

    @property
    def beside(self) -> Conditions:
        """Findings around these runs, where they ran; nothing where nobody looked."""
        if self.had is None:
            return Conditions()
        # Short runs lie between the same two looks.
        around = {
            (look.at, cpu): core
            for run in chain(self.small, *self.larger.values())
            for look in self.had.around(run.began, run.ended)
            for cpu, core in look.cores.items()
            if run.bound in (None, cpu)
        }.values()
        return Conditions(
            memory_ns=_estimate(core.memory_ns for core in around),
            reads=_estimate(core.reads for core in around),
            moves=_estimate(core.moves for core in around),
            life=_lives([core.life for core in around if core.life]),
            level=self.had.level,
        )

    @property
    def buffers(self) -> dict[Buffers, float]:
        """Buffers of the cores in these runs, by shares of the time; empty where not known."""
        if self.had is None or self.half is None:
            return {}
        return self.had.split(0.0 if self.alone else self.half)

    @property
    def shared(self) -> bool:
        """True if others seem to have used these cores in any of the rounds."""
        if self.had is None or self.half is None:
            return False
        return set(self.had.split(self.half)) != {self.had.whole}

    def looks_as_json(self) -> dict[str, Any] | None:
        """For programs: what was looked at, and what was seen by CPU."""
        if self.had is None:
            return None
        shares = [
            {
                "reorder_buffer": had.reorder,
                "store_buffer": had.stores,
                "width": had.width,
                "share": share,
            }
            for had, share in self.buffers.items()
        ]
        seen = [{cpu: core.half for cpu, core in look.cores.items()} for look in self.had.looks]
        return {"half": self.half, "alone": self.alone, "shares": shares, "looks": seen}

    def gain(self, size: str) -> Interval | None:
        """Change by pages of that size: processor time without over with them, less 1."""
        return changes((run.cpu for run in self.small), (run.cpu for run in self.larger[size]))

    def user(self) -> Interval:
        """Seconds in the program itself with small pages."""
        return bootstrap([run.user for run in self.small])

    def settled(self) -> bool:
        """True if every change is known well enough."""
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


def _lives(found: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, Estimate]]:
    return {
        use: {
            phase: Estimate(**vars(bootstrap([of[use][phase] for of in found])), samples=len(found))
            for phase in phases
        }
        for use, phases in (found[0].items() if found else ())
    }


def _estimate(found: Iterable[float | None]) -> Estimate | None:
    """The median of what is known, with its bootstrap interval."""
    samples = [figure for figure in found if figure is not None]
    return Estimate(**vars(bootstrap(samples)), samples=len(samples)) if samples else None


def interleave(
    settings: Mapping[str, Callable[[], Run]],
    left: Callable[[Mapping[str, list[Run]]], Collection[str]],
    budget: float,
    say: Callable[[str], None],
    between: Callable[[], None] = lambda: None,
    patience: float = _PATIENCE,
    worth: Callable[[Mapping[str, Run]], Iterable[str]] = list,
) -> dict[str, list[Run]]:
    """Runs rounds of settings, in an order drawn anew, while any are `left` or for `budget` s.

    A setting that is not left in a round is in none that follow. It takes five rounds at the least,
    if they can be had in `patience` times the budget. The first one warms up files, and is for
    `worth` only, which says what goes on. `between` is called before each run.
    Raises PagelabError when a program cannot be run or fails.
    """
    runs: dict[str, list[Run]] = {name: [] for name in settings}
    order = random.Random(1)
    begin = time.monotonic()
    said = 0.0
    names = list(worth({name: run_it() for name, run_it in settings.items()}))
    for rounds in count(1):
        order.shuffle(names)
        for name in names:
            between()
            runs[name].append(settings[name]())
        spent = time.monotonic() - begin
        if spent >= said + SECONDS_BETWEEN_LINES:
            said = spent
            say(f"round {rounds}, {spent:.0f} s")
        wanted = left(runs)
        over = spent > budget or not wanted
        if (over and rounds >= _LEAST_ROUNDS) or spent > patience * budget:
            break
        names = [name for name in names if not wanted or name in wanted]
    return runs


def measure(
    command: list[str],
    pages: HugePages,
    kernel: KernelSettings,
    sizes: list[str],
    budget: float,
    say: Callable[[str], None],
    watch: Watch | None = None,
    single: bool = False,
) -> Native:
    """Runs rounds with small pages and with each of the larger `sizes`, as `interleave` does.

    With a `watch`, which begins anew, those are taken in which cores had all of their buffers, if
    they are enough. A `single` thread runs on the CPU that had most of them when last looked at.
    Raises PagelabError when a program cannot be run or fails, or the kernel gives no such pages.
    """
    had = watch.begin() if watch else None

    def one(size: str) -> Run:
        cpu = had.quietest() if had and single else None
        if size != SMALL:
            kernel.give(size)
        return run(command, pages.environment, "none" if size == SMALL else "own", cpu=cpu)

    def gathered(runs: Mapping[str, list[Run]]) -> Native:
        return _gathered(runs, sizes, had)

    def left(runs: Mapping[str, list[Run]]) -> Collection[str]:
        found = gathered(runs)
        # All rounds are what there is where nothing is told of the cores.
        told = had is not None and bool(had.looks)
        settled = (found.alone or not told) and (not sizes or found.settled())
        return () if settled else runs

    settings = {size: partial(one, size) for size in (SMALL, *sizes)}
    between = watch.look if watch else lambda: None
    runs = interleave(settings, left, budget, say, between)
    if watch:
        watch.look(now=True)
        watch.conclude()
    return gathered(runs)


def _gathered(runs: Mapping[str, list[Run]], sizes: list[str], had: CoreStates | None) -> Native:
    """Undisturbed rounds, if they are enough, by what was looked at."""
    found = [
        [looks.halves(had.around(run.began, run.ended), run.bound) if had else [] for run in of]
        for of in zip(*runs.values(), strict=True)
    ]
    seen = [share for of in found for around in of for share in around]
    half = statistics.mean(seen) if seen else None
    undisturbed = [i for i, of in enumerate(found) if all(map(looks.alone, of))]
    alone = len(undisturbed) >= _LEAST_ROUNDS
    count = len(runs[SMALL])
    if alone:
        runs = {size: [of[i] for i in undisturbed] for size, of in runs.items()}
    return Native(runs[SMALL], {size: runs[size] for size in sizes}, count, had, half, alone)


def run(
    command: list[str],
    environment: Mapping[str, str],
    policy: Policy,
    *,
    cpu: int | None = None,
    stdin: int = subprocess.DEVNULL,
    stderr: int = subprocess.DEVNULL,
    started: Callable[[int], AbstractContextManager[object]] = nullcontext,
) -> Run:
    """One run, on a CPU if one is given, that reads `stdin` and complains to `stderr`.

    `policy` is of the program alone, whatever the kernel's setting is. `started` makes, of the
    process's number, what is around the run.
    """
    begin = time.monotonic()
    with (
        running(command, environment, policy, cpu=cpu, stdin=stdin, stderr=stderr) as process,
        started(process.pid),
    ):
        usage = ended(process)
    wall = time.monotonic() - begin
    if process.returncode != 0:
        raise PagelabError(f"{command[0]} {probe.how_ended(process.returncode)}")
    return Run(usage.ru_utime, usage.ru_stime, wall, usage.ru_minflt, begin, cpu)


def become(command: list[str], policy: Policy, *more: str) -> list[str]:
    """The command by which the probe becomes a program: the settings are that one's alone."""
    return [str(probe.find()), "exec", *_FLAGS[policy], *more, "--", *command]


@contextmanager
def running(
    command: list[str],
    environment: Mapping[str, str],
    policy: Policy,
    *,
    cpu: int | None = None,
    stdin: int = subprocess.DEVNULL,
    stderr: int = subprocess.DEVNULL,
) -> Iterator[subprocess.Popen[bytes]]:
    """A program that was started; it and what it starts are killed if anything is raised here."""
    # Whoever it disturbs would not know of it.
    more = [f"--end-with-parent={os.getpid()}"]
    more += ["--cpu", str(cpu)] if cpu is not None else []
    with subprocess.Popen(
        become(command, policy, *more),
        stdin=stdin,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        env={**given(), **environment},
        # Processes that it starts end with it, when it is made to end.
        process_group=0,
    ) as process:
        try:
            yield process
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise


def ended(process: subprocess.Popen[bytes]) -> resource.struct_rusage:
    """Waits for its end: what it has used, with its descendants that were waited for."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage
