"""`pagelab record`: a program's accesses and memory system calls into a trace."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pagelab import jobs, recording
from pagelab.cli import options
from pagelab.progress import display


def record(
    program: Annotated[list[str], typer.Argument(metavar="-- PROGRAM ARGS", help="What to run.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The trace file to write.")],
    skip: options.Skip = None,
    limit: options.Limit = None,
    sample: options.Sample = None,
    in_instructions: options.InInstructions = False,
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
    window = options.window(skip, limit, sample, in_instructions)
    console = Console(stderr=True)
    with jobs.stoppable() as stop, display(console, quiet=quiet, shared=True) as meters:
        outcome = recording.record(program, out, window, meters, stop, follow_exec=follow_exec)
    if as_json:
        typer.echo(outcome.model_dump_json(indent=1))
    elif not quiet:
        console.print(f"pagelab: {recording.summary(outcome)}", highlight=False)
    if not stop.wanted:
        recording.check(outcome)
    raise typer.Exit(outcome.exit_status)
