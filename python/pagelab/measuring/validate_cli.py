"""`pagelab validate`: what is predicted beside what is measured."""

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from pagelab import emulator, jobs, progress, store, units
from pagelab.design import check
from pagelab.errors import (
    InterruptedRunError,
    PagelabError,
    UsageError,
    runs_a_program,
    unknown,
)
from pagelab.measuring import (
    agreement,
    agreement_page,
    guest_memory,
    here,
    kind,
    looks,
    machine,
    native,
    page,
    predict,
    probe,
    result,
    suite,
)
from pagelab.measuring import validate as chain
from pagelab.measuring.agreement import Agreement, Change
from pagelab.measuring.kernel_settings import KernelSettings
from pagelab.measuring.looks import Watch
from pagelab.measuring.native import HugePages, Native
from pagelab.measuring.result import Conditions, Measurement
from pagelab.measuring.suite import Program
from pagelab.pages import CONDITIONAL, parse


class Machine(NamedTuple):
    """Simulated machine: a preset or a file, its design, what it is called, and if it was measured.

    The file is made of that, and made anew of what is found beside a program.
    """

    file: str
    design: str
    name: str
    measurement: Measurement | None = None

    def beside(self, found: Conditions, say: probe.Say) -> None:
        """Has the machine be as was found beside a program's runs, and else as it was measured."""
        if self.measurement is None:
            return
        machine.write(self.measurement, here.NAME, Path(self.file), found)
        for what, unit, was, now in (
            ("a line of memory took", "ns", self.measurement.flushed(), found.memory_ns),
            ("one core read", "GB/s", self.measurement.reads(), found.reads),
        ):
            if was and now:
                say(
                    f"{what} {now.median:.0f} {unit} beside it, "
                    f"{was.median:.0f} when the machine was measured"
                )


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
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
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


@dataclass(frozen=True)
class Asked:
    """A program, or those of the suite with these names (all if none), and how to validate them.

    `preset` is a machine that is not this one, else `measured` is a measurement of this one, made
    now if there is none. `budget` is seconds of native runs a program, `limit` accesses.
    """

    program: list[str] | None = None
    only: str | None = None
    measured: Path | None = None
    preset: str | None = None
    design: str | None = None
    page_sizes: str = native.HUGE
    allow_tuning: bool = False
    budget: float = 60
    limit: int = 2_000_000_000
    quick: bool = False


@dataclass(frozen=True)
class Validation:
    """Predictions of programs beside measurements."""

    programs: list[Agreement]
    machine: Machine
    pages: HugePages
    interrupted: bool
    not_installed: list[str]

    def as_json(self) -> dict[str, Any]:
        """As `pagelab validate --json` prints it."""
        return {
            "schema": "pagelab.validation/4",
            "machine": self.machine.name,
            "design": self.machine.design,
            "huge_pages": self.pages.how,
            "programs": [row.as_json() for row in self.programs],
            "interrupted": self.interrupted,
            "not_installed": self.not_installed,
        }


def agree(asked: Asked, say: probe.Say, notes: Console, quiet: bool) -> Validation:
    """Runs programs natively and simulates them; raises PagelabError where none could be."""
    # Measuring and preparing take minutes.
    emulator.find()
    pages = native.huge_pages()
    sizes = _larger(asked.page_sizes, pages, allow_tuning=asked.allow_tuning)
    with (
        jobs.ended_as_by_interrupt(),
        tempfile.TemporaryDirectory(prefix="pagelab-") as scratch,
    ):
        directory = Path(scratch)
        chosen, missing = _programs(asked.program, asked.only, directory)
        for name in missing:
            say(f"{name} is not installed: left out")
        measurement = (
            None if _named(asked.preset) else _measurement(asked.measured, say, quick=asked.quick)
        )
        used = _machine(asked.preset, asked.design, measurement, directory, say)
        guest_memory.have_it_given(probe.environment(), say)
        rows: list[Agreement] = []
        interrupted = False
        try:
            with (
                progress.display(notes, quiet=quiet) as meters,
                KernelSettings() as kernel,
                _watching(measurement, say) as watch,
            ):
                measure = partial(
                    native.measure,
                    pages=pages,
                    kernel=kernel,
                    sizes=sizes,
                    budget=asked.budget,
                    watch=watch,
                )
                for one in chosen:
                    with _reported(one, say):
                        rows.append(
                            _validate(
                                one, used, pages, measure, asked.limit, directory, say, meters
                            )
                        )
        except KeyboardInterrupt:
            # Each program has taken a minute or more.
            interrupted = True
            say(f"interrupted: {len(rows)} of {len(chosen)} programs were validated")
    if not rows and interrupted:
        raise InterruptedRunError("interrupted before a program was validated")
    if not rows:
        raise PagelabError("no program could be validated")
    return Validation(rows, used, pages, interrupted, missing)


