"""The command line: a module a command."""

from typing import Annotated

import typer

import pagelab
from pagelab.cli import compare, doctor, listing, record, report, reproduce, simulate, trace
from pagelab.linux import cli as linux
from pagelab.measure import cli as measuring

app = typer.Typer(
    name="pagelab",
    help="What virtual memory costs a program, and what it would cost under another design.",
    epilog="Start with:  pagelab compare -- PROGRAM ARGS",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
)

# Options end where the program begins, so that the program keeps its own.
_PROGRAM_FOLLOWS = {"allow_interspersed_args": False}

app.command(
    context_settings=_PROGRAM_FOLLOWS,
    epilog="Example:  pagelab compare --designs radix,dpt -- sqlite3 my.db '.read query.sql'",
)(compare.compare)
app.command(
    context_settings=_PROGRAM_FOLLOWS,
    epilog="Example:  pagelab record -o sort.trace --limit 200M -- sort -n numbers.txt",
)(record.record)
app.command(epilog="Example:  pagelab simulate --trace sort.trace --design dpt --json")(
    simulate.simulate
)
app.add_typer(trace.app, name="trace")
app.add_typer(linux.app, name="linux")
app.command("list", epilog="Example:  pagelab list designs")(listing.list_)
app.command(epilog="Example:  pagelab report pagelab-results/sort-20260102-030405")(report.report)
app.command(epilog="Example:  pagelab doctor")(doctor.doctor)
app.command(epilog="Example:  pagelab measure --quick")(measuring.measure)
app.command(epilog="Example:  pagelab validate")(measuring.validate)
app.add_typer(reproduce.app, name="reproduce")


@app.command(epilog="Example:  pagelab version")
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
