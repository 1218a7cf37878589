"""`pagelab advise` and `pagelab run`: which setting helps a program, and running it with that."""

import json
import os
import platform
import shlex
import stat
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from pagelab import advice, frames, jobs, pages, progress, recording, store
from pagelab import sites as whose
from pagelab.advising import (
    candidates,
    expected,
    named_sites,
    page,
    saved,
    serving,
    show,
    trials,
    verdict,
    why,
)
from pagelab.advising.candidates import Candidate, Unavailable
from pagelab.advising.leftover import Guard
from pagelab.advising.trials import First, Program, StillRunningError, Trials
from pagelab.advising.verdict import Advice
from pagelab.advising.why import Why
from pagelab.cli import options
from pagelab.environment import given
from pagelab.errors import InterruptedRunError, PagelabError, UsageError, cannot, runs_a_program
from pagelab.machine import MachineBase
from pagelab.measuring import kind, native
from pagelab.measuring.kernel_settings import KernelSettings
from pagelab.progress import Meter

_FILE = "advice.json"
# A first run that takes longer is ended, for the model to say what it expects: half a minute after
# the start there is an answer.
_SOON = 10.0

_Sites = Annotated[
    Path | None,
    typer.Option(
        metavar="RESULT",
        help="Try huge pages for the allocation sites that a compare --sites has found, too.",
    ),
]


@runs_a_program
def advise(
    program: Annotated[
        list[str], typer.Argument(metavar="-- PROGRAM ARGS", help="The program, as it is run.")
    ],
    seconds: Annotated[
        float, typer.Option("--time", min=1, help="Seconds that runs may take in all.")
    ] = 120,
    page_sizes: Annotated[
        str | None,
        typer.Option("--pages", metavar="SIZES", help="Try these, too: 16K to 1M."),
    ] = None,
    allow_tuning: Annotated[
        bool,
        typer.Option(
            "--allow-tuning", help="As root, try settings of the whole system; undone after."
        ),
    ] = False,
    load: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="PROGRAM is a server: run until this has ended."),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="What --load prints as its rate; more is better."),
    ] = None,
    sites: _Sites = None,
    explain: Annotated[
        bool,
        typer.Option("--why", help="Also record and simulate it: where, and what the model says."),
    ] = False,
    machine: options.Machine = None,
    buddyinfo: options.Buddyinfo = None,
    out: options.Out = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the answer for an issue or a README.")
    ] = False,
    as_json: options.Json = False,
    export: options.Export = None,
    quiet: options.IsQuiet = False,
) -> None:
    """Say which setting of this machine makes a program faster, by running it with each.

    Runs PROGRAM natively, unchanged and with every setting that needs no root, in turns, until the
    difference is known or --time is over. A setting helps if it changed the program's memory and
    the interval of its gain leaves out 1. The program's output is thrown away, its input must be
    a file, and it must end by itself with status 0.

    A server is run with --load, which works it and ends; it is then asked to end by SIGTERM.
    Its processor time for that load is compared, or with --metric what the load gets done. Ctrl-C
    ends with the answer so far.
    """
    store.check(out)
    worked = _load(load, metric)
    simulated = _simulated(machine, buddyinfo, explain=explain, quiet=quiet)
    recording.find(program[0])
    of_sites = named_sites.settings(sites)
    allowed = candidates.Allowed(_between(page_sizes, allow_tuning=allow_tuning), allow_tuning)
    name = Path(program[0]).name
    with (
        jobs.ended_as_by_interrupt(),
        # Answers are shown at the bottom of a shared terminal only.
        progress.display(Console(stderr=True), quiet=quiet, shared=True) as meters,
        progress.metered(meters, name, "running") as meter,
        KernelSettings() as kernel,
        Guard() as guard,
    ):
        one = Program(program, _stdin(), seconds, worked, guard)
        settings = partial(candidates.of, program, allowed=allowed, more=of_sites)
        glimpse = None if quiet or worked else partial(why.glimpse, program, machine=simulated)
        decided, found, missing = _try(
            one, settings, kernel, meter, expects=export is None, glimpse=glimpse
        )
    if decided is None:
        _expect(program, seconds, found, missing, simulated, out, as_json=as_json, quiet=quiet)
        return
    found_why = None
    if explain and not decided.trials.interrupted:
        found_why = _ask_why(decided, one, simulated, quiet=quiet)
        decided = replace(decided, predicted=found_why.predicted, memory=buddyinfo)
    directory = store.directory(out, f"advise-{name}")
    file = directory / _FILE
    result = show.as_json(decided, program, missing, _host(), found_why, str(file))
    with store.nothing_left_of(directory):
        _save(file, result, found_why)
    if as_json:
        typer.echo(json.dumps(result, indent=1))
    elif export:
        typer.echo(frames.csv(frames.arrow(show.rows(decided))), nl=False)
    elif markdown:
        typer.echo(show.markdown(decided, program, str(file)))
    else:
        _print(decided, program, missing, kind.processor().name, file, Console(), found_why)
    if decided.trials.interrupted:
        raise typer.Exit(InterruptedRunError.exit_code)


