"""The simulator: one design on one machine over one source."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from pagelab import _core
from pagelab.design import check
from pagelab.errors import InterruptedRunError, PagelabError, RunError, cannot
from pagelab.experiment import traces
from pagelab.experiment.case import Case
from pagelab.experiment.content import simulator_version
from pagelab.experiment.progress import Progress
from pagelab.units import parse_size

# A worker process, and what the simulator keeps for a page of simulated memory: at most 16 bytes.
PROCESS_BYTES = 96 << 20
_BYTES_A_BYTE = 1 / 256
# Programs that have a graph or an index made before they begin keep one byte of each so many that
# their data would take; these have none.
_FOOTPRINT_A_BYTE = 64
_KEEP_NOTHING = ("dlrm", "kmer", "pointer-chase", "random-updates", "stream", "xsbench")
# Parts of a result about programs and sources as they are where it is made: no part of what it is.
_OF_THIS_MACHINE = ("lines", "changed_files")


@cache
def _presets() -> frozenset[str]:
    return frozenset(name for name, _ in _core.machines())


def case(label: str, design: str, on: str, overrides: list[str], source: dict[str, Any]) -> Case:
    """A simulation on a machine: a preset or a file, whose text goes with the case.

    Traces in the source are named by path or address, and known by their content.
    Raises UsageError for a machine, and PagelabError for a trace, that cannot be had.
    """
    config = check(on, overrides)
    with cannot("read", on):
        described = on if on in _presets() else {"toml": Path(on).read_text(encoding="utf-8")}
    source = traces.named_by_content(source)
    return Case(
        backend="simulate",
        label=label,
        task={
            "design": design,
            "machine": described,
            "overrides": overrides,
            "source": source,
            "version": simulator_version(),
        },
        depends=[simulator_version(), design, config, traces.content_of(source)],
        memory=PROCESS_BYTES
        + round(config["memory"]["memory_bytes"] * _BYTES_A_BYTE)
        + sum(_kept_by(program) for program in source.get("programs", [source])),
    )


def _kept_by(program: dict[str, Any]) -> int:
    """Bytes at most that a built-in program has of its own data while it is simulated."""
    if program["kind"] != "workload" or program["name"] in _KEEP_NOTHING:
        return 0
    known = {name: default for name, _, default, *_ in _core.workload_parameters(program["name"])}
    given = program["parameters"].get("footprint")
    footprint = known.get("footprint", 0) if given is None else parse_size(given)
    return footprint // _FOOTPRINT_A_BYTE


def check_version(task: dict[str, Any]) -> None:
    """Raises PagelabError when another version planned the task."""
    if task["version"] != simulator_version():
        raise PagelabError(
            "this machine has another version of the simulator than the one that planned the run: "
            "install the same pagelab on all machines"
        )


def run(task: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """The result as docs/simulate.md describes it, as JSON."""
    check_version(task)
    source = traces.fetched(task["source"])
    with machine_file(task["machine"]) as on:
        return _simulate(task, on, source, progress)


@contextmanager
def machine_file(described: str | dict[str, str]) -> Iterator[str]:
    """The machine of a task as the compiled part takes it.

    Raises PagelabError when there is no room for a file.
    """
    if isinstance(described, str):
        yield described
        return
    with ExitStack() as left:
        try:
            file = left.enter_context(
                tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8")
            )
            file.write(described["toml"])
            file.flush()
        except OSError as error:
            # An error of this machine and not of the run, which is not to blame for it.
            raise PagelabError(
                f"cannot write a temporary file: {error.strerror} (TMPDIR names another folder)"
            ) from error
        yield file.name


class Told:
    """A case's progress, as the native module asks for it. Once ended, it stays so."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.stopped = False

    def __call__(self, done: int, total: int | None) -> bool:
        """False to end the run."""
        self.stopped = self.stopped or not self.progress(done, total)
        return not self.stopped


def _simulate(
    task: dict[str, Any], on: str, source: dict[str, Any], progress: Progress
) -> dict[str, Any]:
    told = Told(progress)
    try:
        text = _core.simulate(task["design"], on, task["overrides"], json.dumps(source), told)
    except _core.Error as error:
        raise RunError(str(error)) from error
    found: dict[str, Any] = json.loads(text)
    if told.stopped:
        raise InterruptedRunError("interrupted")
    if not found["complete"]:
        raise RunError(found["stopped"] or "ended early")
    for name in _OF_THIS_MACHINE:
        found.pop(name, None)
    return found | {"source": traces.content_of(task["source"])}
