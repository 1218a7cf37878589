"""Predictions of programs beside measurements: native runs, recordings, simulations."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from pagelab import emulator, jobs, progress, units
from pagelab.design import check
from pagelab.errors import InterruptedRunError, PagelabError, UsageError, unknown
from pagelab.measuring import (
    guest_memory,
    here,
    kind,
    looks,
    machine,
    native,
    predict,
    probe,
    result,
    suite,
)
from pagelab.measuring.agreement import Agreement
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
            None if _named(asked.preset) else measured_here(asked.measured, say, quick=asked.quick)
        )
        used = simulated(asked.preset, asked.design, measurement, directory, say)
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


def simulated(
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


def measured_here(measured: Path | None, say: probe.Say, *, quick: bool) -> Measurement:
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