def _try(
    one: Program,
    settings: Callable[..., tuple[list[Candidate], list[Unavailable]]],
    kernel: KernelSettings,
    meter: Meter,
    *,
    expects: bool,
    glimpse: Callable[[], str] | None,
) -> tuple[Advice | None, list[Candidate], list[Unavailable]]:
    """Runs a program with all settings: the advice, and which there are.

    One that does not end soon enough has no advice where the model's expectation is wanted instead.
    """
    try:
        first = _first(one, kernel, meter, glimpse)
    except StillRunningError as error:
        if one.load is not None or error.look is None or not expects:
            raise
        return None, *settings(look=error.look, seconds=one.seconds)
    found, missing = settings(look=first.look, seconds=first.run.wall)

    def answer(known: Trials) -> None:
        meter.answer(*show.so_far(known))

    with progress.counting_down(meter, one.seconds) as say:
        rounds = trials.run(one, found, kernel, one.seconds, say, first, answer)
    return verdict.decide(rounds), found, missing


def _first(
    one: Program, kernel: KernelSettings, meter: Meter, glimpse: Callable[[], str] | None
) -> First:
    """The first run of a program; before that of a long one there is a `glimpse` of the answer."""

    def run(seconds: float) -> First:
        with progress.counting_down(meter, seconds) as say:
            say("first run, unchanged")
            return replace(one, seconds=seconds).first(kernel)

    seen = ""
    if glimpse and one.seconds > 2 * _SOON:
        try:
            return run(_SOON)
        except StillRunningError as error:
            computes = error.look is not None
        if computes:
            meter.update(0, None, "a glimpse of it by the model")
            try:
                seen = glimpse()
            except InterruptedRunError:
                raise
            except PagelabError:
                pass  # Runs will tell.
            else:
                meter.answer(seen, seen)
    try:
        return run(one.seconds)
    except KeyboardInterrupt:
        if not seen:
            raise
        raise InterruptedRunError(f"interrupted before it had run once; {seen}") from None


def _ask_why(
    decided: Advice, one: Program, machine: MachineBase | str | None, *, quiet: bool
) -> Why:
    return why.ask(
        one.command,
        [tried.trial.candidate for tried in decided.verdicts],
        machine=machine,
        progress=not quiet,
        load=one.load,
        measured=decided.trials.base.runs,
    )


