"""`pagelab compare`: the main job, from a program to a table and a report."""

import shlex
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from pagelab import api, frames, live, recording, store, units
from pagelab import sites as whose
from pagelab import window as window_
from pagelab.cli import complete, options
from pagelab.design import Design
from pagelab.errors import InterruptedRunError, UsageError, runs_a_program
from pagelab.recorded import summary
from pagelab.results import Comparison, Recording
from pagelab.sources import Source
from pagelab.table import show
from pagelab.window import Window

_Program = Annotated[
    list[str] | None, typer.Argument(metavar="-- PROGRAM ARGS", help="What to run.")
]
_Designs = Annotated[
    list[str] | None,
    typer.Option(
        "--designs",
        "-d",
        help="Comma-separated, or all; every page table if not given.",
        autocompletion=complete.designs,
    ),
]
_Seconds = Annotated[
    float | None,
    typer.Option(
        "--time",
        min=1,
        help="End PROGRAM after so many seconds, and go on; after 120 where pieces are taken.",
    ),
]
_Precision = Annotated[
    float,
    typer.Option(
        min=0,
        metavar="PERCENT",
        help="Of pieces: end PROGRAM, after 30 s, when speeds are known to so many percent.",
    ),
]
_FollowExec = Annotated[
    bool,
    typer.Option(
        "--follow-exec/--no-follow-exec", help="Also record programs that PROGRAM executes."
    ),
]
_HeatMap = Annotated[
    bool,
    typer.Option(
        "--heat-map/--no-heat-map", help="Count misses by address and time, for the report."
    ),
]
_KeepTrace = Annotated[
    bool, typer.Option("--keep-trace", help="Keep the recorded trace in the result directory.")
]
_Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="Designs simulated at once.")
]


@runs_a_program
def compare(
    program: _Program = None,
    trace: options.Traces = None,
    workload: options.Workloads = None,
    copies: options.Copies = 1,
    designs: _Designs = None,
    machine: options.Machines = None,
    pages: options.Pages = None,
    thp: options.Thp = False,
    system: options.System = None,
    changes: options.Set = None,
    buddyinfo: options.Buddyinfo = None,
    seed: options.Seed = None,
    skip: options.Skip = None,
    limit: options.Limit = None,
    sample: options.Sample = None,
    in_instructions: options.InInstructions = False,
    warm_up: options.WarmUp = None,
    sampled: options.Sampled = False,
    full: options.Full = False,
    seconds: _Seconds = None,
    precision: _Precision = 1.0,
    windows: options.Windows = None,
    follow_exec: _FollowExec = True,
    code: options.Code = True,
    sites: options.Sites = False,
    heat_map: _HeatMap = True,
    qemu: options.Qemu = None,
    cpu: options.Cpu = None,
    out: options.Out = None,
    keep_trace: _KeepTrace = False,
    jobs: _Jobs = None,
    as_json: options.Json = False,
    export: options.Export = None,
    quiet: options.IsQuiet = False,
) -> None:
    """Say what each page-table design would do to a program.

    Records PROGRAM (or takes a trace or workload), simulates it under every design, prints a
    table and writes report.html, result.json and result.parquet into a result directory. Of a long
    PROGRAM pieces are taken, and it is ended when they say enough (see --full). Ctrl-C, as SIGTERM,
    ends the program or the simulation and compares what there is.

    Exits with the program's own status; 125 where pagelab fails, 126 or 127 where PROGRAM cannot be
    run or is not there, 130 (SIGTERM: 143) where the simulation was stopped.
    """
    store.check(out)  # First: measuring the machine may take minutes.
    window = window_.parse(skip, limit, sample, in_instructions, warm_up)
    chosen = options.with_systems(options.designs(designs), system)
    sizes = options.page_sizes(pages, thp)
    if program:
        window = _part(window, chosen, full=full)
    asked, name = _given(
        program, trace, workload, window, sampled=sampled, full=full, windows=windows, sites=sites
    )
    machine = machine or options.usual_machine(asked, quiet=quiet)
    machines = options.fragmented(options.machines(machine, changes), buddyinfo, quiet=quiet)
    # A wrong key, or a design that comes to nothing, is said before the program runs.
    on: dict[str, Any] = {"machine": machines, "pages": sizes, "seed": seed, "heat_map": heat_map}
    how = {"follow_exec": follow_exec, "code": code, "sites": sites, "qemu": qemu, "cpu": cpu}
    work = api.check(chosen, build=bool(program), progress=not quiet, **on)
    directory = store.directory(out, name)
    with store.nothing_left_of(directory), ExitStack() as stack:
        file, following = directory / f"{name}.trace", None
        if isinstance(asked, list):
            if live.can_follow(work, copies, jobs):
                following = stack.enter_context(live.Following(work, window, precision / 100))
            asked = _record(
                asked,
                file,
                window,
                to_stderr=as_json or export is not None,
                quiet=quiet,
                **how,
                seconds=120 if seconds is None and window.sample else seconds,
                following=following,
            )
            window = window.of_what_was_recorded
        try:
            comparison = api.compare(
                asked,
                chosen,
                **on,
                copies=copies,
                window=window,
                jobs=jobs,
                progress=not quiet,
                following=following,
            )
            keep_trace |= comparison.interrupted  # It has cost more than the simulation.
        finally:
            if program and not keep_trace:
                file.unlink(missing_ok=True)
        shown = partial(_show, comparison, rest=file, as_json=as_json, export=export, quiet=quiet)
        options.save_and_show(lambda: comparison.save(directory), shown)
    _leave(comparison)


