"""`pagelab compare`: the main job, from a program to a table and a report."""

import os
import platform
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import pagelab
from pagelab import jobs, recording, store
from pagelab.cli import options
from pagelab.errors import PagelabError, UsageError
from pagelab.progress import display
from pagelab.recording import Window
from pagelab.results import Comparison, Failure, Recording, Run
from pagelab.sources import together
from pagelab.table import show, terminal_table

# Recording everything a long program does would fill the disk: at up to 3 bytes an access this
# is at most 1.5 GB, and a minute or so of simulation a design.
DEFAULT_LIMIT = 500_000_000


def compare(
    program: Annotated[
        list[str] | None, typer.Argument(metavar="-- PROGRAM ARGS", help="What to run.")
    ] = None,
    trace: options.Traces = None,
    workload: options.Workloads = None,
    copies: options.Copies = 1,
    designs: Annotated[
        str | None,
        typer.Option("--designs", "-d", help="Comma-separated, or all; every page table."),
    ] = None,
    machine: options.Machine = "dpt-paper",
    thp: options.Thp = False,
    changes: options.Set = None,
    seed: options.Seed = None,
    skip: options.Skip = None,
    limit: options.Limit = None,
    sample: options.Sample = None,
    in_instructions: options.InInstructions = False,
    warm_up: options.WarmUp = None,
    sampled: options.Sampled = False,
    full: options.Full = False,
    windows: options.Windows = None,
    out: options.Out = None,
    keep_trace: Annotated[
        bool, typer.Option("--keep-trace", help="Keep the recorded trace in the result directory.")
    ] = False,
    parallel: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Designs simulated at once.")
    ] = None,
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Say what each page-table design would do to a program.

    Records PROGRAM (or takes a trace or workload), simulates it under every design, prints a
    table and writes report.html, result.json and result.parquet into a result directory.

    Ctrl-C while recording ends the program and compares what was recorded; Ctrl-C while
    simulating reports what was simulated. Both mark the result as incomplete.

    Exits with the program's own status; 125 when pagelab itself fails, 126 when the program
    cannot be run, 127 when there is none, 130 when it was interrupted.
    """
    if bool(program) == bool(trace or workload):
        raise UsageError("give one of -- PROGRAM and --trace or --workload")
    chosen = options.designs(designs)
    if program and (sampled or full or windows is not None):
        raise UsageError("--sampled, --full and --windows are for a --workload")
    sampling = options.windows(sampled, full, windows)
    window = options.window(skip, limit, sample, in_instructions, warm_up)
    console = Console(stderr=True)
    recorded: Recording | None = None

    if program:
        recording.find(program[0])
        window = replace(window, limit=window.limit or DEFAULT_LIMIT)
        source: dict[str, Any] = {}
    else:
        source = options.sources(trace, workload, window, sampling, copies)
    # Built before recording so that a wrong key is reported at once; recording fills the source.
    work = options.simulations(chosen, machine, changes, source, thp=thp, seed=seed)
    name = Path(program[0]).name if program else Path(str(source["name"])).stem
    directory = store.directory(out, name)
    file = directory / f"{name}.trace"
    with jobs.stoppable() as stop:
        if program:
            recorded = _record(program, file, window, stop, console, as_json=as_json, quiet=quiet)
            source |= together([options.source(file, None, Window())], copies)
    interrupted = stop.wanted
    with jobs.stoppable() as stop, display(console, quiet=quiet) as meters:
        ended = jobs.simulate_all(work, meters, stop, parallel)
    interrupted |= stop.wanted
    if program and not keep_trace:
        file.unlink(missing_ok=True)
    comparison = _comparison(name, program, recorded, window, ended)
    page = store.save(comparison, directory)
    _show(comparison, page, as_json=as_json, quiet=quiet)
    if interrupted:
        raise typer.Exit(130)
    for run in comparison.runs:
        if run.stopped:
            raise PagelabError(f"{run.design} ended after {run.accesses:,} accesses: {run.stopped}")
    if recorded is not None:
        recording.check(recorded)
        raise typer.Exit(recorded.exit_status)


def _record(
    program: list[str],
    file: Path,
    window: Window,
    stop: jobs.Stop,
    console: Console,
    *,
    as_json: bool,
    quiet: bool,
) -> Recording:
    with (
        display(console, quiet=quiet, shared=True) as meters,
        recording.stdout_to_stderr(when=as_json),
    ):
        recorded = recording.record(program, file, window, meters, stop)
    if not quiet:
        console.print(f"pagelab: {recording.summary(recorded)}", highlight=False)
    return recorded


def _comparison(
    name: str,
    program: list[str] | None,
    recorded: Recording | None,
    window: Window,
    ended: list[Run | Failure],
) -> Comparison:
    runs = [run for run in ended if isinstance(run, Run)]
    failures = [run for run in ended if isinstance(run, Failure)]
    if not runs:
        # What is wrong with the source is wrong for every design.
        raise PagelabError("; ".join(dict.fromkeys(failure.error for failure in failures)))
    return Comparison(
        pagelab=pagelab.__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        name=name,
        # Arguments need not be text; JSON must be.
        command=[os.fsencode(word).decode(errors="replace") for word in program or []] or None,
        recording=recorded,
        window=asdict(window),
        host=_host(),
        runs=runs,
        failures=failures,
    )


def _show(comparison: Comparison, page: Path, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        typer.echo(comparison.model_dump_json(by_alias=True, indent=1))
        return
    console = Console()
    if quiet:
        console.print(terminal_table(comparison))
    else:
        show(comparison, console)
    typer.echo(f"\nReport: {page}")


def _host() -> dict[str, Any]:
    """The machine that simulated: it changes how long that took and nothing else."""
    cpu = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                cpu = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return {
        "cpu": cpu,
        "processors": os.cpu_count(),
        "kernel": f"{platform.system()} {platform.release()}",
    }
