"""Runs work in threads that the compiled part frees from the interpreter lock.

The main thread keeps none of the work, so that Ctrl-C reaches it at once: the first one asks
what runs to stop and to hand over what there is, the second one gives up.
"""

import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, TypeVar

from pagelab import _core
from pagelab.counts import INTERRUPTED
from pagelab.errors import InterruptedRunError, PagelabError, RunError
from pagelab.progress import Display
from pagelab.results import Failure, Run

T = TypeVar("T")


@dataclass(frozen=True)
class Simulation:
    """One design over one source, on a preset or machine file with single keys changed.

    `label` is what results call it: the design, or the design and what was changed of it. `title`
    is what progress and errors call it, with what else tells it apart; the label if empty. Whether
    the machine `may_grow` is for `growth` to look at. With `so_far` the source is a trace that is
    still being recorded: it is followed to its end, and that is told about once a second what is
    known.
    """

    label: str
    design: str
    machine: str
    overrides: list[str]
    source: dict[str, Any]
    title: str = ""
    may_grow: bool = False
    so_far: Callable[[Run], None] | None = None


@dataclass
class Stop:
    """A request to end early, and whether it was made: of this, or of what it is a part of."""

    event: threading.Event = field(default_factory=threading.Event)
    parent: "Stop | None" = None

    @property
    def wanted(self) -> bool:
        """True if somebody asked for the end."""
        return self.event.is_set() or (self.parent is not None and self.parent.wanted)


# Signals within so many seconds are one: timeout(1) sends two at once, to the process and to its
# group, and a terminal that is closed sends SIGHUP twice, once by its shell.
_ONE = 1.0

# For all simulations together. As much again goes into the trace's end and the report.
_HURRY_SECONDS = 5.0


def asked_by(number: int) -> None:
    """Has the command exit as a shell says of this signal."""
    InterruptedRunError.exit_code = 128 + number


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Turns the first SIGINT, SIGTERM or SIGHUP into a stop request; the second is itself again.

    Threads other than the first get no signals, and can ask for none. One that was ignored from the
    start, as a shell has it for what runs in the background, still is, also by what is recorded.
    """
    stop = Stop()
    first: float | None = None
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    kept: dict[int, Any] = {}

    def handler(number: int, frame: FrameType | None) -> None:
        nonlocal first
        now = time.monotonic()
        if first is None:
            first = now
            asked_by(number)
            stop.event.set()
        elif number != signal.SIGHUP and now - first > _ONE:
            signal.signal(number, kept[number])
            signal.raise_signal(number)

    for number in (int(signal.SIGINT), int(signal.SIGTERM), int(signal.SIGHUP)):
        if signal.getsignal(number) != signal.SIG_IGN:
            kept[number] = signal.signal(number, handler)
    try:
        yield stop
    finally:
        for number, old in kept.items():
            signal.signal(number, old)


@contextmanager
def hurried(stop: Stop, by: int | None) -> Iterator[None]:
    """Asks for the end soon, if a signal has ended the recording of what is to be simulated.

    timeout(1) and who shuts a machine down kill what has not ended some seconds later.
    """
    if by is None:
        yield
        return

    def end() -> None:
        asked_by(by)
        stop.event.set()

    timer = threading.Timer(_HURRY_SECONDS, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def ended_as_by_interrupt() -> Iterator[None]:
    """Has SIGTERM and SIGHUP end what runs here as Ctrl-C does: temporary files are removed.

    By themselves they end Python at once.
    """
    kept: dict[int, Any] = {}

    def handler(number: int, frame: FrameType | None) -> None:
        asked_by(number)
        raise KeyboardInterrupt

    # A process of a run on all processors is started again if it dies.
    alone = multiprocessing.parent_process() is None
    if alone and threading.current_thread() is threading.main_thread():
        for number in (int(signal.SIGTERM), int(signal.SIGHUP)):
            if signal.getsignal(number) == signal.SIG_DFL:
                kept[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in kept.items():
            signal.signal(number, old)


def in_thread(work: Callable[[], T]) -> T:
    """Runs `work` in a thread while this one stays free to take signals."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        future = pool.submit(work)
        while not future.done():
            wait([future], timeout=0.2)
        return future.result()


