"""`pagelab reproduce`: published figures, a command a paper."""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

import pagelab
from pagelab import units
from pagelab.cli.options import IsQuiet, Json
from pagelab.linux import foliomap as folios
from pagelab.linux.fbmm import report
from pagelab.linux.layout import find
from pagelab.linux.page import Report
from pagelab.measure import cli as measuring
from pagelab.reproduce import figure, page, show
from pagelab.reproduce.compute import compute
from pagelab.reproduce.figure import experiments
from pagelab.reproduce.outcome import Outcome
from pagelab.reproduce.plan import Ablation


class _PaperAndFigure(TyperGroup):
    """Takes `dpt:fig13` for `dpt fig13`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        paper, _, name = args[0].partition(":")
        return super().resolve_command(ctx, [paper, *filter(None, [name]), *args[1:]])


Out = Annotated[Path, typer.Option("--out", "-o", help="Where results are kept between runs.")]
Again = Annotated[
    bool, typer.Option("--again", help="Measure anew what --out has from an earlier run.")
]

app = typer.Typer(
    cls=_PaperAndFigure,
    help="Compute a paper's figures again, with its numbers beside ours.",
    no_args_is_help=True,
)


@app.command()
def dpt(
    figures: Annotated[
        list[str] | None, typer.Argument(help="fig13, ...; all of them if none is named.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Whole programs rather than samples; takes hours.")
    ] = False,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key of every machine: ablation."),
    ] = None,
    footprint: Annotated[
        float | None,
        typer.Option("--footprint", min=0.01, help="GiB of every workload, instead of its own."),
    ] = None,
    copies: Annotated[
        int, typer.Option("--copies", min=1, help="Run each workload so many times at once.")
    ] = 1,
    parallel: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Simulations at once.")
    ] = None,
    out: Out = Path("pagelab-results/reproduce-dpt"),
    as_json: Json = False,
    quiet: IsQuiet = False,
) -> None:
    """The distributed page table (MICRO 2024): Figures 3, 4, 13 to 18 and 20 to 23.

    What was computed is kept in --out, so that a run that was broken off goes on where it was.
    """
    paper = figure.load(experiments() / "dpt", figures or [])
    started = time.monotonic()
    ablation = Ablation(full, tuple(changes or []), footprint, copies)
    outcomes = compute(paper, ablation, parallel, out, quiet=quiet)
    facts = [
        ("machine", f"{paper.system.machine} (pagelab list machines)"),
        ("programs", "whole" if full else "sampled"),
        *([("changed", ", ".join(changes))] if changes else []),
        *([("copies at once", str(copies))] if copies > 1 else []),
        *([("footprint", f"{footprint:g} GiB")] if footprint else []),
        ("took", units.duration(time.monotonic() - started)),
        ("pagelab", pagelab.__version__),
    ]
    written = out / "report.html"
    page.write(paper.system.title, facts, outcomes, written)
    if as_json:
        typer.echo(json.dumps([_json(one) for one in outcomes], indent=1))
        return
    console = Console()
    for one in outcomes:
        show.show(one, console)
    typer.echo(f"Report: {written}")


@app.command()
def foliomap(
    parts: Annotated[
        list[str] | None,
        typer.Argument(help="primitives, contention, ...; all of them if none is named."),
    ] = None,
    again: Again = False,
    out: Out = Path("pagelab-results/reproduce-foliomap"),
    as_json: Json = False,
) -> None:
    """FolioMap (ATC 2024): folio accounting, measured in guests; needs `pagelab linux build`.

    What was measured is kept in --out, so that a run that was broken off goes on where it was.
    """
    _print(folios.reproduce(find(), parts or [], out, _say, again=again), as_json=as_json)


@app.command()
def fbmm(
    parts: Annotated[
        list[str] | None, typer.Argument(help="costs, gups, ...; all of them if none is named.")
    ] = None,
    again: Again = False,
    out: Out = Path("pagelab-results/reproduce-fbmm"),
    as_json: Json = False,
) -> None:
    """FBMM (ATC 2024): memory file systems, measured in guests; needs `pagelab linux build`.

    What was measured is kept in --out, so that a run that was broken off goes on where it was.
    """
    _print(report.reproduce(find(), parts or [], out, _say, again=again), as_json=as_json)


app.command("measuring")(measuring.reproduce_measuring)


def _print(measured: Report, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(measured.data, indent=1))
        return
    typer.echo(measured.markdown)
    typer.echo(f"Report: {measured.path}")


def _say(text: str) -> None:
    Console(stderr=True).print(text, highlight=False, markup=False)


def _json(one: Outcome) -> dict[str, Any]:
    return {
        "figure": one.name,
        "title": one.title,
        "columns": one.columns,
        "rows": one.rows,
        "claims": [
            {
                "says": answer.claim.says,
                "paper": answer.claim.value,
                "here": answer.ours,
                "half_interval": answer.half,
                "off": answer.off,
                "verdict": answer.verdict,
            }
            for answer in one.answers
        ],
        "failures": one.failures,
    }
