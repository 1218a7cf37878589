"""A program run natively with each setting in turn, and what became of its time and memory."""

import math
import os
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event, Thread

from pagelab.advising.candidates import UNCHANGED, Candidate, several_nodes
from pagelab.advising.leftover import Guard, nothing_left_running
from pagelab.advising.resident import Look, Resident, descendants, looking
from pagelab.advising.serving import Load, serve
from pagelab.errors import InterruptedRunError, PagelabError
from pagelab.measuring import native
from pagelab.measuring.kernel_settings import KernelSettings
from pagelab.measuring.native import Run

# The unchanged program once more in each round: how far it is from itself.
AGAIN = "unchanged, again"
# Confidence of an interval: those of five settings hold together with 99 %.
CONFIDENCE = 0.998
# Fewer rounds have no interval with that.
LEAST = 10
# Intervals by which settings are left that are not the best: four rounds may be enough.
_ROUGH = 0.8
# A ratio is known well enough when its interval reaches no further than this to either side, or
# than a fifth of the way from 1.
_NARROW = 0.01
# Most bytes of a program's last complaint.
_COMPLAINT = 400
# Seconds between looks at whether a program is stopped, and looks in a row that say so.
_BETWEEN_LOOKS = 0.5
_STOPPED_LOOKS = 3
_NARROW_SHARE = 0.2
# A program computes, and does not only wait, that uses such a share of a processor.
_BUSY = 0.1
# A setting has engaged with so much more or less memory in huge pages or on other nodes, or so many
# more or fewer faults.
_HUGE_PAGE = 2 << 20
_FAULTS = 0.05


class StillRunningError(PagelabError):
    """A program had not ended when its time was over: with a look at it if it was busy."""

    def __init__(self, message: str, look: Look | None) -> None:
        super().__init__(message)
        self.look = look


Around = Callable[[int], AbstractContextManager[object]]


@dataclass(frozen=True)
class Ratio:
    """The times by which a setting took less: the median of rounds, with its interval.

    Of too few rounds there is no interval: it reaches from 0 to infinity.
    """

    median: float
    low: float
    high: float

    @property
    def narrow(self) -> bool:
        """It is known well enough."""
        wide = max(self.median - self.low, self.high - self.median)
        return wide <= max(_NARROW, _NARROW_SHARE * abs(self.median - 1))


def ratio(above: list[float], below: list[float], confidence: float = CONFIDENCE) -> Ratio:
    """The ratio of two settings' figures, round by round.

    The interval is between order statistics, which hold the median with at least that `confidence`
    whatever the distribution is (David and Nagaraja, Order Statistics, section 7.1).

    >>> ratio([2.0] * 9 + [9.0], [1.0] * 10)
    Ratio(median=2.0, low=2.0, high=9.0)
    """
    ratios = sorted(a / b for a, b in zip(above, below, strict=True) if b)
    if not ratios:
        return Ratio(math.nan, 0.0, math.inf)
    outside = _outside(len(ratios), confidence)
    middle = statistics.median(ratios)
    if outside is None:
        return Ratio(middle, 0.0, math.inf)
    return Ratio(middle, ratios[outside], ratios[-1 - outside])