def simulate_all(
    simulations: list[Simulation],
    display: Display,
    stop: Stop,
    jobs: int | None = None,
    ended: Callable[[int, Run | Failure], None] | None = None,
) -> list[Run | Failure]:
    """Runs all simulations, `jobs` at a time (all processors by default), in the given order.

    `ended` is called from a worker with the place of each simulation as soon as it has ended.
    """

    def work(place: int, job: Simulation) -> Run | Failure:
        outcome = _simulate(job, display, stop)
        if ended:
            ended(place, outcome)
        return outcome

    workers = min(jobs or available_processors(), len(simulations)) or 1
    pool = ThreadPoolExecutor(max_workers=workers)
    try:
        futures = [pool.submit(work, place, job) for place, job in enumerate(simulations)]
        pending: set[Future[Run | Failure]] = set(futures)
        while pending:
            _, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
        return [future.result() for future in futures]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def all_whole(simulations: list[Simulation], display: Display) -> list[Run]:
    """Runs all simulations to their end.

    Raises PagelabError when one comes to none, and KeyboardInterrupt when somebody ends them.
    """
    with stoppable() as stop:
        outcomes = simulate_all(simulations, display, stop)
    if stop.wanted:
        raise KeyboardInterrupt
    runs = []
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            raise PagelabError(f"{outcome.design}: {outcome.error}")
        if outcome.stopped:
            raise PagelabError(f"{outcome.design} ended early: {outcome.stopped}")
        runs.append(outcome)
    return runs


def available_processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


def _simulate(job: Simulation, display: Display, stop: Stop) -> Run | Failure:
    title = job.title or job.label
    if stop.wanted:
        return Failure(design=title, error="stopped before it started")
    meter = display.meter(title, "simulating")
    most = None

    def progress(done: int, total: int | None) -> bool:
        nonlocal most
        most = total
        meter.update(done, total)
        return not stop.wanted

    started = time.monotonic()
    try:
        run = json.loads(_simulated_here(job, progress))
        simulated = run["accesses"] + run["warm_up_accesses"]
        meter.update(simulated, simulated)
    except (_core.Error, RunError) as error:
        return Failure(design=title, error=str(error))
    finally:
        meter.finish()
    seconds = time.monotonic() - started
    host = {"seconds": seconds}
    if job.so_far is None:
        # Following a recording is mostly waiting.
        host["accesses_per_second"] = simulated / seconds
    if run["stopped"] == INTERRUPTED and most:
        host["share"] = simulated / most
    whole = _run(job, run, host)
    if whole.accesses:
        return whole
    # A result that says nothing: what ended the run says more.
    why = whole.stopped or _nothing(run)
    return Failure(design=title, error=why, lacks_memory=whole.lacks_memory)


def _run(job: Simulation, run: dict[str, Any], host: dict[str, Any]) -> Run:
    return Run.model_validate(run | {"design": job.label, "source": job.source, "host": host})


def _simulated_here(job: Simulation, progress: Callable[[int, int | None], bool]) -> str:
    if (tell := job.so_far) is not None:
        source = json.dumps(job.source | {"follow": True})
        return _core.simulate(
            job.design,
            job.machine,
            job.overrides,
            source,
            progress,
            so_far=lambda text: tell(_run(job, json.loads(text), {})),
        )
    source = json.dumps(job.source)
    return _core.simulate(job.design, job.machine, job.overrides, source, progress)


def _nothing(run: dict[str, Any]) -> str:
    """Reason for which a run that went to its end measured no access."""
    if run["warm_up_accesses"]:
        return f"all of its {run['warm_up_accesses']:,} accesses are warm-up; none is measured"
    return "there is no access in what is to be simulated"
