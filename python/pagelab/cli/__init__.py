"""The command line: a module a command, imported when the command is given."""

from typing import Annotated

import typer

import pagelab
from pagelab.cli.lazy import Lazy, group

COMMANDS = {
    "compare": Lazy(
        "pagelab.cli.compare",
        "compare",
        "Example:  pagelab compare --designs radix,dpt -- sqlite3 my.db '.read query.sql'",
        program_follows=True,
    ),
    "advise": Lazy(
        "pagelab.cli.advise",
        "advise",
        "Example:  pagelab advise -- xz -9 -k -c linux.tar",
        program_follows=True,
    ),
    "run": Lazy(
        "pagelab.cli.advise",
        "run",
        "Example:  pagelab run --advice pagelab-results/advise-xz-20260102-030405/advice.json "
        "-- xz -9 FILE",
        program_follows=True,
    ),
    "record": Lazy(
        "pagelab.cli.record",
        "record",
        "Example:  pagelab record -o sort.trace --limit 200M -- sort -n numbers.txt",
        program_follows=True,
    ),
    "simulate": Lazy(
        "pagelab.cli.simulate",
        "simulate",
        "Example:  pagelab simulate --trace sort.trace --design dpt --json",
    ),
    "trace": Lazy("pagelab.cli.trace", "app"),
    "linux": Lazy("pagelab.cli.agree", "app"),
    "list": Lazy("pagelab.cli.listing", "list_", "Example:  pagelab list designs"),
    "report": Lazy(
        "pagelab.cli.report",
        "report",
        "Example:  pagelab report pagelab-results/sort-20260102-030405",
    ),
    "annotate": Lazy(
        "pagelab.cli.annotate",
        "annotate",
        "Example:  pagelab annotate pagelab-results/sort-20260102-030405",
    ),
    "doctor": Lazy("pagelab.cli.doctor", "doctor", "Example:  pagelab doctor"),
    "measure": Lazy("pagelab.cli.measure", "measure", "Example:  pagelab measure --quick"),
    "validate": Lazy(
        "pagelab.cli.validate",
        "validate",
        "Example:  pagelab validate --suite --only random-updates,sort",
        program_follows=True,
    ),
    "reproduce": Lazy(
        "pagelab.cli.reproduce", "reproduce", "Example:  pagelab reproduce dpt:fig13"
    ),
    "sweep": Lazy("pagelab.cli.sweep", "sweep", "Example:  pagelab sweep tlb-sizes.toml --dry-run"),
    "diff": Lazy(
        "pagelab.cli.diff",
        "diff",
        "Example:  pagelab diff --fail-above 2% pagelab-results/before pagelab-results/after",
    ),
    "version": Lazy("pagelab.cli", "version", "Example:  pagelab version"),
}

app = typer.Typer(
    name="pagelab",
    cls=group(COMMANDS),
    help="What virtual memory costs a program, and what it would cost under another design.",
    epilog="Start with:  pagelab compare -- PROGRAM ARGS",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def version() -> None:
    """Print the version."""
    typer.echo(f"pagelab {pagelab.__version__}")


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def _main(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass
