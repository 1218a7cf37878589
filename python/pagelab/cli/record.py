"""`pagelab record`: a program's accesses and memory system calls into a trace."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pagelab import jobs, recording, units
from pagelab.cli import options
from pagelab.progress import display


def record(
    program: Annotated[list[str], typer.Argument(metavar="-- PROGRAM ARGS", help="What to run.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The trace file to write.")],
    skip: options.Skip = None,
    limit: options.Limit = None,
    sample: options.Sample = None,
    follow_exec: Annotated[
        bool, typer.Option("--follow-exec", help="Also record programs that it executes.")
    ] = False,
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Record what a program does to memory.

    Exits with the program's own status; 125 when pagelab itself fails, 126 when the program
    cannot be run and 127 when there is none.
    """
    request = recording.Request(
        program=program,
        output=out,
        follow_exec=follow_exec,
        **options.window(skip, limit, sample),
    )
    console = Console(stderr=True)
    with jobs.stoppable() as stop, display(console, quiet=quiet, shared=True) as meters:
        outcome = recording.record(request, meters, stop)
    if as_json:
        typer.echo(outcome.model_dump_json(indent=1))
    elif not quiet:
        size = units.size(out.stat().st_size)
        console.print(f"pagelab: {recording.summary(outcome)} in {out} ({size})", highlight=False)
    raise typer.Exit(outcome.exit_status)
