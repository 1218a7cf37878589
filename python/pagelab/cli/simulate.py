"""`pagelab simulate`: one design over one source."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pagelab import api, store
from pagelab import window as window_
from pagelab.cli import complete, options
from pagelab.errors import InterruptedRunError, UsageError
from pagelab.machine import manager as manager_
from pagelab.results import Comparison
from pagelab.table import show


def simulate(
    design: Annotated[
        list[str],
        typer.Option(
            "--design", "-d", help="The page-table design.", autocompletion=complete.design
        ),
    ],
    traces: Annotated[
        list[Path] | None, typer.Argument(metavar="[TRACE]...", help="Same as --trace.")
    ] = None,
    trace: options.Traces = None,
    workload: options.Workloads = None,
    copies: options.Copies = 1,
    machine: options.Machine = None,
    pages: options.Pages = None,
    thp: options.Thp = False,
    changes: options.Set = None,
    buddyinfo: options.Buddyinfo = None,
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
    chosen = options.designs(design)
    sizes = options.page_sizes(pages, thp)
    if len(chosen or []) != 1 or len(sizes or []) > 1:
        raise UsageError("simulate runs one design; pagelab compare runs several")
    trace = [*(traces or []), *(trace or [])]
    source = options.sources(trace, workload, options.windows(sampled, full, windows))
    machine = machine or options.usual_machine(source, quiet=quiet)
    machines = options.machines(machine, [*(changes or []), *manager_(manager)])
    if len(machines) != 1:
        raise UsageError("simulate runs on one machine; pagelab compare takes several")
    machines = options.fragmented(machines, buddyinfo, quiet=quiet)
    options.tell_of_cut(trace)
    window = window_.parse(skip, limit, sample, in_instructions, warm_up)
    if out is not None:
        store.check(out)
    comparison = api.compare(
        source,
        chosen,
        machine=machines,
        pages=sizes,
        copies=copies,
        seed=seed,
        window=window,
        progress=not quiet,
    )
    show_ = partial(_show, comparison, as_json=as_json, quiet=quiet)
    options.save_and_show(lambda: comparison.save(out) if out is not None else None, show_)
    if comparison.interrupted:
        raise typer.Exit(InterruptedRunError.exit_code)
    options.check_ended(comparison)


def _show(comparison: Comparison, page: Path | None, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        typer.echo(comparison.runs[0].model_dump_json(by_alias=True, indent=1))
        return
    show(comparison, Console(), quiet=quiet)
    if page is not None:
        typer.echo(f"Saved in {page.parent}")
