"""Options that several commands share."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from pagelab import _core, api, buddyinfo, pages, systems
from pagelab.cli import complete
from pagelab.design import Design, names
from pagelab.emulator import VARIABLE
from pagelab.errors import PagelabError, UsageError
from pagelab.machines import Machine as Machine_
from pagelab.measuring import here
from pagelab.results import Comparison, Recording
from pagelab.sources import Source, Trace, at_once, parse_workload

# Windows of --sampled: enough for an interval from Student's t.
WINDOWS = 30

Machine = Annotated[
    str | None,
    typer.Option(
        "--machine",
        "-m",
        help="A preset (pagelab list machines), a TOML file, or here: this one, measured. "
        "Without it the preset of this processor's kind.",
        autocompletion=complete.machine,
    ),
]
Machines = Annotated[
    str | None,
    typer.Option(
        "--machine",
        "-m",
        help="Presets (pagelab list machines), TOML files, here (this one, measured): here,zen4. "
        "Without it the preset of this processor's kind.",
        autocompletion=complete.machines,
    ),
]
Traces = Annotated[
    list[Path] | None,
    typer.Option(
        "--trace", "-t", help="A trace: pagelab's own, ChampSim, Lackey, CSV. Several: a core each."
    ),
]
Workloads = Annotated[
    list[str] | None,
    typer.Option(
        "--workload",
        "-w",
        help="A built-in program (pagelab list workloads). Several: a core each.",
        autocompletion=complete.workload,
    ),
]
Copies = Annotated[
    int, typer.Option("--copies", min=1, help="Run each program so many times at once.")
]
Thp = Annotated[bool, typer.Option("--thp", help="Short for --pages 2M.")]
Pages = Annotated[
    str | None,
    typer.Option(
        "--pages",
        metavar="SIZE[,SIZE...]",
        help="Back memory with pages of this size where they fit: 4K, 64K, 2M, 1G, madvise, "
        "reserved, or of several: 2M+64K.",
    ),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of everything random in a run.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change a key of the machine: tlb.l2_cycles=9."
    ),
]
Manager = Annotated[
    str | None,
    typer.Option(
        "--manager",
        metavar="NAME[:KEY=VALUE,...]",
        help="Which node of memory pages come from (pagelab list managers).",
        autocompletion=complete.manager,
    ),
]
System = Annotated[
    str | None,
    typer.Option(
        "--os",
        metavar="NAME[,NAME...]",
        help="Operating systems to compare: linux, linux-6.12, foliomap (pagelab list systems).",
        autocompletion=complete.systems,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
Export = Annotated[
    Literal["csv"] | None,
    typer.Option("--export", help="Print rows for other programs on standard output instead."),
]
IsQuiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")]
Skip = Annotated[
    str | None, typer.Option("--skip", help="Leave out the first N accesses (5000, 10M, 1.5G).")
]
Qemu = Annotated[
    Path | None,
    typer.Option(
        "--qemu", envvar=VARIABLE, show_envvar=True, help="The qemu-x86_64 to record with."
    ),
]
Code = Annotated[
    bool, typer.Option("--code/--no-code", help="Keep the code, to say which lines of source miss.")
]
Sites = Annotated[
    bool, typer.Option("--sites", help="Tell whose memory it is, by the calls that allocate it.")
]
Cpu = Annotated[
    str | None,
    typer.Option(
        "--cpu", metavar="MODEL", help="The processor that QEMU emulates: Haswell, max,-avx2."
    ),
]
Limit = Annotated[str | None, typer.Option("--limit", help="Take at most N accesses.")]
Sample = Annotated[
    str | None,
    typer.Option(
        "--sample",
        help="Take ON accesses of every PERIOD (5M:100M); auto: ever fewer pieces of all.",
    ),
]
InInstructions = Annotated[
    bool,
    typer.Option(
        "--instructions", help="Count --skip, --limit, --sample, --warm-up in instructions."
    ),
]
WarmUp = Annotated[
    str | None,
    typer.Option(
        "--warm-up", help="Do not measure the first N at the start and after what is left out."
    ),
]
Buddyinfo = Annotated[
    Path | None,
    typer.Option(
        "--buddyinfo",
        metavar="FILE",
        help="Begin with memory that is as free as this /proc/buddyinfo says: another machine's, "
        "or /proc/buddyinfo for how it is here now.",
    ),
]
Sampled = Annotated[
    bool, typer.Option("--sampled", help="Sample a built-in program, however short, in 30 windows.")
]
Full = Annotated[
    bool,
    typer.Option("--full", help="Take every access instead of pieces; of PROGRAM the first 500 M."),
]
Windows = Annotated[
    int | None,
    typer.Option("--windows", min=2, help="Sample a built-in program in so many windows."),
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="The result directory.")]


def windows(sampled: bool, full: bool, count: int | None) -> dict[str, str]:
    """The parameters of a workload that the options on sampling stand for."""
    if full and (sampled or count is not None):
        raise UsageError("--full leaves nothing to sample: give it without --sampled, --windows")
    if full:
        return {"windows": "0"}
    if count is not None:
        return {"windows": str(count)}
    return {"windows": str(WINDOWS)} if sampled else {}


def sources(
    traces: list[Path] | None,
    workloads: list[str] | None,
    sampling: dict[str, str] | None = None,
) -> Source:
    """Source of a run: one, or several at once with a core each."""
    if traces and sampling:
        raise UsageError("a trace is sampled with --sample, not with --sampled or --windows")
    if not traces and not workloads:
        raise UsageError("give a trace (--trace) or --workload")
    return at_once(
        *(Trace(trace) for trace in traces or []),
        *(parse_workload(workload, sampling) for workload in workloads or []),
    )


def tell_of_cut(traces: Iterable[Path]) -> None:
    """Says of traces that end without their index that they may lack something."""
    for trace in traces:
        # A pipe can be read only once; a file that cannot be read is said when it is.
        with suppress(_core.Error):
            if trace.is_file() and _core.trace_is_cut(trace):
                typer.echo(
                    f"pagelab: {trace} was cut off, or its recording never finished: it is taken "
                    "up to its last whole chunk",
                    err=True,
                )


def designs(given: list[str] | None) -> list[Design] | None:
    """The designs of comma-separated lists, in which `all` stands for every one."""
    if not given:
        return None
    text = ",".join(given)
    if text.strip() == "all":
        return [Design(name) for name in names()]
    return [Design.parse(part) for part in filter(None, map(str.strip, text.split(",")))]


def page_sizes(text: str | None, thp: bool) -> list[str] | None:
    """The page sizes of a comma-separated list; None for what the machine says."""
    if text is None:
        return ["2M"] if thp else None
    if thp:
        raise UsageError("--thp is short for --pages 2M: give one of the two")
    sizes = [pages.parse(part) for part in text.split(",") if part.strip()]
    if not sizes:
        raise UsageError(f"--pages names no page size. Valid: {', '.join(pages.SIZES)}")
    return list(dict.fromkeys(sizes))


def usual_machine(source: Source | Recording | list[str], *, quiet: bool) -> str:
    """The machine where none is named, which standard error is told unless it is to be quiet."""
    return api.default_machine(source, (lambda _: None) if quiet else api.tell_once)


def machines(text: str, changes: list[str] | None) -> list[Machine_]:
    """The machines of a comma-separated list, with keys changed."""
    asked = dict.fromkeys(filter(None, map(str.strip, text.split(","))))
    if not asked:
        raise UsageError("--machine names none: pagelab list machines")
    try:
        for name in asked:
            Machine_(name).check()
    except UsageError as error:
        if not str(error).startswith("unknown machine"):
            raise
        # A machine that the compiled part does not know of.
        raise UsageError(f"{error}, and -m {here.NAME} is this computer, measured") from error
    return [Machine_(name, tuple(changes or [])).check() for name in asked]


def fragmented(found: list[Machine_], file: Path | None, *, quiet: bool) -> list[Machine_]:
    """Machines whose memory begins as a /proc/buddyinfo says, which standard error is told."""
    if file is None:
        return found
    free = buddyinfo.read(file)
    say = (lambda _: None) if quiet else api.tell_once
    say(f"memory begins as in {file}: {free}")
    return [buddyinfo.on(one, free, say) for one in found]


def with_systems(designs: list[Design] | None, text: str | None) -> list[Design] | None:
    """Each design (radix if none is named) under each operating system of a list with commas."""
    if text is None:
        return designs
    asked = [systems.parse(part.strip()) for part in text.split(",") if part.strip()]
    if not asked:
        raise UsageError(f"--os names no operating system. Valid: {', '.join(systems.names())}")
    # The default needs no name, and comes first: the others are compared with it.
    others = dict.fromkeys(system for system in asked if system != "linux")
    named = [*([None] if "linux" in asked else []), *others]
    return [
        replace(design, system=system)
        for design in designs or [Design("radix")]
        for system in named
    ]


def save_and_show(save: Callable[[], Path | None], show: Callable[[Path | None], None]) -> None:
    """Saves a result and shows it with its page; what cannot be saved is shown all the same."""
    try:
        page = save()
    except PagelabError:
        show(None)
        raise
    show(page)


def check_ended(comparison: Comparison) -> None:
    """Raises PagelabError when a design has no result, or a run ended early."""
    wrong = [
        f"{failure.design} has no result: {failure.error}" for failure in comparison.failures
    ] + [
        f"{comparison.label(run)} ended after {run.accesses:,} accesses: {run.stopped}"
        for run in comparison.runs
        if run.stopped
    ]
    if wrong:
        # Errors of all are in the answer, above.
        more = f" ({len(wrong)} designs did not come to the end)" if len(wrong) > 1 else ""
        raise PagelabError(wrong[0] + more)