def _outside(count: int, confidence: float) -> int | None:
    """Samples beyond the interval at each end, of so many in all; none if it has no end."""
    tail, beyond = 0.0, None
    for at in range(count // 2):
        tail += math.comb(count, at) / 2**count
        if 2 * tail > 1 - confidence:
            break
        beyond = at
    return beyond


@dataclass
class Trial:
    """Rounds of a program with one setting."""

    candidate: Candidate
    runs: list[Run] = field(default_factory=list)
    resident: Resident = field(default_factory=Resident)

    @property
    def faults(self) -> float:
        """Page faults of a run, the median."""
        return statistics.median(run.faults for run in self.runs)


def engaged(base: Trial, trial: Trial) -> bool:
    """True if the setting has changed the program's memory: its huge pages, nodes or faults."""
    huge = abs(trial.resident.huge - base.resident.huge)
    nodes = abs(trial.resident.remote - base.resident.remote)
    faults = abs(trial.faults - base.faults)
    return max(huge, nodes) >= _HUGE_PAGE or faults > _FAULTS * max(base.faults, trial.faults)


@dataclass(frozen=True)
class Trials:
    """All that was run. A trial has the first rounds of the unchanged program's, if not all.

    `idle` settings did not engage in their first run, and had no other.
    """

    base: Trial
    again: Trial
    others: list[Trial]
    interrupted: bool = False
    idle: list[Trial] = field(default_factory=list)

    @property
    def rounds(self) -> int:
        """Rounds that are whole."""
        return len(self.base.runs)

    @property
    def seconds(self) -> float:
        """Seconds that a round takes."""
        trials = (self.base, self.again, *self.others)
        return sum(statistics.median(run.wall for run in trial.runs) for trial in trials)

    @property
    def rated(self) -> bool:
        """A server's load says how much it gets done; else processor time is compared."""
        return self.base.runs[0].rate is not None

    def faster(self, trial: Trial, of: str = "cpu", *, confidence: float = CONFIDENCE) -> Ratio:
        """The times by which a run takes less processor time, or `wall` time, than unchanged.

        Where the load of a server says how much it gets done, that is compared instead of
        processor time: by how much it is more.
        """
        return ratio(*self._figures(trial, of), confidence)

    def _figures(self, trial: Trial, of: str = "cpu") -> tuple[list[float], list[float]]:
        """Figures by round, of which the first is more where the setting is better."""
        base = self.base.runs[: len(trial.runs)]
        if self.rated and of == "cpu":
            return [run.rate or 0 for run in trial.runs], [run.rate or 0 for run in base]
        return [getattr(run, of) for run in base], [getattr(run, of) for run in trial.runs]

    def overall(self, trial: Trial) -> float:
        """The ratio of all rounds together, in which a few slow runs count for what they took."""
        above, below = map(sum, self._figures(trial))
        return above / below if below else math.nan

    def slower_rounds(self, trial: Trial) -> int:
        """Rounds in which the setting was worse than unchanged."""
        return sum(better < worse for better, worse in zip(*self._figures(trial), strict=True))

    @property
    def unsettled(self) -> list[Trial]:
        """Settings of which more rounds would say more.

        Not those that are known well enough, nor those that another is likely to be faster than.
        """
        roughly = [self.faster(trial, confidence=_ROUGH) for trial in self.others]
        best = max((found.low for found in roughly), default=0.0)
        return [
            trial
            for trial, found in zip(self.others, roughly, strict=True)
            if found.high >= best and not self.faster(trial).narrow
        ]


@dataclass(frozen=True)
class First:
    """A run of the unchanged program, and what was seen of it."""

    run: Run
    look: Look


@dataclass(frozen=True)
class Program:
    """A command; `stdin` names a file that each run reads, `seconds` is what one may take.

    One with a `load` is a server, and ends when that has.
    """

    command: list[str]
    stdin: str | None = None
    seconds: float = 120
    load: Load | None = None
    guard: Guard | None = None

    def first(self, kernel: KernelSettings) -> First:
        """A run of the program unchanged, which says what can be tried."""
        kernel.set(())
        seen: dict[str, Look] = {}
        run = self.run(Candidate(UNCHANGED, "as it is"), seen)
        return First(run, seen[UNCHANGED])

    def run(self, candidate: Candidate, seen: dict[str, Look]) -> Run:
        """One run; the first one with a candidate is looked at, which slows it down."""
        first = candidate.name not in seen

        @contextmanager
        def around(pid: int) -> Iterator[None]:
            with (
                self.guard.over(pid) if self.guard else nullcontext(),
                _ended(pid, self.seconds) as ended,
                looking(pid, nodes=several_nodes()) if first else nullcontext() as look,
            ):
                yield
            if ended.stopped:
                raise PagelabError(
                    f"{self.command[0]} was stopped since it reads from the terminal or sets it: "
                    "give its input as a file"
                )
            if ended.over.is_set():
                busy = ended.cpu >= _BUSY * self.seconds
                raise StillRunningError(
                    f"{self.command[0]} had not ended after {self.seconds:.0f} s: give it more "
                    "with --time, or less to do; what serves until it is stopped needs --load",
                    look if busy else None,
                )
            if look is not None:
                seen[candidate.name] = look

        with nothing_left_running(self.command[0]):
            if self.load is not None:
                return serve(
                    self.command,
                    self._environment(candidate),
                    self.load,
                    candidate.policy,
                    seconds=self.seconds,
                    started=around,
                )
            return self._run(candidate, around, complaints=first)

    def _environment(self, candidate: Candidate) -> dict[str, str]:
        return candidate.environment | (self.guard.environment if self.guard else {})

    def _run(self, candidate: Candidate, around: Around, *, complaints: bool) -> Run:
        """One run to its end; what it has said of an error is in ours, if it is to be kept."""
        with ExitStack() as files:
            stdin = stderr = subprocess.DEVNULL
            if self.stdin is not None:
                stdin = files.enter_context(Path(self.stdin).open("rb")).fileno()
            said = files.enter_context(TemporaryFile())
            try:
                return native.run(
                    self.command,
                    self._environment(candidate),
                    candidate.policy,
                    stdin=stdin,
                    stderr=said.fileno() if complaints else stderr,
                    started=around,
                )
            except StillRunningError:
                raise
            except PagelabError as error:
                if not complaints:
                    raise PagelabError(
                        f"{error}, after it had run well: it has to be one that can be run again"
                    ) from error
                said.seek(max(0, said.seek(0, os.SEEK_END) - _COMPLAINT))
                last = said.read().decode(errors="replace").strip()
                with_ = "" if candidate.name == UNCHANGED else f", with {candidate.name}"
                raise PagelabError(f"{error}{with_}" + (f": {last}" if last else "")) from error


class _End:
    """End of a process that was made to end: since its time was over, or since it was stopped.

    `cpu` is the processor time that it and its descendants had had.
    """

    def __init__(self) -> None:
        self.over = Event()
        self.stopped = False
        self.cpu = 0.0


@contextmanager
def _ended(pid: int, seconds: float) -> Iterator[_End]:
    """Kills a process, with what it has started, if it runs for longer or waits for a terminal."""
    end, done = _End(), Event()
    until = time.monotonic() + seconds

    def watch() -> None:
        looks = 0
        while not done.wait(min(_BETWEEN_LOOKS, max(0.0, until - time.monotonic()))):
            looks = looks + 1 if _is_stopped(pid) else 0
            end.stopped = looks >= _STOPPED_LOOKS
            if end.stopped or time.monotonic() >= until:
                end.over.set()
                end.cpu = sum(map(_cpu, descendants(pid)))
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
                return

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield end
    finally:
        done.set()
        thread.join()


def _cpu(pid: int) -> float:
    """Seconds of processor time of a process and of its children that have ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0.0
    # utime, stime, cutime and cstime of proc_pid_stat(5), which count behind the name.
    ticks = stat.rpartition(b") ")[2].split()[11:15]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def _is_stopped(pid: int) -> bool:
    """True if a process or one of its descendants is stopped, as by SIGTTIN."""
    for one in descendants(pid):
        with suppress(OSError):
            stat = Path(f"/proc/{one}/stat").read_bytes()
            if stat.rpartition(b") ")[2][:1] == b"T":
                return True
    return False


def run(
    program: Program,
    candidates: list[Candidate],
    kernel: KernelSettings,
    budget: float,
    say: Callable[[str], None],
    first: First | None = None,
    show: Callable[[Trials], None] = lambda _: None,
) -> Trials:
    """Runs rounds of settings for `budget` seconds, or until none is left that may be the best.

    The `first` run warms up what the unchanged program reads, if there was one. The `kernel` is
    told its settings before each run. A setting that does not engage in its first run has no other.
    `show` is called after each round.
    Interrupted, what was run counts. Raises PagelabError when the program cannot be run, does not
    end, or ends otherwise than with 0.
    """
    unchanged = Candidate(UNCHANGED, "as it is")
    again = Candidate(AGAIN, "as it is")
    trials = {one.name: Trial(one) for one in (unchanged, again, *candidates)}
    idle: dict[str, Trial] = {}
    seen: dict[str, Look] = {}
    known = {} if first is None else {UNCHANGED: first}

    def one(trial: Trial) -> Run:
        if had := known.pop(trial.candidate.name, None):
            seen[trial.candidate.name] = had.look
            return had.run
        warm_up = trial.candidate.name not in seen
        if warm_up:
            say(f"first run, {trial.candidate.name}")
        kernel.set(trial.candidate.kernel)
        found = program.run(trial.candidate, seen)
        if not warm_up:
            trial.runs.append(found)
        return found

    def worth(warmed_up: Mapping[str, Run]) -> list[str]:
        looked_at = {
            name: Trial(trials[name].candidate, [run], seen[name].found)
            for name, run in warmed_up.items()
        }
        for candidate in candidates:
            trial = looked_at[candidate.name]
            if not engaged(looked_at[UNCHANGED], trial):
                idle[candidate.name] = trial
                del trials[candidate.name]
        return list(trials)

    def gathered(*, interrupted: bool = False) -> Trials:
        return _gathered(trials, seen, list(idle.values()), interrupted=interrupted)

    settled: set[str] = set()

    def left(_: Mapping[str, list[Run]]) -> list[str]:
        found = gathered()
        show(found)
        open_ = {trial.candidate.name for trial in found.unsettled}
        # Rounds that a setting was not in cannot be made up for. Before there are intervals one is
        # left only where as many rounds of all would take too long.
        if found.rounds >= LEAST or LEAST * found.seconds > budget / 2:
            settled.update(trials.keys() - {UNCHANGED, AGAIN} - open_)
        names = trials.keys() - settled
        return [*names] if names > {UNCHANGED, AGAIN} else []

    interrupted = False
    settings = {name: partial(one, trial) for name, trial in trials.items()}
    try:
        native.interleave(settings, left, budget, say, patience=1, worth=worth)
    except KeyboardInterrupt:
        interrupted = True
    if not all(trial.runs for trial in trials.values()):
        raise InterruptedRunError("interrupted before all settings had run once")
    return gathered(interrupted=interrupted)


def _gathered(
    trials: Mapping[str, Trial], seen: Mapping[str, Look], idle: list[Trial], *, interrupted: bool
) -> Trials:
    """All trials, cut to whole rounds."""
    whole = min(len(trials[name].runs) for name in (UNCHANGED, AGAIN))
    found = [
        Trial(trial.candidate, trial.runs[:whole], seen[name].found)
        for name, trial in trials.items()
    ]
    base, again, *others = found
    # Two looks at the same program.
    base.resident = again.resident = base.resident.most(again.resident)
    return Trials(base, again, others, interrupted, idle)
