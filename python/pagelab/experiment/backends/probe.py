"""The measuring suite on this machine, `pagelab-probe`."""

import platform
from pathlib import Path
from typing import Any

from pagelab.errors import PagelabError, RunError
from pagelab.experiment import content
from pagelab.experiment.case import Case
from pagelab.experiment.progress import Progress
from pagelab.measuring import probe, result


def case(
    part: str,
    label: str,
    *,
    program: list[str] | None = None,
    quick: bool = False,
    allow_tuning: bool = False,
    inputs: list[Path] | None = None,
) -> Case:
    """A part of the suite, or `all`; for `calls` the program, which may depend on input files.

    The result holds for this machine and its kernel.
    """
    task = {"part": part, "program": program, "quick": quick, "allow_tuning": allow_tuning}
    machine = [platform.node(), platform.machine(), platform.release(), platform.version()]
    found = content.of([probe.find(), *(inputs or [])])
    return Case("probe", label, task, [task, machine, found], alone=True)


def kept(path: Path) -> Case:
    """A result of `pagelab measure`, in place of a new one."""
    file = path / "measurement.json" if path.is_dir() else path
    result.load(file)
    return Case("probe", f"reading {file}", {"file": str(file)}, content.of([file]), alone=True)


def run(task: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """The measurement as JSON (docs/measure.md)."""
    try:
        if "file" in task:
            measured = result.load(Path(task["file"]))
        else:
            measured = probe.run(
                task["part"],
                lambda line: _tell(progress, line),
                quick=task["quick"],
                allow_tuning=task["allow_tuning"],
                program=task["program"],
            )
    except PagelabError as error:
        raise RunError(str(error)) from error
    return measured.model_dump(mode="json")


def _tell(progress: Progress, line: str) -> None:
    progress(0, None, line)
