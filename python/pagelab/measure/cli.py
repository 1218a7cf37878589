"""`pagelab measure`, `pagelab validate`, and the reproduction of the measuring paper."""

import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pagelab.errors import PagelabError, UsageError, unknown
from pagelab.measure import machine, page, probe, reproduce, result, table
from pagelab.measure import validate as validation
from pagelab.measure.result import Measurement

PARTS = (
    "all",
    "caches",
    "tlb",
    "chain",
    "faults",
    "folios",
    "huge",
    "syscalls",
    "shared-code",
    "calls",
)
EXPERIMENT = Path("experiments/measuring.toml")

Quick = Annotated[bool, typer.Option("--quick", help="Measure less, in under a minute.")]
Tuning = Annotated[
    bool,
    typer.Option(
        "--allow-tuning",
        help="Allow changes of kernel settings (as root); each is undone, also after a crash.",
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of everything random.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]


def measure(
    part: Annotated[str, typer.Argument(help=f"One of: {', '.join(PARTS)}.")] = "all",
    program: Annotated[
        list[str] | None, typer.Argument(metavar="[-- PROGRAM ARGS]", help="For calls.")
    ] = None,
    quick: Quick = False,
    allow_tuning: Tuning = False,
    seed: Seed = None,
    cpu: Annotated[int | None, typer.Option("--cpu", help="CPU to run on.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The result directory.")] = None,
    load: Annotated[
        Path | None, typer.Option("--load", help="Draw an earlier result, measure nothing.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option("--against", help="Another result, to lay beside this one.")
    ] = None,
    emit_machine: Annotated[
        str | None, typer.Option("--emit-machine", help="Write a preset NAME.toml.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Measure what virtual memory costs on this machine."""
    if part not in PARTS:
        raise unknown("part", part, PARTS)
    if (part == "calls") != bool(program):
        raise UsageError("calls, and only calls, takes a program: pagelab measure calls -- PROGRAM")
    other = result.load(against) if against else None
    console = Console()
    if load is not None:
        measurement = result.load(load)
    else:
        measurement = probe.run(
            part,
            _progress(quiet),
            quick=quick,
            allow_tuning=allow_tuning,
            seed=seed,
            cpu=cpu,
            program=program,
        )
    directory = _store(measurement, out, load)
    html = page.render(measurement, other)
    page.write(html, directory / "report.html")
    if emit_machine is not None:
        file = Path(f"{emit_machine}.toml")
        machine.write(measurement, file.stem, file)
        console.print(f"machine: {file}", highlight=False)
    if as_json:
        typer.echo(json.dumps(measurement.model_dump(mode="json")))
    elif other is not None:
        table.show_against(measurement, other, console)
    else:
        table.show(measurement, console)
    if not as_json:
        typer.echo(str(directory / "report.html"))


def validate(
    measured: Annotated[
        Path | None, typer.Argument(metavar="[RESULT]", help="A measurement with its chain.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option("--machine", "-m", help="A preset or TOML file to compare with.")
    ] = None,
    quick: Quick = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file.")] = Path(
        "validate.html"
    ),
    quiet: Quiet = False,
) -> None:
    """Run the same chain on this machine and on its preset, and show how far they are apart."""
    say = _progress(quiet)
    measurement = result.load(measured) if measured else probe.run("all", say, quick=quick)
    if preset is None:
        preset = "measured.toml"
        machine.write(measurement, "measured", Path(preset))
    points = validation.validate(measurement, preset, say)
    console = Console()
    console.print("    pages      real  simulated  difference", highlight=False)
    for point in points:
        console.print(
            f"{point.pages:>9,} {point.real:>7.2f} ns {point.simulated:>7.2f} ns "
            f"{point.error:>+10.1%}",
            highlight=False,
        )
    longest = points[len(points) // 2 :]
    console.print(
        f"median difference over the sweep: {validation.median_error(points):.1%}, over its half "
        f"from {longest[0].pages:,} pages: {validation.median_error(longest):.1%}",
        highlight=False,
    )
    page.write(page.render_charts("Machine and preset", [validation.chart(points)], []), out)
    typer.echo(str(out))


def reproduce_measuring(
    measured: Annotated[
        Path | None, typer.Argument(metavar="[RESULT]", help="A measurement; a new one if none.")
    ] = None,
    experiment: Annotated[Path, typer.Option("--experiment", help="The list of figures.")] = (
        EXPERIMENT
    ),
    quick: Quick = False,
    allow_tuning: Tuning = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file.")] = Path(
        "measuring.html"
    ),
    quiet: Quiet = False,
) -> None:
    """Redraw the figures of the measuring paper for this machine."""
    figures = reproduce.load(experiment)
    measurement = (
        result.load(measured)
        if measured
        else probe.run("all", _progress(quiet), quick=quick, allow_tuning=allow_tuning)
    )
    console = Console()
    html, given = reproduce.page_of(figures, measurement)
    for answer in given:
        console.print(f"[bold]{answer.figure.title}[/bold]")
        console.print(f"  paper: {answer.figure.paper}", highlight=False)
        console.print(f"  here: {answer.verdict}: {answer.reason}.", highlight=False)
    page.write(html, out)
    typer.echo(str(out))


def _progress(quiet: bool) -> probe.Say:
    console = Console(stderr=True)

    def say(line: str) -> None:
        if not quiet:
            console.print(line, style="dim", highlight=False, markup=False)

    return say


def _store(measurement: Measurement, out: Path | None, loaded: Path | None) -> Path:
    """The directory of the result, with measurement.json in it."""
    if loaded is not None and out is None:
        return loaded if loaded.is_dir() else loaded.parent
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(measurement.started))
    directory = out or Path("pagelab-results") / f"measure-{stamp}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps(measurement.model_dump(mode="json"), indent=1)
        (directory / "measurement.json").write_text(text, encoding="utf-8")
    except OSError as error:
        raise PagelabError(f"cannot write {directory}: {error.strerror}") from error
    return directory
