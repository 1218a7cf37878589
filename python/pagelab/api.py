"""The commands as functions: record, simulate, compare, measure.

`import pagelab` is enough: they are `pagelab.record` and so on. Each of them works without a word;
`progress=True` shows on standard error how far it is. The first Ctrl-C (SIGINT) asks what runs to
stop and returns what there is, marked `interrupted`; the second one is a KeyboardInterrupt.

What a user can mend is a `pagelab.PagelabError`, whose text says what to do; `UsageError`, one of
them, is for names and values that there are not, and is raised before anything long starts.
"""

import functools
import os
import platform
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rich.console import Console

import pagelab
from pagelab import _core, advice, growth, live, readable, recording, store, units
from pagelab import design as design_
from pagelab import jobs as jobs_
from pagelab import pages as pages_
from pagelab.design import Design
from pagelab.errors import InterruptedRunError, PagelabError, UsageError
from pagelab.machine import MachineBase
from pagelab.measuring import kind
from pagelab.progress import Display, display
from pagelab.recorded import summary
from pagelab.recording import RecordingError
from pagelab.results import Comparison, Failure, Recording, Run
from pagelab.sources import Programs, Source, Trace, Workload, at_once, is_built_in
from pagelab.window import Window

if TYPE_CHECKING:
    from pagelab.measuring.result import Measurement

Path_ = str | os.PathLike[str]
EVERYTHING = Window()

# Recording everything a long program does would fill the disk: at up to 3 bytes an access this
# is at most 1.5 GB, and a minute or so of simulation a design.
DEFAULT_LIMIT = 500_000_000

# The machine of the DPT paper, whose programs the built-in ones are.
PAPER = "dpt-paper"


