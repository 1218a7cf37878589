"""`pagelab measure`."""

import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pagelab import progress, store
from pagelab.cli import options
from pagelab.errors import PagelabError, UsageError, cannot, runs_a_program, unknown
from pagelab.measuring import here, machine, page, probe, result, table
from pagelab.measuring.result import Measurement

PARTS = (
    "all",
    "caches",
    "branches",
    "tlb",
    "chain",
    "memory",
    "window",
    "faults",
    "folios",
    "huge",
    "idle",
    "syscalls",
    "shared-code",
    "calls",
)


@runs_a_program
def measure(
    part: Annotated[str, typer.Argument(help=f"One of: {', '.join(PARTS)}.")] = "all",
    program: Annotated[
        list[str] | None, typer.Argument(metavar="[-- PROGRAM ARGS]", help="For calls.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure less, in under a minute.")
    ] = False,
    allow_tuning: Annotated[
        bool,
        typer.Option(
            "--allow-tuning",
            help="Allow changes of kernel settings (as root); each is undone, also after a crash.",
        ),
    ] = False,
    seed: options.Seed = None,
    cpu: Annotated[int | None, typer.Option("--cpu", help="CPU to run on.")] = None,
    out: options.Out = None,
    load: Annotated[
        Path | None, typer.Option("--load", help="Draw an earlier result, measure nothing.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option("--against", help="Another result, to lay beside this one.")
    ] = None,
    emit_machine: Annotated[
        str | None, typer.Option("--emit-machine", help="Write a preset NAME.toml.")
    ] = None,
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Measure what virtual memory costs on this machine."""
    if part not in PARTS:
        raise unknown("part", part, PARTS)
    if (part == "calls") != bool(program):
        raise UsageError("calls, and only calls, takes a program: pagelab measure calls -- PROGRAM")
    other = result.load(against) if against else None
    say = progress.dim(quiet=quiet)
    console = Console()
    if load is not None:
        measurement = result.load(load)
    else:
        store.check(out)
        if emit_machine is not None:
            store.check(Path(emit_machine).parent)
        measurement = probe.run(
            part,
            say,
            quick=quick,
            allow_tuning=allow_tuning,
            seed=seed,
            cpu=cpu,
            program=program,
        )
    directory = _store(measurement, out, load)
    html = page.render(measurement, other)
    page.write(html, directory / "report.html")
    if part == "all" and load is None and not quick:
        _keep(measurement, say)
    made = None
    if emit_machine is not None:
        file = Path(emit_machine).with_suffix(".toml")
        made = machine.write(measurement, file.stem, file)
    if as_json:
        whole = measurement.model_dump(mode="json")
        if made is not None:
            whole["machine"] = made.as_json()
        typer.echo(json.dumps(whole))
    elif other is not None:
        table.show_against(measurement, other, console)
    else:
        table.show(measurement, console)
    if as_json:
        return
    if made is not None:
        console.print(f"machine: {file}; its own design is {made.design}", highlight=False)
        for note in made.notes:
            console.print(f"not concluded: {note}", style="dim", highlight=False)
    typer.echo(str(directory / "report.html"))


def _keep(measurement: Measurement, say: probe.Say) -> None:
    """Keeps the preset of this machine for `--machine here`."""
    try:
        file = here.keep(measurement)
    except PagelabError as error:
        say(f"no preset for --machine here: {error}")
    else:
        say(f"--machine here is what was measured now ({file})")


def _store(measurement: Measurement, out: Path | None, loaded: Path | None) -> Path:
    """The directory of the result, with measurement.json in it."""
    if loaded is not None and out is None:
        return loaded if loaded.is_dir() else loaded.parent
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(measurement.started))
    directory = out or Path("pagelab-results") / f"measure-{stamp}"
    with cannot("write", directory):
        directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps(measurement.model_dump(mode="json"), indent=1)
        (directory / "measurement.json").write_text(text, encoding="utf-8")
    return directory
