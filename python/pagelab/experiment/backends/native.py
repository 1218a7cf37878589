"""Programs on this machine, two or more in turns: which is faster, and by how much."""

import platform
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pagelab.errors import InterruptedRunError, PagelabError, RunError
from pagelab.experiment import content
from pagelab.experiment.case import Case
from pagelab.experiment.progress import Progress
from pagelab.measuring import native, probe
from pagelab.measuring.native import Run

# Measure of a run.
Metric = Literal["cpu", "user", "system", "wall", "faults"]


@dataclass(frozen=True)
class Variant:
    """A command, variables of its environment, and whether with huge pages.

    Without `huge_pages` the kernel's setting is left as it is.
    """

    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    huge_pages: bool | None = None


def case(
    label: str, variants: Mapping[str, Variant], against: str, metric: Metric, budget: float
) -> Case:
    """Rounds of all variants, until `metric` over that of `against` is known well enough.

    The result holds for this machine, its kernel, and the programs and files that are named.
    Raises PagelabError for a program that is not here, or huge pages where the kernel has none.
    """
    pages = native.huge_pages()
    if pages.policy is None and any(variant.huge_pages for variant in variants.values()):
        raise PagelabError(f"this kernel gives no huge pages: they are {pages.how}")
    task = {
        "variants": {name: asdict(variant) for name, variant in variants.items()},
        "against": against,
        "metric": metric,
        "budget": budget,
    }
    machine = [platform.node(), platform.machine(), platform.release(), platform.version()]
    named = [_files(variant.command) for variant in variants.values()]
    found = content.of([probe.find(), *(file for files in named for file in files)])
    return Case("native", label, task, [task, machine, pages.mode, found], alone=True)


def run(task: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """The runs of every variant in the order of their rounds, and whether they were enough."""
    variants = {name: Variant(**one) for name, one in task["variants"].items()}
    environment = native.huge_pages().environment

    def settled(runs: Mapping[str, list[Run]]) -> bool:
        below = values(runs[task["against"]], task["metric"])
        others = (
            native.changes(values(found, task["metric"]), below)
            for name, found in runs.items()
            if name != task["against"]
        )
        return all(change is not None and change.narrow for change in others)

    def say(line: str) -> None:
        if not progress(0, None, line):
            raise InterruptedRunError

    settings = {name: partial(_run, one, environment) for name, one in variants.items()}
    try:
        runs = native.interleave(
            settings, lambda runs: () if settled(runs) else runs, task["budget"], say
        )
    except InterruptedRunError:
        raise
    except PagelabError as error:
        raise RunError(str(error)) from error
    found = {name: [run.as_json() for run in of] for name, of in runs.items()}
    return {"runs": found, "settled": settled(runs)}


def values(runs: list[Run], metric: Metric) -> list[float]:
    """Figure of each run: seconds, or a number of page faults."""
    return [getattr(run, metric) for run in runs]


def _run(variant: Variant, asking: Mapping[str, str]) -> Run:
    # A program that is compared with and without huge pages asks for memory alike.
    asks = {} if variant.huge_pages is None else asking
    policy: native.Policy = "none" if variant.huge_pages is False else "own"
    return native.run(variant.command, {**asks, **variant.environment}, policy)


def _files(command: list[str]) -> list[Path]:
    """The program, and the files among its arguments."""
    program = shutil.which(command[0]) if command else None
    if program is None:
        raise PagelabError(f"there is no program {command[0]}" if command else "no program given")
    # A word may name the program that the first one starts, as behind taskset.
    named = (_file(word) for word in command[1:])
    return [Path(program), *(file for file in named if file is not None)]


def _file(word: str) -> Path | None:
    # A word may be anything, also longer than the name of a file can be.
    with suppress(OSError, ValueError):
        found = word if Path(word).is_file() else shutil.which(word)
        return None if found is None else Path(found)
    return None