def _larger(text: str, pages: HugePages, *, allow_tuning: bool) -> list[str]:
    """The page sizes to compare with 4K, ascending. Raises UsageError for what cannot be had."""
    wanted = {parse(part) for part in text.split(",")} - {native.SMALL}
    for size in wanted & {"1G", *CONDITIONAL}:
        raise UsageError(f"programs run natively with pages from 4K to 2M, not {size}")
    between = sorted(wanted - {native.HUGE}, key=units.parse_size)
    if between and pages.policy is None:
        raise UsageError(f"huge pages are {pages.how}, and with them {', '.join(between)}")
    if between and not allow_tuning:
        raise UsageError(
            f"pages of {', '.join(between)} need a setting of the whole system changed: "
            "run as root with --allow-tuning"
        )
    return [*between, *([native.HUGE] if native.HUGE in wanted and pages.policy else [])]


def _programs(
    program: list[str] | None, only: str | None, directory: Path
) -> tuple[list[Program], list[str]]:
    """Programs to run, and those of the suite that are not installed."""
    if program:
        return [Program(Path(program[0]).name, program)], []
    wanted = only.split(",") if only else None
    for name in wanted or []:
        if name not in suite.names():
            raise unknown("program of the suite", name, suite.names())
    suite.prepare(directory)
    return suite.programs(directory, wanted)


def _named(preset: str | None) -> bool:
    """True if a machine is named that is not measured."""
    return preset not in (None, here.NAME)


def _machine(
    preset: str | None,
    design: str | None,
    measurement: Measurement | None,
    directory: Path,
    say: probe.Say,
) -> Machine:
    """The machine to simulate."""
    if preset is not None and _named(preset):
        return Machine(preset, design or "radix", check(preset, [])["name"])
    assert measurement is not None
    # As `guest_memory` sees to.
    measurement = measurement.in_use()
    file = directory / "here.toml"
    made = machine.write(measurement, here.NAME, file)
    for note in made.notes:
        say(f"not concluded: {note}")
    return Machine(
        str(file), design or made.design, name=measurement.environment.cpu, measurement=measurement
    )


def _measurement(measured: Path | None, say: probe.Say, *, quick: bool) -> Measurement:
    """The measurement that was named, a quick one, or what is kept of this machine."""
    if measured is not None:
        return result.load(measured)
    if quick:
        return probe.run("all", say, quick=True)
    here.preset(say)
    return result.load(here.measurement_file())


@contextlib.contextmanager
def _watching(measurement: Measurement | None, say: probe.Say) -> Iterator[Watch | None]:
    """A watch of this machine's cores; of another machine there is nothing to be watched here."""
    watch = None
    if measurement is not None and measurement.environment.cpu == kind.processor().name:
        watch = looks.watch(measurement, say)
    try:
        yield watch
    finally:
        if watch:
            watch.end()


@contextlib.contextmanager
def _reported(program: Program, say: probe.Say) -> Iterator[None]:
    """One program that fails is said to, and the others go on."""
    try:
        yield
    except PagelabError as error:
        say(f"{program.name}: {error}")


def _validate(
    program: Program,
    used: Machine,
    pages: HugePages,
    measure: Callable[..., Native],
    limit: int,
    directory: Path,
    say: probe.Say,
    meters: progress.Display,
) -> Agreement:
    """One program: recorded, natively, simulated with memory as the program found it.

    As much of that is free as then, and it is as fast as it was beside the runs.
    """
    overrides = []
    if used.name == kind.processor().name:
        now = probe.environment()
        if free := machine.free_blocks(now):
            # The measurement may be of another guest on such a CPU.
            overrides = [f"memory.memory_bytes={machine.total(now)}", f"memory.free_blocks={free}"]
    trace, recorded = predict.record(program, pages, limit, directory, meters)
    whole = recorded.accesses < limit
    try:
        runs = measure(
            program.command,
            say=lambda line: say(f"{program.name}: {line}"),
            single=whole and recorded.threads == recorded.processes == 1,
        )
        used.beside(runs.beside, lambda line: say(f"{program.name}: {line}"))
        policies = ["base", *(pages.policy_of(size) for size in runs.larger)]
        small, *larger = predict.simulate_in_turns(
            trace, used.file, used.design, policies, overrides, runs.buffers, meters
        )
    finally:
        trace.unlink()
    partly = None if whole else "the recording is limited"
    predicted = dict(zip(runs.larger, larger, strict=True))
    return Agreement(program.name, recorded.accesses, runs, small, predicted, partly)


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
    measurement = _measurement(measured, say, quick=quick)
    with tempfile.TemporaryDirectory(prefix="pagelab-") as scratch:
        used = _machine(preset, design, measurement, Path(scratch), say)
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
