"""Sources of simulations: a trace, a built-in program, or several of them at once.

The compiled part reads a description of it in JSON, which `describe` makes.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pagelab import _core
from pagelab.errors import UsageError, unknown
from pagelab.window import Window


@dataclass(frozen=True)
class Trace:
    """A trace in a file: pagelab's own, ChampSim's, Lackey's or CSV, told by what is in it.

    >>> Trace("sort.trace").name
    'sort'
    """

    path: str | os.PathLike[str]

    @property
    def name(self) -> str:
        """Name in results."""
        # Files' names need not be text; results are.
        return os.fsencode(Path(self.path).stem).decode(errors="replace")

    def describe(self, window: Window) -> dict[str, Any]:
        """The trace, or a part of it, for the compiled part. Raises UsageError if there is none."""
        if not Path(self.path).exists():
            raise UsageError(f"there is no trace {os.fspath(self.path)}")
        return {
            "kind": "trace",
            "name": self.name,
            "path": os.fspath(self.path),
            "window": asdict(window),
        }


@dataclass(frozen=True)
class Workload:
    """A built-in program; `pagelab.workloads` has a function for each."""

    name: str
    parameters: Mapping[str, str] = field(default_factory=dict)

    def describe(self, window: Window) -> dict[str, Any]:
        """The program, or a part of it, for the compiled part."""
        return {
            "kind": "workload",
            "name": self.name,
            "parameters": dict(self.parameters),
            "window": asdict(window),
        }

    def __str__(self) -> str:
        given = ",".join(f"{key}={value}" for key, value in self.parameters.items())
        return f"{self.name}:{given}" if given else self.name

    def __repr__(self) -> str:
        return f"Workload('{self}')"


@dataclass(frozen=True)
class Programs:
    """Several programs at once, each on a core and in an address space of its own."""

    programs: tuple[Trace | Workload, ...]

    @property
    def name(self) -> str:
        """Names in results."""
        return "+".join(program.name for program in self.programs)

    def describe(self, window: Window) -> dict[str, Any]:
        """The programs for the compiled part; the window is of each of them."""
        return together([program.describe(window) for program in self.programs], 1)


Source = Trace | Workload | Programs


def is_built_in(source: Source) -> bool:
    """True if nothing of it is a trace."""
    programs = source.programs if isinstance(source, Programs) else (source,)
    return all(isinstance(program, Workload) for program in programs)


def at_once(*programs: Trace | Workload, copies: int = 1) -> Source:
    """Programs that run at once, each so many times.

    >>> from pagelab import workloads
    >>> at_once(workloads.bfs(), workloads.stream(), copies=2).name
    'bfs+bfs+stream+stream'
    """
    every = tuple(program for program in programs for _ in range(copies))
    return every[0] if len(every) == 1 else Programs(every)


def together(programs: list[dict[str, Any]], copies: int) -> dict[str, Any]:
    """As `at_once`, of what `describe` makes."""
    programs = [program for program in programs for _ in range(copies)]
    if len(programs) == 1:
        return programs[0]
    return {
        "kind": "programs",
        "name": "+".join(program["name"] for program in programs),
        "programs": programs,
    }


def each_trace(
    source: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
    """A description with each of its traces changed."""
    if source["kind"] == "programs":
        return source | {"programs": [each_trace(one, change) for one in source["programs"]]}
    return change(source) if source["kind"] == "trace" else source


def workload(name: str, parameters: Mapping[str, object]) -> Workload:
    """A built-in program with some parameters set; those that are `None` are not.

    Raises UsageError for a program, a parameter or a value that there is not.
    """
    valid = [known for known, _ in _core.workloads()]
    if name not in valid:
        raise unknown("workload", name, valid)
    given = {key: str(value) for key, value in parameters.items() if value is not None}
    made = Workload(name, given)
    try:
        _core.check_source(json.dumps(made.describe(Window())))
    except _core.Error as error:
        raise UsageError(str(error)) from error
    return made


def parse_workload(text: str, more: Mapping[str, str] | None = None) -> Workload:
    """A built-in program as the command line takes it, with more parameters beside.

    >>> parse_workload("pointer-chase:pages=4k,loads=10k")
    Workload('pointer-chase:pages=4k,loads=10k')
    """
    name, _, rest = text.partition(":")
    return workload(name, parameters(rest.split(",")) | dict(more or {}))


def parameters(parts: Iterable[str]) -> dict[str, str]:
    """`KEY=VALUE`, each of them, as a table. Raises UsageError for what is no such thing."""
    found = {}
    for part in filter(None, parts):
        key, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"'{part}' is not a parameter; write it as KEY=VALUE")
        found[key.strip()] = value.strip()
    return found
