"""`pagelab validate`: what is predicted beside what is measured."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from pagelab import progress, store, units
from pagelab.cli.options import IsQuiet, Json
from pagelab.errors import InterruptedRunError, UsageError, runs_a_program
from pagelab.measuring import agreement, agreement_page, native, page, probe
from pagelab.measuring import validate as chain
from pagelab.measuring.agreement import Agreement, Change
from pagelab.measuring.validation import Asked, agree, measured_here, simulated


@runs_a_program
def validate(
    program: Annotated[
        list[str] | None, typer.Argument(metavar="[-- PROGRAM ARGS]", help="Run this one.")
    ] = None,
    whole_suite: Annotated[
        bool, typer.Option("--suite", help="Run the suite: thirteen programs, about 20 minutes.")
    ] = False,
    only: Annotated[
        str | None, typer.Option("--only", help="Of the suite, only NAME,NAME,...")
    ] = None,
    measured: Annotated[
        Path | None,
        typer.Option("--measured", help="A measurement; as for -m here if none."),
    ] = None,
    preset: Annotated[
        str | None, typer.Option("--machine", "-m", help="A preset or TOML file instead.")
    ] = None,
    design: Annotated[
        str | None, typer.Option("--design", "-d", help="The design of that machine.")
    ] = None,
    page_sizes: Annotated[
        str,
        typer.Option(
            "--pages", metavar="SIZES", help="Compare these with 4K: 2M, and 16K to 1M as root."
        ),
    ] = native.HUGE,
    allow_tuning: Annotated[
        bool,
        typer.Option(
            "--allow-tuning", help="Allow to set the kernel to 16K to 1M; undone at the end."
        ),
    ] = False,
    budget: Annotated[
        float, typer.Option("--budget", min=1, help="Seconds of native runs a program.")
    ] = 60,
    limit: Annotated[
        str, typer.Option("--limit", help="Give up programs of more accesses than this.")
    ] = "2G",
    quick: Annotated[bool, typer.Option("--quick", help="Measure less of the machine.")] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file.")] = Path(
        "validate.html"
    ),
    as_json: Json = False,
    quiet: IsQuiet = False,
) -> None:
    """Run programs on this machine and on its preset, and show how far they are apart.

    Without a program: the plain chain of the measurement, point by point.
    """
    if program and (whole_suite or only):
        raise UsageError("give either a program or --suite")
    store.check(out.parent)
    if out.is_dir():
        raise UsageError(f"--out {out} is a directory: name the HTML file")
    console = Console(stderr=as_json)
    notes = Console(stderr=True)
    say = progress.dim(quiet=quiet)
    if not (program or whole_suite or only):
        _chain(measured, preset, design, say, console, out, quick=quick, as_json=as_json)
        return
    asked = Asked(program, only, measured, preset, design, page_sizes, allow_tuning, budget)
    found = agree(replace(asked, limit=units.parse_count(limit), quick=quick), say, notes, quiet)
    sentences = agreement.summary(found.programs)
    html = agreement_page.render(found.programs, sentences, found.machine.name, found.pages)
    page.write(html, out)
    if as_json:
        typer.echo(json.dumps(found.as_json(), indent=1))
    else:
        show(found.programs, sentences, console)
        console.print(f"Huge pages are {found.pages.how}.", style="dim", highlight=False)
        typer.echo(str(out))
    if found.interrupted:
        raise typer.Exit(InterruptedRunError.exit_code)


def show(rows: list[Agreement], sentences: list[str], console: Console) -> None:
    """The table, in 80 columns: a line a program, or one for each page size if there are more."""
    several = any(set(row.larger) - {native.HUGE} for row in rows)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("program")
    change = ("pages", "change") if several else ("huge pages",)
    for heading in ("ns", "predicted", *change, "predicted", "faults", "predicted"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for row in rows:
        begin = [row.name, _time(row), f"{row.predicted_ns:.2f}"]
        if several:
            table.add_row(*begin, native.SMALL, "", "", *_faults(row, native.SMALL), "")
            for one in row.changes:
                table.add_row(
                    "", "", "", one.pages, *_change(one), *_faults(row, one.pages), _short(one)
                )
        else:
            one, *_ = [*row.changes, None]
            shown = [*_change(one), *_faults(row, native.SMALL), _short(one)]
            table.add_row(*begin, *shown)
    console.print(table)
    console.print(
        "ns: user time an access (~: its 95 % interval is wider than a quarter of it). The "
        "change is one of processor time, 95 % interval.",
        style="dim",
        highlight=False,
    )
    for sentence in sentences:
        console.print(sentence, highlight=False)


def _time(row: Agreement) -> str:
    """Nanoseconds an access, measured."""
    found = row.measured_interval
    if found is None:
        return ""
    wide = found.high - found.low > found.median / 4
    return f"{'~' if wide else ''}{found.median:.2f}"


def _change(change: Change | None) -> tuple[str, str]:
    """Measured and predicted."""
    if change is None:
        return "", ""
    gain = change.measured
    return f"{gain.low:+.0%}..{gain.high:+.0%}" if gain else "", f"{change.predicted:+.1%}"


def _faults(row: Agreement, size: str) -> tuple[str, str]:
    """Measured and predicted."""
    predicted = row.predicted_faults(size)
    return (
        units.count(row.measured_faults(size)),
        "" if predicted is None else units.count(predicted),
    )


def _short(change: Change | None) -> str:
    """The verdict in a word."""
    return change.verdict.partition(":")[0].replace("no verdict", "?") if change else "?"


def _chain(
    measured: Path | None,
    preset: str | None,
    design: str | None,
    say: probe.Say,
    console: Console,
    out: Path,
    *,
    quick: bool,
    as_json: bool,
) -> None:
    """The plain chain on both."""
    measurement = measured_here(measured, say, quick=quick)
    with tempfile.TemporaryDirectory(prefix="pagelab-") as scratch:
        used = simulated(preset, design, measurement, Path(scratch), say)
        points = chain.validate(measurement, used.file, say, used.design)
    page.write(page.render_chart("Machine and preset", chain.chart(points)), out)
    if as_json:
        typer.echo(json.dumps([vars(point) | {"error": point.error} for point in points]))
        return
    console.print("    pages      real  simulated  difference", highlight=False)
    for point in points:
        console.print(
            f"{point.pages:>9,} {point.real:>7.2f} ns {point.simulated:>7.2f} ns "
            f"{point.error:>+10.1%}",
            highlight=False,
        )
    longest = points[len(points) // 2 :]
    console.print(
        f"median difference over the sweep: {chain.median_error(points):.1%}, over its half "
        f"from {longest[0].pages:,} pages: {chain.median_error(longest):.1%}",
        highlight=False,
    )
    typer.echo(str(out))