def _expect(
    program: list[str],
    seconds: float,
    settings: list[Candidate],
    missing: list[Unavailable],
    machine: MachineBase | str | None,
    out: Path | None,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Prints what the model expects of settings for a program that is too long to be tried."""
    name = Path(program[0]).name
    each = expected.recorded_seconds(seconds)
    found = why.ask(program, settings, machine=machine, progress=not quiet, seconds=each)
    chosen = expected.best(settings, found)
    answer = expected.headline(name, seconds, chosen, found)
    directory = store.directory(out, f"advise-{name}")
    with store.nothing_left_of(directory):
        found.by_site.save(directory / page.MODEL)
    if as_json:
        result = expected.as_json(program, answer, chosen, settings, missing, found)
        typer.echo(json.dumps(result, indent=1))
        return
    console = Console()
    console.print(answer, style="bold", highlight=False)
    if lines := expected.to_try(program, chosen):
        typer.echo("".join(f"\n  {line}" for line in lines) + "\n")
    console.print(expected.table(settings, found))
    _print_where(found, program, directory / page.MODEL, console)
    console.print(expected.to_prove(program), highlight=False, markup=False)
    typer.echo(f"Report: {directory / page.MODEL / 'report.html'}")


def _host() -> dict[str, str]:
    """The machine that the answer is of."""
    return {
        "cpu": kind.processor().name,
        "kernel": platform.release(),
        "transparent_hugepage": advice.huge_pages() or "none",
    }


def _print(
    decided: Advice,
    program: list[str],
    missing: list[Unavailable],
    cpu: str,
    file: Path,
    console: Console,
    found_why: Why | None,
) -> None:
    for sentence in verdict.disagreements(decided):
        console.print(sentence, style="bold", highlight=False)
    console.print(verdict.headline(decided), style="bold", highlight=False)
    if lines := verdict.to_type(decided, program, str(file)):
        typer.echo("\n" + "".join(f"  {line}\n" for line in lines))
    console.print(show.table(decided))
    console.print(show.LEGEND, style="dim", highlight=False, markup=False)
    if nothing := show.idle(decided):
        console.print(nothing, highlight=False, markup=False)
    if decided.memory:
        console.print(f"model: with memory as in {decided.memory}.", highlight=False, markup=False)
    if found_why:
        _print_where(found_why, program, file.parent / page.MODEL, console)
        console.print(
            f"To see it with counters ({found_why.machine}):", highlight=False, markup=False
        )
        typer.echo(f"  {found_why.perf}")
        console.print(show.counters(found_why))
    for one in decided.verdicts:
        # Beside one that helps nobody needs to know.
        if one.rounds is not None and decided.best is None:
            # With the one that is not timed.
            needed = (one.rounds + 1) * decided.trials.seconds
            console.print(
                f"{one.trial.candidate.name}: {one.rounds} rounds might tell, "
                f"{len(one.trial.runs)} were run: --time {needed:.0f}.",
                highlight=False,
            )
    for lack in missing:
        console.print(f"Not tried: {lack.name}: {lack.why}.", style="dim", highlight=False)
    line = verdict.quoted(decided, Path(program[0]).name, cpu)
    if line:
        console.print(line, style="dim", highlight=False)
    typer.echo(f"Report: {file.with_name('report.html')}\n{file}")


def _print_where(found: Why, program: list[str], model: Path, console: Console) -> None:
    """Prints what walks and faults are in, and whose memory gains."""
    for sentence in found.where():
        console.print(sentence, highlight=False, markup=False)
    gains = whose.gains(found.by_site)
    if gains is None or not gains.saved:
        return
    whose.show(gains, console)
    if advice.huge_pages() == "madvise":
        served = found.load.options if found.load else []
        again = ["pagelab", "advise", "--sites", str(model), *served, "--", *program]
        console.print("To try them in the memory of these alone:", highlight=False)
        typer.echo(f"  {shlex.join(again)}")


def _load(load: str | None, metric: str | None) -> serving.Load | None:
    """The load of a server. Raises UsageError where the options do not go together."""
    if load is None:
        if metric is not None:
            raise UsageError("--metric is of what --load prints")
        return None
    try:
        command = shlex.split(load)
    except ValueError as error:
        raise UsageError(f"--load {load}: {error}") from error
    parsed = serving.parse(command, metric)
    recording.find(parsed.command[0])
    return parsed


def _simulated(
    machine: str | None, file: Path | None, *, explain: bool, quiet: bool
) -> MachineBase | str | None:
    """The machine of --why. Raises UsageError where an option has no meaning without it."""
    if file is None:
        return machine
    if not explain:
        raise UsageError("--buddyinfo is of simulated memory: give it with --why")
    found = options.machines(machine or kind.describe()[0], None)
    return options.fragmented(found, file, quiet=quiet)[0]


def _save(file: Path, result: dict[str, Any], found_why: Why | None) -> None:
    """Writes the advice, what the model says of the unchanged program, and the page of both."""
    _write(file, json.dumps(result, indent=1))
    if found_why is not None:
        found_why.by_site.save(file.parent / page.MODEL)
    page.write(saved.load(file), file.parent)


def _write(file: Path, text: str) -> None:
    with cannot("write", file):
        file.write_text(text + "\n", encoding="utf-8")


def _between(sizes: str | None, *, allow_tuning: bool) -> list[str]:
    """Page sizes between 4K and 2M. Raises UsageError for others, and without leave."""
    chosen = [pages.parse(size) for size in sizes.split(",")] if sizes else []
    for size in chosen:
        if pages.SIZES[size] != size or size == "1G":
            raise UsageError(f"--pages takes sizes from 16K to 1M, not {size}")
    if chosen and not allow_tuning:
        raise UsageError(
            f"pages of {', '.join(chosen)} need a setting of the whole system changed: "
            "run as root with --allow-tuning"
        )
    return chosen


def _stdin() -> str | None:
    """The file that the program is to read, each time from its beginning."""
    try:
        kind = os.fstat(0).st_mode
    except OSError:
        return None
    if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind):
        raise UsageError(
            "the program is run many times, and a pipe can be read once: give its input as a file, "
            "pagelab advise -- PROGRAM < FILE"
        )
    return "/proc/self/fd/0" if stat.S_ISREG(kind) else None


@runs_a_program
def run(
    program: Annotated[
        list[str], typer.Argument(metavar="-- PROGRAM ARGS", help="The program to become.")
    ],
    file: Annotated[
        Path, typer.Option("--advice", metavar="FILE", help="What `pagelab advise` has written.")
    ],
) -> None:
    """Become a program with the setting that an advice has found to help."""
    setting = saved.load(file).setting
    if setting is None:
        raise UsageError(f"{file} has no setting that helps")
    if setting.kernel:
        raise UsageError(
            f"{file} has a setting of the whole system, {' '.join(setting.kernel)}, that a "
            "program cannot have alone: pagelab advise has printed what to type as root"
        )
    recording.find(program[0])
    become = native.become(program, setting.policy)
    try:
        os.execvpe(become[0], become, {**given(), **setting.environment})
    except OSError as error:
        raise PagelabError(f"cannot run {shlex.join(program)}: {error.strerror}") from error
