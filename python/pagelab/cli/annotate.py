"""`pagelab annotate`: which functions and lines miss."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pagelab import annotating, results
from pagelab import pprof as profiles
from pagelab.cli import options
from pagelab.errors import cannot


def annotate(
    result: Annotated[
        Path, typer.Argument(metavar="RESULT", help="A result.json file or its directory.")
    ],
    design: Annotated[
        str | None, typer.Option("--design", "-d", help="Of this design; the baseline.")
    ] = None,
    by: Annotated[
        str, typer.Option("--by", help="Order by walks, l2, l1 (TLB misses) or faults.")
    ] = "walks",
    top: Annotated[int, typer.Option("--top", min=1, help="Rows of each table.")] = 15,
    folded: Annotated[
        bool,
        typer.Option(
            "--folded", help="Print stacks for a flame graph: flamegraph.pl, inferno, speedscope."
        ),
    ] = False,
    pprof: Annotated[
        Path | None,
        typer.Option("--pprof", metavar="FILE", help="Write a profile for pprof to FILE."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Say which functions and lines of a program miss the TLB, walk and fault.

    RESULT is of a program that was not recorded with --no-code.
    """
    order = annotating.order(by)
    comparison = results.load(result)
    run = annotating.chosen(comparison, design)
    if pprof is not None:
        with cannot("write", pprof):
            pprof.write_bytes(profiles.profile(comparison, run, order))
        return
    if folded:
        for stack in annotating.folded(run, order):
            typer.echo(stack)
        return
    if as_json:
        found = annotating.annotation(comparison, run, order)
        without = {"file", "line", "text", "inlined_into"}
        told = {
            "design": found.design,
            "functions": [row.model_dump(exclude=without) for row in found.functions],
            "lines": [row.model_dump() for row in found.lines],
            "mappings": [row.model_dump() for row in run.mappings],
            "allocation_sites": [row.model_dump() for row in found.allocation_sites],
            "changed_files": found.changed_files,
        }
        typer.echo(json.dumps(told, indent=1))
        return
    annotating.show(comparison, run, Console(), order, top)
