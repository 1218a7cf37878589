"""Options that several commands share."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from pagelab import _core, units
from pagelab.errors import UsageError, unknown
from pagelab.jobs import Simulation
from pagelab.recording import Window
from pagelab.sources import together

# Windows of --sampled: enough for an interval from Student's t.
WINDOWS = 30

Machine = Annotated[
    str, typer.Option("--machine", "-m", help="A preset (pagelab list machines) or a TOML file.")
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
    ),
]
Copies = Annotated[
    int, typer.Option("--copies", min=1, help="Run each program so many times at once.")
]
Thp = Annotated[bool, typer.Option("--thp", help="Back memory with 2 MB pages where it fits.")]
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
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
IsQuiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")]
Skip = Annotated[
    str | None, typer.Option("--skip", help="Leave out the first N accesses (5000, 10M, 1.5G).")
]
Limit = Annotated[str | None, typer.Option("--limit", help="Take at most N accesses.")]
Sample = Annotated[
    str | None, typer.Option("--sample", help="Take ON accesses of every PERIOD: --sample 1M:20M.")
]
InInstructions = Annotated[
    bool,
    typer.Option("--instructions", help="Count --skip, --limit, --sample in instructions."),
]
WarmUp = Annotated[
    str | None,
    typer.Option("--warm-up", help="Do not measure the first N accesses after what is left out."),
]
Sampled = Annotated[
    bool, typer.Option("--sampled", help="Sample a built-in program, however short, in 30 windows.")
]
Full = Annotated[bool, typer.Option("--full", help="Simulate every access of a built-in program.")]
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


def source(
    trace: Path | None, workload: str | None, window: Window, sampling: dict[str, str] | None = None
) -> dict[str, Any]:
    """A part of the source that exactly one of the two options names."""
    if (trace is None) == (workload is None):
        raise UsageError("give either --trace or --workload")
    if trace is not None:
        if sampling:
            raise UsageError("a trace is sampled with --sample, not with --sampled or --windows")
        if not trace.exists():
            raise UsageError(f"there is no trace {trace}")
        return {
            "kind": "trace",
            "name": trace.stem,
            "path": str(trace),
            "window": asdict(window),
        }
    assert workload is not None
    name, _, parameters = workload.partition(":")
    valid = [known for known, _ in _core.workloads()]
    if name not in valid:
        raise unknown("workload", name, valid)
    return {
        "kind": "workload",
        "name": name,
        "parameters": _parameters(parameters) | (sampling or {}),
        "window": asdict(window),
    }


def sources(
    traces: list[Path] | None,
    workloads: list[str] | None,
    window: Window,
    sampling: dict[str, str] | None = None,
    copies: int = 1,
) -> dict[str, Any]:
    """What runs: one source, or several at once with a core each."""
    if not traces and not workloads:
        raise UsageError("give --trace or --workload")
    programs = [source(trace, None, window, sampling) for trace in traces or []]
    programs += [source(None, workload, window, sampling) for workload in workloads or []]
    return together(programs, copies)


def _parameters(text: str) -> dict[str, str]:
    """`pages=1M,loads=10M` as a table."""
    parameters = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"'{part}' is not a parameter; write it as KEY=VALUE")
        parameters[key.strip()] = value.strip()
    return parameters


@dataclass(frozen=True)
class Design:
    """A design, with keys of its own changed: `radix:levels=5` is radix with `radix.levels=5`."""

    label: str
    name: str
    overrides: list[str]


def designs(text: str | None) -> list[Design]:
    """The designs of a comma-separated list, in which `all` stands for every one.

    Without a list, every page table with the TLB that processors have and no virtual machine: the
    others are several times as many.
    """
    valid = [known for known, _ in _core.designs()]
    if text is None:
        return [Design(name, name, []) for name in valid if name.isidentifier()]
    if text.strip() == "all":
        return [Design(name, name, []) for name in valid]
    labels = list(dict.fromkeys(filter(None, (part.strip() for part in text.split(",")))))
    if not labels:
        raise UsageError(f"no design is named. Valid: {', '.join(valid)}")
    chosen = []
    for label in labels:
        name, *changes = label.split(":")
        if name not in valid:
            raise unknown("design", name, valid)
        chosen.append(Design(label, name, [_key(name, change) for change in changes]))
    return chosen


def _key(design: str, change: str) -> str:
    """The key of the machine that a design's change is of.

    Designs of several parts name the part: `dpt+mosaic:mosaic.pages=16`.
    """
    parts = design.removeprefix("nested-").split("+") + ["nested"] * design.startswith("nested-")
    return change if change.split(".")[0] in parts else f"{parts[0]}.{change}"


def manager(text: str) -> str:
    """The key of the machine that names a memory manager: `interleave:weights=3:2`."""
    valid = [known for known, _ in _core.managers()]
    name, _, rest = text.partition(":")
    if name not in valid:
        raise unknown("manager", name, valid)
    keys = [f"{key}={_toml(value)}" for key, value in _parameters(rest).items()]
    return f"memory.manager={{{', '.join([f'name={json.dumps(name)}', *keys])}}}"


def _toml(value: str) -> str:
    """A number as it is, anything else as a string."""
    try:
        float(value)
    except ValueError:
        return json.dumps(value)
    return value


def simulations(
    designs: list[Design],
    machine: str,
    changes: list[str] | None,
    source: dict[str, Any],
    *,
    thp: bool,
    seed: int | None,
    memory_manager: str | None = None,
) -> list[Simulation]:
    """One simulation a design, each machine checked before anything long starts."""
    common = list(changes or [])
    if thp:
        common.append("memory.page_policy=thp")
    if memory_manager is not None:
        common.append(manager(memory_manager))
    if seed is not None:
        common.append(f"seed={seed}")
    made = []
    for design in designs:
        keys = common + design.overrides
        try:
            _core.machine(machine, keys)
        except _core.Error as error:
            raise UsageError(str(error)) from error
        made.append(Simulation(design.label, design.name, machine, keys, source))
    return made


def window(
    skip: str | None,
    limit: str | None,
    sample: str | None,
    in_instructions: bool = False,
    warm_up: str | None = None,
) -> Window:
    """Which part to take."""
    pair = None
    if sample:
        on, colon, period = sample.partition(":")
        if not colon:
            raise UsageError(f"'{sample}' is not a sample; write it as ON:PERIOD, like 1M:20M")
        pair = units.parse_count(on), units.parse_count(period)
        if not 0 < pair[0] <= pair[1]:
            raise UsageError(f"--sample {sample}: ON must be above 0 and not above PERIOD")
    return Window(
        skip=units.parse_count(skip) if skip else 0,
        limit=units.parse_count(limit) if limit else None,
        sample=pair,
        in_instructions=in_instructions,
        warm_up=units.parse_count(warm_up) if warm_up else 0,
    )
