"""Runs the simulations of a plan, each kept on disk under all that it depends on."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from pagelab import _core, jobs
from pagelab.errors import PagelabError
from pagelab.jobs import Simulation, Stop
from pagelab.progress import Display
from pagelab.results import Failure, Run


class Kept:
    """Results of simulations, one file each.

    A key covers the compiled simulator itself, so that a change of any model computes anew.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        assert _core.__file__ is not None
        self._simulator = hashlib.sha256(Path(_core.__file__).read_bytes()).hexdigest()
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PagelabError(f"cannot write {directory}: {error.strerror}") from error

    def key(self, simulation: Simulation) -> str:
        """What identifies a result: simulator, design, machine in full, source."""
        machine = json.loads(_core.machine(simulation.machine, simulation.overrides))
        parts = [self._simulator, simulation.design, machine, simulation.source]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]

    def get(self, key: str) -> Run | None:
        """The result under a key; `None` when there is none that can be read."""
        try:
            return Run.model_validate_json((self.directory / f"{key}.json").read_bytes())
        except (OSError, ValidationError):
            return None

    def put(self, key: str, run: Run) -> None:
        """Keeps a result, whole or not at all."""
        file = self.directory / f"{key}.json"
        part = file.with_suffix(".part")
        try:
            part.write_text(run.model_dump_json(by_alias=True), encoding="utf-8")
            part.replace(file)
        except OSError as error:
            raise PagelabError(f"cannot write {file}: {error.strerror}") from error


def run_all(
    simulations: dict[str, Simulation],
    kept: Kept,
    display: Display,
    stop: Stop,
    workers: int | None,
    say: Callable[[str], None],
) -> dict[str, Run | Failure]:
    """The result of every simulation by its key; what is kept already is not computed again."""
    found = {key: kept.get(key) for key in simulations}
    ended: dict[str, Run | Failure] = {key: run for key, run in found.items() if run is not None}
    missing = [key for key, run in found.items() if run is None]
    say(f"{len(simulations)} simulations, of which {len(ended)} are kept already")

    def done(place: int, outcome: Run | Failure) -> None:
        # An interrupted run holds for less than its key says.
        if isinstance(outcome, Run) and outcome.complete:
            kept.put(missing[place], outcome)

    work = [simulations[key] for key in missing]
    outcomes = jobs.simulate_all(work, display, stop, workers, done) if work else []
    return ended | dict(zip(missing, outcomes, strict=True))