def bounded(window: Window) -> Window:
    """The window with an end: a sample's comes when as much has been taken as else in one piece.

    One whose periods grow takes little, however long the program runs.
    """
    if window.limit or window.thinning:
        return window
    taken, period = window.sample or (1, 1)
    return replace(window, limit=DEFAULT_LIMIT * period // taken)


def record(
    command: Sequence[Path_],
    out: Path_,
    *,
    window: Window = EVERYTHING,
    follow_exec: bool = False,
    code: bool = True,
    sites: bool = False,
    qemu: Path_ | None = None,
    cpu: str | None = None,
    defer: bool = False,
    keep_words: bool = False,
    seconds: float | None = None,
    progress: bool = False,
    following: live.Following | None = None,
) -> Recording:
    """Runs a program and writes what it does to memory into the trace `out`.

    `command` is the program and its arguments. The program's input, output and exit status stay
    its own. `window` says which part to take, all of it unless given; `follow_exec` also records
    the programs that it executes, `code` keeps which instruction makes each access, so that
    simulations can say where misses come from, and `sites` who allocates the memory. `qemu` is the
    emulator instead of the one that `emulator.find` finds, `cpu` the processor it emulates, as its
    `-cpu` option has it.

    The program is ended after so many `seconds`, if they are given.

    With `defer` the trace is made when the program has ended, so that it has less to wait for; what
    it is made of is in a file beside it meanwhile (its name with `.words` behind it), and stays
    there with `keep_words`. Simulations that are `following` begin meanwhile.

    Returns what was recorded; its `trace` can be simulated. What goes wrong after the program has
    started is in its `incomplete`, and the trace is good up to there. Raises
    `recording.RecordingError` when it was not started.

    >>> recorded = pagelab.record(["true"], "true.trace")
    >>> recorded.exit_status, recorded.accesses > 1000
    (0, True)
    """
    words = [os.fspath(word) for word in command]
    if not words:
        raise UsageError("no program is named")
    with _watched(progress, shared=True) as (meters, stop, _):
        outcome = recording.record(
            words,
            Path(out),
            window,
            meters,
            stop,
            follow_exec=follow_exec,
            code=code,
            sites=sites,
            qemu=None if qemu is None else Path(qemu),
            cpu=cpu,
            defer=defer,
            keep_words=keep_words,
            seconds=seconds,
            following=following,
        )
    # Arguments need not be text; JSON must be.
    told = [os.fsencode(word).decode(errors="replace") for word in words]
    asked = {"command": told, "window": asdict(window), "interrupted": stop.wanted}
    return outcome.model_copy(update=asked | {"path": Path(out)})


def simulate(
    source: Source | Recording | Path_,
    design: Design | str = "radix",
    *,
    machine: MachineBase | str | None = None,
    pages: str | None = None,
    copies: int = 1,
    seed: int | None = None,
    window: Window = EVERYTHING,
    progress: bool = False,
) -> Run:
    """Simulates one design over a trace, a recording, or built-in programs.

    `source` is a trace's path, a `Trace`, what `record` returned, one of `pagelab.workloads`, or
    several `at_once`; each program runs `copies` times at once. `window` says which part of it to
    take. `design` is one of `pagelab.designs`, or as the command line takes it
    ("dpt:cpd=false"); `machine` is one of `pagelab.machines`, a preset's name, a TOML file, or
    "here": the preset of this processor's kind unless given, for built-in programs "dpt-paper".
    `pages` is the page size that memory is backed with where it can be ("4K", "64K", "2M", "1G",
    "madvise", "reserved", ...), `seed` that of everything random.

    Returns the run: cycles, misses, walks, faults, bytes. One that ended early, because memory ran
    out or the user stopped it, says so in `stopped`. Raises PagelabError when no access could be
    simulated.

    >>> from pagelab import designs, workloads
    >>> chase = workloads.pointer_chase(pages=2000, loads=20_000, windows=0)
    >>> run = pagelab.simulate(chase, designs.radix(levels=5))
    >>> run.accesses, run.machine["radix"]["levels"]
    (20000, 5)
    """
    comparison = compare(
        source,
        [design],
        machine=machine,
        pages=pages,
        copies=copies,
        seed=seed,
        window=window,
        progress=progress,
    )
    return comparison.runs[0]


def compare(
    source: Source | Recording | Path_ | Sequence[Path_],
    designs: Iterable[Design | str] | None = None,
    *,
    machine: MachineBase | str | Sequence[MachineBase | str] | None = None,
    pages: str | Sequence[str] | None = None,
    copies: int = 1,
    seed: int | None = None,
    window: Window = EVERYTHING,
    follow_exec: bool = True,
    code: bool = True,
    sites: bool = False,
    heat_map: bool = False,
    seconds: float | None = None,
    jobs: int | None = None,
    out: Path_ | None = None,
    progress: bool = False,
    following: live.Following | None = None,
) -> Comparison:
    """Simulates several designs over the same program.

    `source` is as for `simulate`, or a program to record, as a list of it and its arguments: its
    first 500 million accesses unless `window` has a limit or grows thinner, with `code` and
    `sites` as for `record`. `designs` are those of `pagelab.designs.USUAL` unless given. With
    several page sizes in `pages`, or machines in `machine`, each design is there with each of them.
    With `heat_map` each run has one: accesses, TLB misses and faults by address and time. After so
    many `seconds` the program is ended. `jobs`
    are simulated at once, one a processor unless given. `out` is a directory to write result.json,
    result.parquet and report.html into. Simulations that have been `following` the recording are
    not made again.

    Returns the runs beside each other, and the designs that have none, with the reason. Raises
    PagelabError when there is no run at all, and `recording.RecordingError` when the program
    cannot be run.

    >>> from pagelab import designs, workloads
    >>> chase = workloads.pointer_chase(pages=2000, loads=20_000, windows=0)
    >>> comparison = pagelab.compare(chase, [designs.radix(), designs.ideal()])
    >>> comparison.speedup(comparison.runs[1]) > 1
    True
    """
    if out is not None:
        store.check(Path(out))
    if machine is None:
        machine = default_machine(source, tell_once if progress else _be_quiet)
    with ExitStack() as scratch:
        if isinstance(source, Sequence) and not isinstance(source, str):
            # Errors in the rest are said before the program runs.
            work = check(designs, machine=machine, pages=pages, seed=seed, heat_map=heat_map)
            folder = Path(scratch.enter_context(TemporaryDirectory(prefix="pagelab-")))
            window = bounded(window)
            if live.can_follow(work, copies, jobs):
                following = scratch.enter_context(live.Following(work, window))
            source = record(
                source,
                folder / "trace",
                window=window,
                following=following,
                follow_exec=follow_exec,
                code=code,
                sites=sites,
                seconds=seconds,
                progress=progress,
            )
            window = window.of_what_was_recorded
        recorded_ = source if isinstance(source, Recording) else None
        hurry = _hurry(recorded_)
        with (
            _watched(progress) as (meters, stop, say),
            jobs_.hurried(stop, hurry),
        ):
            found = _source(source, copies)
            ended: list[Run | Failure] = []
            notes: list[str] = []
            if following is not None and recorded_ is not None:
                ended, notes = following.ended(Path(recorded_.trace.path), meters, stop, say)
            if recorded_ is None or _lack(ended, recorded_):
                described = found.describe(window)
                # First, so that what is said of the machine counts.
                first = ["heat_map=true"] if heat_map else []
                once = tell_once if progress else _be_quiet
                work = _simulations(described, designs, machine, pages, seed, once, first)
                if hurry:
                    jobs = len(work)  # Side by side, so that each comes to something.
                ended, notes = _simulated(described, work, meters, stop, jobs, say)
        comparison = _comparison(
            _name(found, recorded_), recorded_, window, ended, notes, interrupted=stop.wanted
        )
        if out is not None:
            comparison.save(out)
    return comparison


def _simulated(
    described: dict[str, Any],
    work: list[jobs_.Simulation],
    meters: Display,
    stop: jobs_.Stop,
    jobs: int | None,
    say: Callable[[str], None],
) -> tuple[list[Run | Failure], list[str]]:
    """Outcomes of simulations of a source, and what was done about memory."""
    with readable.substitutes(described, times=len(work), stop=stop) as files:
        read = files.of(described)
        grows = not readable.has_pipe(read)
        work = [replace(job, source=read, may_grow=job.may_grow and grows) for job in work]
        ended, notes = growth.simulate_all(work, meters, stop, jobs, say)
        return [files.as_named(outcome, described) for outcome in ended], notes


def _lack(ended: list[Run | Failure], recorded: Recording) -> bool:
    """True if who has followed a recording has not seen all of it, as on some file systems."""
    seen = [run.accesses + run.warm_up_accesses for run in ended if isinstance(run, Run)]
    whole = [run for run in ended if isinstance(run, Run) and run.complete]
    return not ended or (bool(whole) and min(seen) < recorded.accesses)


def _comparison(
    name: str,
    recorded: Recording | None,
    window: Window,
    ended: list[Run | Failure],
    notes: list[str],
    *,
    interrupted: bool,
) -> Comparison:
    """The runs that there are, with what was done to have them."""
    runs = _runs(name, recorded, ended, interrupted=interrupted)
    _check_alike(runs)
    if recorded is not None and recorded.window.get("thinning"):
        runs = live.trusted(runs)
    return Comparison(
        pagelab=pagelab.__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        name=name,
        command=recorded.command if recorded else None,
        recording=recorded,
        window=recorded.window if recorded else asdict(window),
        interrupted=interrupted or (recorded is not None and recorded.interrupted),
        host=_host(),
        runs=runs,
        failures=[run for run in ended if isinstance(run, Failure)],
        notes=[*notes, *_shares(runs, recorded)],
    )


def default_machine(
    source: Source | Recording | Path_ | Sequence[Path_], say: Callable[[str], None]
) -> str:
    """The machine where none is named; `say` is told which and why.

    Programs and traces of them are asked about for a processor like this one. The built-in programs
    are those of a paper, at its footprints, and run on its machine.
    """
    if isinstance(source, Trace | Workload | Programs) and is_built_in(source):
        return PAPER
    name, why = kind.describe()
    say(why)
    return name


def measure(
    part: str = "all",
    *,
    quick: bool = False,
    allow_tuning: bool = False,
    seed: int | None = None,
    cpu: int | None = None,
    program: Sequence[Path_] | None = None,
    progress: bool = False,
) -> "Measurement":
    """Measures what virtual memory costs on this machine; with `quick`, in under a minute.

    `part` is "all" or one of `pagelab measure --help`; "calls" takes a `program` and its
    arguments. `allow_tuning` allows changes of kernel settings (as root), each of which is undone.
    `cpu` is the processor to run on, `seed` that of everything random.

    Returns the measurement: nanoseconds, by number of places, with intervals. Raises PagelabError
    when the probe cannot be run.

    >>> measured = pagelab.measure("syscalls", quick=True)
    >>> list(measured.parts)
    ['syscalls']
    """
    from pagelab.measuring import probe

    return probe.run(
        part,
        _tell if progress else _be_quiet,
        quick=quick,
        allow_tuning=allow_tuning,
        seed=seed,
        cpu=cpu,
        program=[os.fspath(word) for word in program] if program else None,
    )


def check(
    designs: Iterable[Design | str] | None = None,
    *,
    machine: MachineBase | str | Sequence[MachineBase | str] = "dpt-paper",
    pages: str | Sequence[str] | None = None,
    seed: int | None = None,
    build: bool = True,
    heat_map: bool = False,
    progress: bool = False,
) -> list[jobs_.Simulation]:
    """Raises UsageError where `compare` would, without running anything; else what it would run.

    With `build`, also where one of its designs would be left without a result, since its machine
    cannot be built.

    >>> check(["radix:levle=5"])
    Traceback (most recent call last):
    ...
    pagelab.errors.UsageError: dpt-paper with radix.levle=5: ... (did you mean levels?)
    """
    say = tell_once if progress else _be_quiet
    first = ["heat_map=true"] if heat_map else []
    simulations = _simulations({}, designs, machine, pages, seed, say, first)
    for one in simulations if build else []:
        try:
            _core.build(one.design, one.machine, one.overrides)
        except _core.Error as error:
            said = str(error).removeprefix(f"{one.design}: ")
            raise UsageError(f"{one.title or one.label}: {said}") from error
    return simulations


def _simulations(
    described: dict[str, Any],
    designs: Iterable[Design | str] | None,
    machine: MachineBase | str | Sequence[MachineBase | str],
    pages: str | Sequence[str] | None,
    seed: int | None,
    say: Callable[[str], None],
    first: Sequence[str] = (),
) -> list[jobs_.Simulation]:
    """One job a machine, design and page size; each machine is checked before anything starts."""
    given = [machine] if isinstance(machine, MachineBase | str) else list(machine)
    machines = [one if isinstance(one, MachineBase) else MachineBase(one) for one in given]
    if not machines:
        raise UsageError("no machine is named: pagelab list machines")
    sizes = [pages] if isinstance(pages, str) else pages
    chosen = design_.chosen(designs, [pages_.parse(size) for size in sizes] if sizes else None)
    for one in machines:
        # Before `here` is measured, which takes minutes.
        one.check()
    made = []
    names = set()
    for one in machines:
        file = one.file(say)
        for design in chosen:
            keys = [*first, *one.changes, *([f"seed={seed}"] if seed is not None else [])]
            keys += design.overrides
            name = design_.check(file, keys)["name"]
            title = f"{design.title} on {one.base}" if len(machines) > 1 else design.title
            grows = growth.may_grow(one.base, file, keys)
            made.append(
                jobs_.Simulation(design.label, design.name, file, keys, described, title, grows)
            )
        if name in names:
            raise UsageError(f"two machines are called {name}: their `name` has to tell them apart")
        names.add(name)
    return made


def _source(source: Source | Recording | Path_ | Sequence[Path_], copies: int) -> Source:
    if isinstance(source, Recording):
        source = source.trace
    if isinstance(source, Programs):
        return at_once(*source.programs, copies=copies)
    if isinstance(source, Trace | Workload):
        return at_once(source, copies=copies)
    assert isinstance(source, str | os.PathLike)
    return at_once(Trace(source), copies=copies)


def _name(source: Source, recorded: Recording | None) -> str:
    if recorded is not None and recorded.command:
        return Path(recorded.command[0]).name
    return source.name


def _runs(
    name: str, recorded: Recording | None, ended: list[Run | Failure], *, interrupted: bool
) -> list[Run]:
    """The runs that there are; raises PagelabError when there is none."""
    runs = [run for run in ended if isinstance(run, Run)]
    if runs:
        return runs
    # An error in the source is one for every design.
    what = "; ".join(dict.fromkeys(run.error for run in ended if isinstance(run, Failure)))
    if interrupted:
        raise InterruptedRunError(what)
    if recorded is None:
        raise PagelabError(what)
    raise RecordingError(f"{name}: {what} ({summary(recorded)})")


# The sender does not wait for these long.
_HURRYING = (signal.SIGTERM, signal.SIGHUP)


def _hurry(recorded: Recording | None) -> int | None:
    """The signal that has ended a recording and leaves little time for the rest.

    Ctrl-C asks for the answer so far where there is one while the program runs, of a sample.
    Elsewhere it ends the recording, and a second one the simulation.
    """
    if recorded is None:
        return None
    by, so_far = recorded.ended_by, recorded.window.get("sample")
    return by if by in _HURRYING or (by == signal.SIGINT and so_far) else None


def _shares(runs: list[Run], recorded: Recording | None) -> list[str]:
    """Simulated share of runs that were stopped, in words."""
    shares = [run.host["share"] for run in runs if "share" in run.host]
    if not shares:
        return []
    whole = "there is to simulate" if recorded is None else "was recorded"
    # They are compared over what all have run.
    return [f"Simulated was {units.percent(min(shares))} of what {whole}"]


def _check_alike(runs: list[Run]) -> None:
    """Raises PagelabError when runs that saw all of the source did not see the same."""
    seen = {run.accesses + run.warm_up_accesses for run in runs if run.complete}
    if len(seen) > 1:
        each = ", ".join(f"{run.design} {run.accesses:,}" for run in runs if run.complete)
        raise PagelabError(
            "an error in pagelab: designs have come to the end of the same source after different "
            f"numbers of accesses ({each}), so that they cannot be compared. Please report it, "
            "with the source; unless that has changed meanwhile"
        )


@contextmanager
def _watched(
    progress: bool, *, shared: bool = False
) -> Iterator[tuple[Display, jobs_.Stop, Callable[[str], None]]]:
    """Shows progress and tells what happens where that is wanted; Ctrl-C becomes a wish to stop."""
    console = Console(stderr=True)
    with jobs_.stoppable() as stop, display(console, quiet=not progress, shared=shared) as meters:
        yield meters, stop, _tell if progress else _be_quiet


def _tell(line: str) -> None:
    Console(stderr=True).print(f"pagelab: {line}", highlight=False, markup=False)


@functools.cache
def tell_once(line: str) -> None:
    """Warnings of `check` about a machine are not said again by `compare`."""
    _tell(line)


def _be_quiet(_: str) -> None:
    pass


def _host() -> dict[str, Any]:
    """The machine that simulated: no result of the simulation is changed by it."""
    processor = kind.processor()
    return {
        "cpu": processor.name,
        "hypervisor": processor.is_virtual,
        "processors": os.cpu_count(),
        "kernel": f"{platform.system()} {platform.release()}",
        **({"transparent_hugepage": setting} if (setting := advice.huge_pages()) else {}),
    }
