"""From the points of a sweep to simulations."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pagelab import window as window_
from pagelab.design import Design
from pagelab.errors import PagelabError, UsageError
from pagelab.experiment.backends import simulate
from pagelab.experiment.case import Case
from pagelab.machine import manager
from pagelab.sources import parse_workload, together
from pagelab.sweeping.file import AXES, WORKLOAD_PARAMETER, Point, Sweep, Value


def plan(sweep: Sweep, folder: Path) -> list[tuple[Point, Case]]:
    """A simulation a point, in order; `folder` is where paths in the file start from.

    Raises UsageError for a design, workload or key of the machine that does not exist.
    """
    sweep = _with_files(sweep, folder)
    return [(point, _case(sweep, point, folder)) for point in sweep.points()]


def _with_files(sweep: Sweep, folder: Path) -> Sweep:
    """The sweep with patterns such as traces/*.trace replaced by the files there are."""
    if "trace" not in sweep.vary:
        return sweep
    found: list[Value] = []
    for pattern in map(str, sweep.vary["trace"]):
        plain = "://" in pattern or not set("*?[") & set(pattern)
        # A file may be called what would be a pattern.
        found += [pattern] if plain or (folder / pattern).exists() else _files(pattern, folder)
    # Two patterns may stand for the same file, which is no replicate of itself.
    return sweep.model_copy(update={"vary": sweep.vary | {"trace": list(dict.fromkeys(found))}})


def _files(pattern: str, folder: Path) -> list[str]:
    """The files that a pattern stands for; raises PagelabError when there is none."""
    if Path(pattern).is_absolute():
        top = Path(Path(pattern).anchor)
        files = [str(file) for file in sorted(top.glob(str(Path(pattern).relative_to(top))))]
    else:
        files = [str(file.relative_to(folder)) for file in sorted(folder.glob(pattern))]
    if not files:
        raise PagelabError(f"no file is called {folder / pattern}")
    return files


def _case(sweep: Sweep, point: Point, folder: Path) -> Case:
    machine = str(point.get("machine", sweep.machine))
    if machine.endswith(".toml"):
        machine = str(folder / machine)
    design = Design.parse(str(point.get("design", "radix")))
    keys = [_key(key, value) for key, value in sweep.set.items()]
    keys += [
        _key(key, value)
        for key, value in point.items()
        if "." in key and not key.startswith(WORKLOAD_PARAMETER)
    ]
    keys += [f"seed={point['seed']}"] if "seed" in point else []
    keys += manager(str(point["manager"])) if "manager" in point else []
    for key in (override.partition("=")[0] for override in design.overrides):
        # The design's own would count, and the table say the other.
        if key in point:
            raise UsageError(
                f"{design} has a value of {key}, which varies, too: give one of the two"
            )
    label = " ".join(_short(key, value) for key, value in point.items())
    copies = point.get("copies", 1)
    if not isinstance(copies, int) or isinstance(copies, bool) or copies < 1:
        raise UsageError(f"copies: {copies!r} is not a whole number above 0")
    source = together([_source(sweep, point, folder)], copies)
    return simulate.case(label, design.name, machine, keys + design.overrides, source)


def _source(sweep: Sweep, point: Point, folder: Path) -> dict[str, Any]:
    asked = sweep.window
    window = window_.parse(asked.skip, asked.limit, asked.sample, asked.instructions, asked.warm_up)
    if "trace" in point:
        trace = str(point["trace"])
        path = trace if "://" in trace else str(folder / trace)
        stem = Path(trace.partition("#")[0]).stem
        return {"kind": "trace", "name": stem, "path": path, "window": asdict(window)}
    parameters = {
        key.removeprefix(WORKLOAD_PARAMETER): str(value)
        for key, value in point.items()
        if key.startswith(WORKLOAD_PARAMETER)
    }
    program = parse_workload(str(point["workload"]), parameters)
    if "seed" in point and "seed" not in program.parameters:
        # Replicates of one set of data would lie closer together than the program's runs do.
        program = parse_workload(str(point["workload"]), parameters | {"seed": str(point["seed"])})
    return program.describe(window)


def _key(key: str, value: Value) -> str:
    if key in AXES:
        raise UsageError(f"set: {key} is no key of the machine: vary it, with a list of one value")
    # In quotes it would be a word, and not that a part is left out.
    return f"{key}=none" if value == "none" else f"{key}={json.dumps(value)}"


def _short(key: str, value: Value) -> str:
    return str(value) if key in ("workload", "design", "trace") else f"{key}={value}"
