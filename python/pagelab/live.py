"""Simulations that follow a recording: each machine takes in what has come to the trace.

So the answer so far is there while the program runs, and all looks at it together cost one
simulation. When the recording has ended, so have they, but for what is left; results are those of
simulations of the whole trace, to the bit.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from types import TracebackType

import pagelab
from pagelab import growth, jobs, readable, sampling, units
from pagelab.progress import Display, Meter
from pagelab.results import Comparison, Failure, Run
from pagelab.sources import Trace
from pagelab.window import Window

# With fewer, an interval may be narrow by chance.
_LEAST_WINDOWS = 10
# The first phase of a program may be like nothing that follows.
_LEAST_SECONDS = 30.0
# Difference of the second half of a program that is no change, in times of the precision: of half
# of the windows less is known.
_STAYS = 2
# A machine has caches and tables of some ten MiB.
_MOST = 24

Ended = tuple[list[Run | Failure], list[str]]


@dataclass
class _Counted:
    """A meter that shows nothing."""

    done: int = 0
    total: int | None = None

    def update(self, done: int, total: int | None, instead: str = "") -> None:
        self.done, self.total = done, total

    def answer(self, short: str, table: str) -> None:
        pass

    def finish(self) -> None:
        pass


@dataclass
class Following:
    """Simulations of a trace that is being recorded, of `window` of a program.

    Enough is known when all speeds are within `precision`, and the program has run for some time.
    """

    simulations: Sequence[jobs.Simulation]
    window: Window
    precision: float = 0.0
    _stop: jobs.Stop = field(default_factory=jobs.Stop)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    _ended: Future[Ended] | None = None
    _meters: list[_Counted] = field(default_factory=list)
    _runs: dict[int, Run] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _answer: tuple[str, str] | None = None
    _precise: bool = False

    def __enter__(self) -> "Following":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.event.set()
        self._pool.shutdown()

    def meter(self, name: str, verb: str) -> _Counted:
        """Meter of one simulation, for `ended` to show: see Display."""
        self._meters.append(_Counted())
        return self._meters[-1]

    def look(self, trace: Path, elapsed: float, meter: Meter) -> bool:
        """Shows what is known after so many seconds; True if that is enough."""
        self._begin(trace)
        with self._lock:
            answer, self._answer = self._answer, None
        if answer:
            meter.answer(*answer)
        return self._precise and elapsed >= _LEAST_SECONDS

    def ended(
        self, trace: Path, display: Display, stop: jobs.Stop, say: Callable[[str], None]
    ) -> Ended:
        """Outcomes as those of `growth.simulate_all`, once the recording has ended."""
        self._stop.parent = stop
        meter = display.meter("the rest of it", "simulating")
        future = self._begin(trace)
        while not future.done():
            # Simulations that begin again, with more memory, have another meter.
            last = self._meters[-len(self.simulations) :]
            totals = [one.total for one in last if one.total]
            meter.update(min((one.done for one in last), default=0), max(totals, default=None))
            with suppress(TimeoutError):
                future.exception(timeout=0.1)
        meter.finish()
        outcomes, notes = future.result()
        for note in notes:
            say(note)
        return outcomes, notes

    def _begin(self, trace: Path) -> Future[Ended]:
        if self._ended is None:
            self._ended = self._pool.submit(self._simulate, trace)
        return self._ended

    def _simulate(self, trace: Path) -> Ended:
        described = Trace(trace).describe(self.window.of_what_was_recorded)
        with readable.substitutes(described, times=1, stop=self._stop) as files:
            work = [
                replace(one, source=files.of(described), so_far=partial(self._seen, place))
                for place, one in enumerate(self.simulations)
            ]
            # All at once: what waits to be simulated says nothing.
            machines = [list(on_one) for _, on_one in groupby(work, key=lambda one: one.machine)]
            with ThreadPoolExecutor(len(machines)) as pool:
                ended = list(pool.map(self._on_a_machine, machines))
        outcomes = [files.as_named(one, described) for found, _ in ended for one in found]
        return outcomes, [note for _, notes in ended for note in notes]

    def _on_a_machine(self, work: list[jobs.Simulation]) -> Ended:
        return growth.simulate_all(work, self, self._stop, len(work))

    def _seen(self, place: int, run: Run) -> None:
        """Takes in what one of them says, and has an answer if all have said something new."""
        with self._lock:
            self._runs[place] = run
            if len(self._runs) < len(self.simulations):
                return
            runs = [self._runs[place] for place in range(len(self.simulations))]
            self._runs.clear()
        if all(run.accesses and run.cycles.elapsed for run in runs):
            comparison = so_far(runs)
            if not _rivals(comparison):
                return
            answer = short(comparison), table(comparison)
            enough = bool(self.precision) and precise(comparison, self.precision)
            with self._lock:
                self._answer, self._precise = answer, enough


def can_follow(simulations: Sequence[jobs.Simulation], copies: int, at_once: int | None) -> bool:
    """True if simulations can go on side by side in this process, as many as there are."""
    wanted = at_once is None or at_once >= len(simulations)
    return copies == 1 and wanted and len(simulations) <= _MOST


def trusted(runs: Sequence[Run]) -> list[Run]:
    """The runs; of larger memory than caches only the beginning that was taken whole.

    What a piece finds in the last level of cache is a guess, which errs otherwise with each page
    size (docs/limits.md).
    """
    guessed = [
        run
        for run in runs
        if len(run.windows) > 1
        and sampling.taken_whole(run.windows)
        and run.memory > run.machine["caches"]["llc"]["kib"] << 10
    ]
    return [beginning(run) for run in runs] if guessed else list(runs)


def beginning(run: Run) -> Run:
    """The run by its first window alone, where it has several."""
    return _in_windows(run, 1)


def _in_windows(run: Run, count: int) -> Run:
    """The run by its first windows alone."""
    found = run.model_copy(update={"windows": run.windows[:count]})
    found.__dict__.pop("sample", None)  # That of all windows, if it was asked for.
    return found


def so_far(runs: Sequence[Run]) -> Comparison:
    """The runs beside each other, in the windows that all of them have left behind."""
    # The gap behind the last window is not known yet.
    windows = min(len(run.windows) for run in runs) - 1
    common = trusted([_in_windows(run, windows if windows > 1 else 0) for run in runs])
    return Comparison(
        pagelab=pagelab.__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        name=runs[0].source["name"],
        command=None,
        recording=None,
        window={},
        host={},
        runs=common,
    )


def _rivals(comparison: Comparison) -> list[Run]:
    return [run for run in comparison.runs if run is not comparison.baseline_of(run)]


def precise(comparison: Comparison, precision: float) -> bool:
    """True if the speeds of all runs are known to that share, and have come to stay there."""
    rivals = _rivals(comparison)
    if any(run.of_beginning for run in comparison.runs):
        return True  # Nothing that follows is told.
    windows = min(len(run.windows) for run in comparison.runs)
    return (
        bool(rivals)
        and windows >= _LEAST_WINDOWS
        and all(_known(comparison, run, precision) for run in rivals)
    )


def _known(comparison: Comparison, run: Run, precision: float) -> bool:
    half, later = comparison.speedup_interval(run), comparison.later_speedup(run)
    if half is None or later is None or half > precision:
        return False
    return abs(later - comparison.speedup(run)) <= _STAYS * precision


def short(comparison: Comparison) -> str:
    """The speeds in a line: `so far: radix 2M +9.4 ± 1.2 %, of 31 windows`."""
    from pagelab.table import speed

    speeds = [f"{comparison.label(run)} {speed(comparison, run)}" for run in _rivals(comparison)]
    return f"so far: {', '.join([*speeds, _of(comparison)])}"


def table(comparison: Comparison) -> str:
    """The table, with what it is of."""
    from pagelab.table import text

    return f"{text(comparison)}\nso far, {_of(comparison)} (Ctrl-C ends it)"


def _of(comparison: Comparison) -> str:
    """Subject of a comparison: `of 31 windows, 41 M accesses`."""
    windows = comparison.runs[0].windows
    if len(windows) == 1:
        return f"of the first {units.count(windows[0].accesses)} accesses"
    accesses = f"{units.count(min(run.accesses for run in comparison.runs))} accesses"
    return f"of {len(windows)} windows, {accesses}" if windows else f"of the first {accesses}"
