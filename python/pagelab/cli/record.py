"""`pagelab record`: a program's accesses and memory system calls into a trace."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pagelab import api, recording
from pagelab import window as window_
from pagelab.cli import options
from pagelab.errors import UsageError, runs_a_program
from pagelab.recorded import summary


@runs_a_program
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
    code: options.Code = True,
    sites: options.Sites = False,
    qemu: options.Qemu = None,
    cpu: options.Cpu = None,
    defer: Annotated[
        bool,
        typer.Option(
            "--defer",
            help="Make the trace when the program has ended, which is several times sooner.",
        ),
    ] = False,
    keep_words: Annotated[
        bool,
        typer.Option("--keep-words", help="Keep what --defer makes the trace of, OUT.words."),
    ] = False,
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Record what a program does to memory.

    Exits with the program's own status; 125 when pagelab itself fails, 126 when the program
    cannot be run and 127 when there is none.
    """
    if keep_words and not defer:
        raise UsageError("--keep-words is for recordings with --defer")
    window = window_.parse(skip, limit, sample, in_instructions)
    outcome = api.record(
        program,
        out,
        window=window,
        follow_exec=follow_exec,
        code=code,
        sites=sites,
        qemu=qemu,
        cpu=cpu,
        defer=defer,
        keep_words=keep_words,
        progress=not quiet,
    )
    if as_json:
        typer.echo(outcome.model_dump_json(indent=1))
    elif not quiet:
        text = f"pagelab: {summary(outcome)}"
        Console(stderr=True).print(text, highlight=False, markup=False)
    # To stop the program is to want what there is of it; a trace that was stopped while it was
    # made lacks some of that, and its words are kept.
    if not outcome.interrupted or outcome.words:
        recording.check(outcome)
    raise typer.Exit(outcome.exit_status)
