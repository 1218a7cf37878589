"""The file of an advice, read back."""

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from pagelab.advising import trials
from pagelab.advising.show import SCHEMA
from pagelab.advising.trials import Ratio
from pagelab.counts import Model, Natural
from pagelab.errors import PagelabError, cannot, fault
from pagelab.measuring.native import Policy
from pagelab.results import check_version

FILE = "advice.json"
_KIND = SCHEMA.partition("/")[0] + "/"


class Times(Model):
    """One run: seconds, page faults, and the figure of a server's load."""

    user: float
    system: float
    wall: float
    faults: Natural
    rate: float | None = None

    @property
    def cpu(self) -> float:
        """Seconds of processor time."""
        return self.user + self.system


class Interval(Model):
    """A ratio with its interval, which has no ends where rounds were too few."""

    median: float
    low: float | None
    high: float | None

    @property
    def ratio(self) -> Ratio:
        """The same, open where it has no ends."""
        if self.low is None or self.high is None:
            return Ratio(self.median, 0.0, float("inf"))
        return Ratio(self.median, self.low, self.high)


class Tried(Model):
    """Runs with one setting."""

    runs: list[Times]
    peak_bytes: Natural
    huge_page_bytes: Natural
    remote_bytes: Natural

    def median(self, figure: str) -> Ratio:
        """A figure of runs, with the interval of its median."""
        values = [getattr(run, figure) or 0.0 for run in self.runs]
        return trials.ratio(values, [1.0] * len(values))


class Named(Model):
    """A setting: what a candidate is (candidates.py)."""

    name: str
    environment: dict[str, str]
    policy: Policy
    kernel: list[str]


class Idle(Named, Tried):
    """A setting that did nothing, in its only run."""


class Setting(Idle):
    """A setting, and the verdict on it."""

    effect: str
    faster: Interval
    faster_wall: Interval
    faster_overall: float | None
    slower_rounds: Natural
    rounds_needed: Natural | None
    predicted: float | None


class Saved(Model):
    """An advice as its file has it."""

    schema_: Literal["pagelab.advice/3"] = Field(alias="schema")
    command: list[str]
    host: dict[str, str]
    answer: str
    setting: Named | None
    type: list[str]
    """Command lines that run the program with it."""
    rounds: Natural
    interrupted: bool
    noise: Interval
    unchanged: Tried
    tried: list[Setting]
    idle: list[Idle]
    disagreements: list[str]
    model: dict[str, Any] | None
    not_tried: list[dict[str, str]]

    @property
    def rated(self) -> bool:
        """True for a server whose load says how much it gets done."""
        return all(run.rate is not None for run in self.unchanged.runs)


def is_advice(path: Path) -> bool:
    """True for an advice's file, or the folder of one."""
    file = path / FILE if path.is_dir() else path
    try:
        return _schema(file.read_bytes()).startswith(_KIND)
    except OSError:
        return False


def _schema(text: bytes) -> str:
    """Version of a file's form; empty where it has none."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    return str(raw.get("schema")) if isinstance(raw, dict) else ""


def load(path: Path) -> Saved:
    """Reads an advice's file, or the folder of one. Raises PagelabError where it is none."""
    file = path / FILE if path.is_dir() else path
    with cannot("read", file):
        text = file.read_bytes()
    check_version(file, _schema(text), SCHEMA, "advise")
    try:
        found = Saved.model_validate_json(text)
    except ValidationError as error:
        raise PagelabError(f"{file} is no advice: {fault(error)}") from error
    if not found.unchanged.runs or not all(one.runs for one in found.tried):
        raise PagelabError(f"{file} is no advice: a setting has no runs")
    return found
