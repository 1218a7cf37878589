"""`pagelab compare`: the main job, from a program to a table and a report."""

import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pagelab import api, recording, store, units
from pagelab import window as window_
from pagelab.cli import complete, options
from pagelab.errors import InterruptedRunError, UsageError, runs_a_program
from pagelab.forecast import Forecast
from pagelab.jobs import available_processors
from pagelab.recorded import summary
from pagelab.results import Comparison, Recording
from pagelab.sources import Source
from pagelab.table import show
from pagelab.window import Window


@runs_a_program
def compare(
    program: Annotated[
        list[str] | None, typer.Argument(metavar="-- PROGRAM ARGS", help="What to run.")
    ] = None,
    trace: options.Traces = None,
    workload: options.Workloads = None,
    copies: options.Copies = 1,
    designs: Annotated[
        list[str] | None,
        typer.Option(
            "--designs",
            "-d",
            help="Comma-separated, or all; every page table if not given.",
            autocompletion=complete.designs,
        ),
    ] = None,
    machine: options.Machines = None,
    pages: options.Pages = None,
    thp: options.Thp = False,
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
    seconds: Annotated[
        float | None,
        typer.Option("--time", min=1, help="End PROGRAM after so many seconds, and go on."),
    ] = None,
    windows: options.Windows = None,
    follow_exec: Annotated[
        bool,
        typer.Option(
            "--follow-exec/--no-follow-exec", help="Also record programs that PROGRAM executes."
        ),
    ] = True,
    code: options.Code = True,
    heat_map: Annotated[
        bool,
        typer.Option(
            "--heat-map/--no-heat-map", help="Count misses by address and time, for the report."
        ),
    ] = True,
    qemu: options.Qemu = None,
    cpu: options.Cpu = None,
    out: options.Out = None,
    keep_trace: Annotated[
        bool, typer.Option("--keep-trace", help="Keep the recorded trace in the result directory.")
    ] = False,
    parallel: options.Parallel = None,
    dask: options.Dask = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Designs simulated at once.")
    ] = None,
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Say what each page-table design would do to a program.

    Records PROGRAM (or takes a trace or workload), simulates it under every design, prints a
    table and writes report.html, result.json and result.parquet into a result directory.

    Ctrl-C while recording ends the program and compares what was recorded; Ctrl-C while
    simulating reports what was simulated, and so does SIGTERM within seconds. All mark the result
    as incomplete.

    Exits with the program's own status; 125 when pagelab itself fails, 126 when the program
    cannot be run, 127 when there is none, 130 (SIGTERM: 143) when the simulation was stopped.
    """
    if bool(program) == bool(trace or workload):
        raise UsageError("give one of -- PROGRAM and --trace or --workload")
    if program and (sampled or full or windows is not None):
        raise UsageError("--sampled, --full and --windows are for a --workload")
    # First: measuring the machine may take minutes.
    store.check(out)
    window = window_.parse(skip, limit, sample, in_instructions, warm_up)
    chosen = options.designs(designs)
    sizes = options.page_sizes(pages, thp)
    source: Source | Recording
    if program:
        recording.find(program[0])
        window = api.bounded(window)
        name = Path(program[0]).name
    else:
        sampling = options.windows(sampled, full, windows)
        source = options.sources(trace, workload, sampling)
        source.describe(window)
        options.tell_of_cut(trace or [])
        name = source.name
    machine = machine or options.usual_machine(program or source, quiet=quiet)
    machines = options.machines(machine, changes)
    machines = options.fragmented(machines, buddyinfo, quiet=quiet)
    # A wrong key is said before the program runs, and so is a design that will come to nothing.
    build = bool(program)
    work = api.check(
        chosen, machine=machines, pages=sizes, seed=seed, build=build, progress=not quiet
    )
    directory = store.directory(out, name)
    with store.nothing_left_of(directory):
        if program:
            file = directory / f"{name}.trace"
            at_once = jobs or parallel or available_processors()
            record = partial(
                api.record,
                follow_exec=follow_exec,
                code=code,
                qemu=qemu,
                cpu=cpu,
                seconds=seconds,
                forecast=Forecast(work, window, at_once),
            )
            source = _record(record, program, file, window, as_json=as_json, quiet=quiet)
            window = window.of_what_was_recorded
        try:
            comparison = api.compare(
                source,
                chosen,
                machine=machines,
                pages=sizes,
                copies=copies,
                seed=seed,
                window=window,
                heat_map=heat_map,
                jobs=jobs,
                parallel=parallel,
                dask=dask,
                progress=not quiet,
            )
            # It has cost more than the simulation.
            keep_trace |= comparison.interrupted
        finally:
            if program and not keep_trace:
                file.unlink(missing_ok=True)
        rest = file if program and comparison.interrupted else None
        show_ = partial(_show, comparison, rest=rest, as_json=as_json, quiet=quiet)
        options.save_and_show(lambda: comparison.save(directory), show_)
    _leave(comparison)


def _record(
    record: Callable[..., Recording],
    program: list[str],
    file: Path,
    window: Window,
    *,
    as_json: bool,
    quiet: bool,
) -> Recording:
    with recording.stdout_to_stderr(when=as_json):
        recorded = record(program, file, window=window, progress=not quiet)
    if not quiet:
        text = f"pagelab: {summary(recorded)}"
        Console(stderr=True).print(text, highlight=False, markup=False)
    return recorded


def _show(
    comparison: Comparison, page: Path | None, *, rest: Path | None, as_json: bool, quiet: bool
) -> None:
    """Prints what was found; `rest` is a recording of which it is only a part."""
    if as_json:
        typer.echo(comparison.model_dump_json(by_alias=True, indent=1))
        return
    show(comparison, Console(), quiet=quiet)
    if page is None:
        return
    typer.echo(f"\nReport: {page}")
    if rest is not None:
        size = units.size(rest.stat().st_size)
        typer.echo(f"All of it: pagelab compare --trace {shlex.quote(str(rest))} ({size})")
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
