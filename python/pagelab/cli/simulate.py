"""`pagelab simulate`: one design over one source."""

from typing import Annotated

import typer
from rich.console import Console

from pagelab import jobs, results, store
from pagelab.cli import options
from pagelab.errors import PagelabError, UsageError
from pagelab.progress import display
from pagelab.results import Failure
from pagelab.table import show


def simulate(
    design: Annotated[str, typer.Option("--design", "-d", help="The page-table design.")],
    trace: options.Traces = None,
    workload: options.Workloads = None,
    copies: options.Copies = 1,
    machine: options.Machine = "dpt-paper",
    thp: options.Thp = False,
    changes: options.Set = None,
    manager: options.Manager = None,
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
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Simulate one page-table design over traces or built-in workloads.

    Several programs run at once, each on a core and in an address space of its own.
    """
    sampling = options.windows(sampled, full, windows)
    window = options.window(skip, limit, sample, in_instructions, warm_up)
    source = options.sources(trace, workload, window, sampling, copies)
    chosen = options.designs(design)
    if len(chosen) != 1:
        raise UsageError("simulate runs one design; pagelab compare runs several")
    work = options.simulations(
        chosen, machine, changes, source, thp=thp, seed=seed, memory_manager=manager
    )
    directory = store.directory(out, chosen[0].label) if out else None
    with jobs.stoppable() as stop, display(Console(stderr=True), quiet=quiet) as meters:
        [run] = jobs.simulate_all(work, meters, stop)
    if isinstance(run, Failure):
        raise PagelabError(f"{run.design}: {run.error}")
    comparison = results.of_run(run)
    if directory:
        store.save(comparison, directory)
    if as_json:
        typer.echo(run.model_dump_json(by_alias=True, indent=1))
    else:
        show(comparison, Console())
        if directory:
            typer.echo(f"Saved in {directory}")
    if stop.wanted:
        raise typer.Exit(130)
    if run.stopped:
        raise PagelabError(f"{run.design} ended after {run.accesses:,} accesses: {run.stopped}")