def _given(
    program: list[str] | None,
    trace: list[Path] | None,
    workload: list[str] | None,
    window: Window,
    *,
    sampled: bool,
    full: bool,
    windows: int | None,
    sites: bool,
) -> tuple[Source | Recording | list[str], str]:
    """A program that is still to be recorded, or a source, and its name."""
    if bool(program) == bool(trace or workload):
        raise UsageError("give one of -- PROGRAM and --trace or --workload")
    if sites and not program:
        raise UsageError("--sites is for -- PROGRAM; a trace has them of `pagelab record --sites`")
    if program:
        if sampled or windows is not None:
            raise UsageError("--sampled and --windows are for a --workload")
        recording.find(program[0])
        return program, Path(program[0]).name
    source = options.sources(trace, workload, options.windows(sampled, full, windows))
    source.describe(window)
    options.tell_of_cut(trace or [])
    return source, source.name


def _part(window: Window, designs: list[Design] | None, *, full: bool) -> Window:
    """The part of a program to take: pieces of all of it, unless another is asked for.

    Systems differ in what they do after a fork, and in what leaves memory, which pieces miss.
    """
    whole = any(one.system for one in designs or [])
    if full and (window.sample or window.limit):
        raise UsageError("--full takes every access: give it without --sample, --limit")
    if full or whole or window.sample or window.limit or window.warm_up:
        return api.bounded(window)
    pieces = window_.OF_PROGRAMS
    return replace(window, sample=pieces.sample, thinning=pieces.thinning)


def _record(
    program: list[str], file: Path, window: Window, *, to_stderr: bool, quiet: bool, **how: Any
) -> Recording:
    with recording.stdout_to_stderr(when=to_stderr):
        recorded = api.record(program, file, window=window, progress=not quiet, **how)
    if not quiet:
        text = f"pagelab: {summary(recorded)}"
        Console(stderr=True).print(text, highlight=False, markup=False)
    return recorded


def _show(
    comparison: Comparison,
    page: Path | None,
    *,
    rest: Path,
    as_json: bool,
    export: str | None,
    quiet: bool,
) -> None:
    """Prints what was found; it may be a part only of `rest`, a recording."""
    if export:
        typer.echo(frames.csv(comparison.to_arrow()), nl=False)
        return
    if as_json:
        typer.echo(comparison.model_dump_json(by_alias=True, indent=1))
        return
    show(comparison, Console(), quiet=quiet)
    if gains := whose.gains(comparison):
        whose.show(gains, Console())
    if page is None:
        return
    typer.echo(f"\nReport: {page}")
    if comparison.interrupted and rest.exists():
        size = units.size(rest.stat().st_size)
        typer.echo(f"All of it: pagelab compare --trace {shlex.quote(str(rest))} ({size})")
    if comparison.command and {run.pages for run in comparison.runs} == {"4K"}:
        program = shlex.join(comparison.command)
        typer.echo(f"Larger pages: pagelab compare --pages 4K,2M -- {program}")
    if any(run.lines for run in comparison.runs):
        typer.echo(f"Lines that miss: pagelab annotate {shlex.quote(str(page.parent))}")


def _leave(comparison: Comparison) -> None:
    """Exits as the comparison went, and as the program did."""
    if comparison.interrupted:
        raise typer.Exit(InterruptedRunError.exit_code)
    options.check_ended(comparison)
    if comparison.recording is not None:
        recording.check(comparison.recording)
        raise typer.Exit(comparison.recording.exit_status)
