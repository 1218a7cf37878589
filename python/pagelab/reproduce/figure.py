"""The files of experiments/: a paper's system, and its figures."""

import tomllib
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

import pagelab
from pagelab.errors import PagelabError, unknown
from pagelab.reproduce.metrics import METRICS

SYSTEM = "system.toml"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Workload(_Model):
    """A row of a figure: a workload at the footprint the paper gives, in GiB."""

    name: str
    label: str
    group: str | None = None
    footprint_gib: float = Field(gt=0)


class System(_Model):
    """What a paper's figures have in common.

    `set` are keys of the machine that the paper decides otherwise than the machine's file.
    `sample` is what is simulated of a workload unless it is run whole: parameters of every
    workload, such as `windows` (docs/workloads.md).
    """

    title: str
    machine: str
    set: list[str] = []
    sample: dict[str, int]
    workload: list[Workload]


class Series(_Model):
    """A bar or line: a design on the machine with keys of it changed.

    `against` names the series that it is divided by; without it the metric itself is shown.
    A hidden series is only there to be divided by. `metric` replaces the figure's.
    """

    name: str
    design: str
    set: list[str] = []
    against: str | None = None
    metric: str | None = None
    hidden: bool = False


class Claim(_Model):
    """A number in the paper's text.

    `row` is a workload, a group or "mean"; with `against`, the ratio of what two series show.
    """

    says: str
    series: str
    against: str | None = None
    row: str = "mean"
    value: float
    relation: Literal["equal", "below"] = "equal"


class _Shown(_Model):
    """What every figure says of itself."""

    title: str
    shows: str
    notes: list[str] = []


class Collisions(_Shown):
    """How often a key meets another one in a hashed table, by the table's size.

    Sizes are in KiB; a row is named by its size. Shown relative to the first size.
    """

    kind: Literal["collisions"]
    table_kib: list[int]
    addresses: int = Field(gt=0)
    claim: list[Claim] = []


class Figure(_Shown):
    """One figure: a metric of every series over every workload.

    `footprint_gib` replaces the workloads' own, `memory_gib` what would be chosen for it.
    `sample` replaces the system's; `mean` is how workloads are averaged.
    """

    kind: Literal["runs"] = "runs"
    metric: str
    mean: Literal["geometric", "arithmetic"] = "arithmetic"
    workloads: list[str] | None = None
    footprint_gib: float | None = Field(default=None, gt=0)
    memory_gib: int | None = Field(default=None, gt=0)
    sample: dict[str, int] | None = None
    series: list[Series]
    claim: list[Claim] = []

    @model_validator(mode="after")
    def _names_exist(self) -> "Figure":
        names = {series.name for series in self.series}
        used = [s.against for s in self.series] + [c.against for c in self.claim]
        missing = {name for name in [*used, *(c.series for c in self.claim)] if name} - names
        if missing:
            raise ValueError(f"there is no series {', '.join(sorted(missing))}")
        for metric in [self.metric, *(s.metric for s in self.series if s.metric)]:
            if metric not in METRICS:
                raise ValueError(f"there is no metric {metric}; there are {', '.join(METRICS)}")
        return self


class Paper(_Model):
    """A folder of experiments/."""

    name: str
    system: System
    figures: dict[str, Figure | Collisions]


def experiments() -> Path:
    """The folder of the checkout this package runs from.

    Raises PagelabError when pagelab was installed without it.
    """
    folder = Path(pagelab.__file__).resolve().parents[2] / "experiments"
    if not folder.is_dir():
        raise PagelabError(
            f"there is no {folder}: `pagelab reproduce` needs a checkout of pagelab (make setup)"
        )
    return folder


_M = TypeVar("_M", bound=BaseModel)


def load(folder: Path, wanted: list[str]) -> Paper:
    """A paper and those of its figures that are wanted; all of them if none is named.

    Raises PagelabError that names the file and the key, or the figure that does not exist.
    """
    system = _read(folder / SYSTEM, System)
    files = {path.stem: path for path in sorted(folder.glob("*.toml")) if path.name != SYSTEM}
    for name in wanted:
        if name not in files:
            raise unknown("figure", name, files)
    figures = {name: _figure(path) for name, path in files.items() if name in wanted or not wanted}
    labels = {workload.label for workload in system.workload}
    for name, figure in figures.items():
        for label in getattr(figure, "workloads", None) or []:
            if label not in labels:
                raise PagelabError(f"{files[name]}: {SYSTEM} has no workload {label}")
    return Paper(name=folder.name, system=system, figures=figures)


class _Kind(BaseModel):
    kind: Literal["runs", "collisions"] = "runs"


def _figure(path: Path) -> Figure | Collisions:
    kind = _read(path, _Kind).kind
    return _read(path, Collisions) if kind == "collisions" else _read(path, Figure)


def _read(path: Path, model: type[_M]) -> _M:
    try:
        return model.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise PagelabError(f"cannot read {path}: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise PagelabError(f"{path}: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "top level"
        raise PagelabError(f"{path}: {place}: {first['msg']}") from error
