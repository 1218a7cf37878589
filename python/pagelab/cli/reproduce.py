"""`pagelab reproduce`: published figures, computed again, with the papers' numbers beside ours."""

import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import pagelab
from pagelab import files, units
from pagelab import store as results
from pagelab.cli import executing
from pagelab.cli.options import IsQuiet, Json
from pagelab.errors import PagelabError, UsageError, unknown
from pagelab.measuring import result
from pagelab.reproduce import page, paper, show
from pagelab.reproduce.compute import Found, compute
from pagelab.reproduce.kinds import KINDS
from pagelab.reproduce.paper import Changes

ALL = "all"
_SIMULATIONS = "Simulations"
_MACHINE = "Measurements of this machine"
_Footprint = Annotated[
    float | None,
    typer.Option(
        "--footprint",
        min=0.01,
        help="GiB of every workload, instead of its own.",
        rich_help_panel=_SIMULATIONS,
    ),
]
_Copies = Annotated[
    int,
    typer.Option(
        "--copies",
        min=1,
        help="Run each workload so many times at once.",
        rich_help_panel=_SIMULATIONS,
    ),
]
_Measured = Annotated[
    Path | None,
    typer.Option(
        "--measured",
        help="Redraw this result of `pagelab measure`; measure nothing.",
        rich_help_panel=_MACHINE,
    ),
]
_AllowTuning = Annotated[
    bool,
    typer.Option(
        "--allow-tuning",
        help="Allow changes of kernel settings (as root); each is undone.",
        rich_help_panel=_MACHINE,
    ),
]


def reproduce(
    papers: Annotated[
        list[str],
        typer.Argument(
            metavar="PAPER[:FIGURE]...",
            help=f"{', '.join(paper.names())}, or all; a figure of it: dpt:fig13, or dpt fig13.",
        ),
    ],
    again: Annotated[
        bool, typer.Option("--again", help="Compute anew what is kept of an earlier run.")
    ] = False,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Whole programs rather than samples; takes hours.",
            rich_help_panel=_SIMULATIONS,
        ),
    ] = False,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a key of every machine: ablation.",
            rich_help_panel=_SIMULATIONS,
        ),
    ] = None,
    footprint: _Footprint = None,
    copies: _Copies = 1,
    measured: _Measured = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure less.", rich_help_panel=_MACHINE)
    ] = False,
    allow_tuning: _AllowTuning = False,
    store: executing.StoreFolder = executing.STORE,
    jobs: executing.Jobs = None,
    memory: executing.Memory = None,
    dask: executing.Dask = None,
    slurm: executing.Slurm = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The page's folder.", show_default=False)
    ] = None,
    as_json: Json = False,
    quiet: IsQuiet = False,
) -> None:
    """Compute published figures again, with the papers' numbers beside ours.

    Results are kept in --store: a run that was broken off goes on where it was, and figures share
    what they need. A figure that this machine cannot compute says why, and the others go on.
    """
    chosen = _chosen(papers)
    if measured is not None:
        try:
            result.load(measured)
        except PagelabError as error:
            raise UsageError(f"--measured: {error}") from error
    asked = Changes(full, tuple(changes or []), footprint, copies, measured, quick, allow_tuning)
    folder = out or Path("pagelab-results") / f"reproduce-{_name(chosen)}"
    results.check(folder)
    started = time.monotonic()
    where = executing.Where(store, jobs, memory, dask, slurm)
    with executing.how(where, again="all" if again else "", quiet=quiet) as how:
        found = compute(chosen, asked, how)
    written = folder / "report.html"
    facts = [
        ("programs", "whole" if full else "sampled"),
        *([("changed", ", ".join(changes))] if changes else []),
        *([("copies at once", str(copies))] if copies > 1 else []),
        *([("footprint", f"{footprint:g} GiB")] if footprint else []),
        ("took", units.duration(time.monotonic() - started)),
        ("pagelab", pagelab.__version__),
    ]
    page.write(found, facts, written)
    if as_json:
        typer.echo(json.dumps(_json(found), indent=1))
    else:
        _show(found, written)
    if not any(outcome.rows or outcome.answers for one in found for outcome in one.outcomes):
        raise typer.Exit(1)


def _chosen(names: list[str]) -> list[paper.Paper]:
    """The papers and figures of the command line, in its order."""
    known = paper.names()
    if names == [ALL]:
        names = known
    wanted: dict[str, list[str]] = {}
    last = ""
    for name in names:
        head, colon, figure = name.partition(":")
        if head in known:
            last = head
            wanted.setdefault(head, []).extend([figure] if colon else [])
        elif last and not colon:
            wanted[last].append(head)
        elif head == ALL:
            raise UsageError("`all` stands for every paper: give it alone")
        else:
            raise unknown("paper", head, [*known, ALL])
    folder = files.experiments()
    return [paper.load(folder / name, figures, KINDS) for name, figures in wanted.items()]


def _name(chosen: list[paper.Paper]) -> str:
    return "+".join(one.name for one in chosen) if len(chosen) < len(paper.names()) else ALL


def _show(found: list[Found], written: Path) -> None:
    console = Console()
    for one in found:
        console.print(f"[bold]{one.paper.common.title}[/bold]\n", highlight=False)
        for note in one.paper.common.notes:
            console.print(f"{note}\n", style="dim", highlight=False)
        for outcome in one.outcomes:
            show.show(outcome, console)
    for one in found:
        counts = page.verdicts(one.outcomes)
        console.print(f"{one.paper.name}: {counts or 'no claims'}", highlight=False)
    typer.echo(f"Report: {written}")


def _json(found: list[Found]) -> list[dict[str, object]]:
    return [
        {"paper": one.paper.name} | outcome.as_json() for one in found for outcome in one.outcomes
    ]
