"""`pagelab report`: draws results again."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pagelab import report as reports
from pagelab import results
from pagelab.advising import page as advice_page
from pagelab.advising import saved
from pagelab.cli.options import IsQuiet
from pagelab.errors import UsageError, cannot
from pagelab.table import show, show_answer


def report(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULT...", help="result.json or advice.json files, or their folders."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The HTML file (one result only).")
    ] = None,
    quiet: IsQuiet = False,
) -> None:
    """Draw report.html of earlier results again, beside each of them."""
    if out is not None and len(files) != 1:
        raise UsageError("--out takes one result; without it each report goes beside its result")
    console = Console()
    for file in files:
        if saved.is_advice(file):
            folder = file if file.is_dir() else file.parent
            typer.echo(str(advice_page.write(saved.load(file), folder, out)))
            continue
        comparison = results.load(file)
        beside = file / "report.html" if file.is_dir() else file.with_name("report.html")
        page = out or beside
        with cannot("write", page):
            reports.write(comparison, page)
        if quiet:
            show_answer(comparison, console)
        else:
            show(comparison, console)
        typer.echo(str(page))
