"""The files of experiments/: a folder a paper, in it `paper.toml` and a file a figure or table."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pagelab import files
from pagelab.errors import PagelabError, cannot, fault, unknown
from pagelab.experiment.case import Case, Ended
from pagelab.reproduce.claim import Claim
from pagelab.reproduce.outcome import Outcome

COMMON = "paper.toml"


class Model(BaseModel):
    """A table of a file: a key that it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Workload(Model):
    """A row of a figure: a workload at the footprint the paper gives, in GiB.

    `parameters` are others of the workload's, `copies` run at once, and `limit` is how many
    accesses of it are taken.
    """

    name: str
    label: str
    group: str | None = None
    footprint_gib: float = Field(gt=0)
    parameters: dict[str, str] = {}
    copies: int = Field(default=1, gt=0)
    limit: int | None = None


class Common(Model):
    """paper.toml: what a paper's figures have in common.

    `notes` are of all figures, and `missing` is what the paper has and this does not, whatever
    machine it runs on. The rest is for simulations: `set` are keys of the machine that the paper
    decides otherwise than the machine's file, and `sample` is what is simulated of a workload
    unless it is run whole, parameters of every workload such as `windows` (docs/workloads.md).
    """

    title: str
    notes: list[str] = []
    missing: list[str] = []
    machine: str = ""
    set: list[str] = []
    sample: dict[str, int] = {}
    workload: list[Workload] = []


@dataclass(frozen=True)
class Changes:
    """Changes by the command line against the files, to see what a number hangs on.

    Of simulations: whole programs, keys of all machines changed, another footprint for all
    workloads, several copies of each at once. Of measurements of this machine: a result to take
    instead, a quick one, and whether settings of the kernel may be changed for it.
    """

    full: bool = False
    set: tuple[str, ...] = ()
    footprint_gib: float | None = None
    copies: int = 1
    measured: Path | None = None
    quick: bool = False
    allow_tuning: bool = False

    def check_may_run(self) -> None:
        """Raises PagelabError where programs are not to be run on this machine."""
        if self.measured is not None:
            raise PagelabError(
                "it is of programs that run on this machine, and --measured says to measure nothing"
            )


class Experiment(Protocol):
    """One figure or table: what to run for it, and what its numbers say.

    A kind of experiment is a pydantic model of its file with these two methods, listed in KINDS
    (`kinds.py`). `cases` names each case it needs as it likes, and gets back how they ended under
    the same names. It raises PagelabError for what this machine cannot run.
    """

    title: str
    shows: str
    notes: list[str]
    claim: list[Claim]

    def cases(self, paper: "Paper", changes: Changes) -> dict[Any, Case]:
        """Cases to run."""

    def outcome(self, paper: "Paper", ended: Mapping[Any, Ended]) -> Outcome:
        """The numbers, out of what came of the cases."""


class Shown(Model):
    """Common parts of the files of experiments: title, what it shows, notes, and claims."""

    title: str
    shows: str
    notes: list[str] = []
    claim: list[Claim] = []


@dataclass(frozen=True)
class Paper:
    """A folder of experiments/."""

    name: str
    folder: Path
    common: Common
    figures: dict[str, Experiment]


def names() -> list[str]:
    """The papers there are."""
    return sorted(file.parent.name for file in files.experiments().glob(f"*/{COMMON}"))


def load(folder: Path, wanted: list[str], kinds: Mapping[str, type[BaseModel]]) -> Paper:
    """A paper and those of its figures that are wanted; all of them if none is named.

    Raises PagelabError that names the file and the key, or the figure that does not exist.
    """
    common = read(folder / COMMON, Common)
    there = {path.stem: path for path in sorted(folder.glob("*.toml")) if path.name != COMMON}
    for name in wanted:
        if name not in there:
            raise unknown("figure", name, there)
    figures: dict[str, Any] = {}
    for name, path in there.items():
        if name in wanted or not wanted:
            kind = _raw(path).get("kind", "simulate")
            if kind not in kinds:
                raise PagelabError(f"{path}: kind: {unknown('kind', str(kind), kinds)}")
            figures[name] = read(path, kinds[kind])
            if hasattr(figures[name], "check"):
                figures[name].check(path, common)
    return Paper(folder.name, folder, common, figures)


_M = TypeVar("_M", bound=BaseModel)


def _raw(path: Path) -> dict[str, Any]:
    try:
        with cannot("read", path):
            return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PagelabError(f"{path}: {error}") from error


def read(path: Path, model: type[_M]) -> _M:
    """A file as a model; raises PagelabError that names the file and the key."""
    try:
        return model.model_validate(_raw(path))
    except ValidationError as error:
        raise PagelabError(f"{path}: {fault(error)}") from error
