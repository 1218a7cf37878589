"""The table of a sweep: a row a run, and rows of replicates together."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pyarrow
import pyarrow.parquet

from pagelab.errors import PagelabError
from pagelab.experiment.case import Ended, Failed
from pagelab.experiment.store import write
from pagelab.frames import column, flat
from pagelab.intervals import student_t
from pagelab.sweeping.file import Point, Value

DONE, FAILED, MISSING = "done", "failed", "missing"
# Columns of the table that are no results: what comes before them are the axes.
STATUS, ERROR = "status", "error"
# Not in the table: what was asked for, which the axes and the file say, lists, and that a run came
# to its end, which the status says.
_ASKED_FOR = ("machine.", "source.")
_ENDED = "complete"

Row = dict[str, Any]


def rows(found: Iterable[tuple[Point, Ended | None]], axes: list[str]) -> list[Row]:
    """A row a run: its point, what became of it, and every number of its result."""
    return [
        {axis: point.get(axis) for axis in axes} | _status(ended) | _numbers(ended)
        for point, ended in found
    ]


def status(ended: Ended | None) -> str:
    """Status of a run, as the table has it."""
    if ended is None:
        return MISSING
    return FAILED if isinstance(ended, Failed) else DONE


def _status(ended: Ended | None) -> Row:
    return {STATUS: status(ended), ERROR: ended.error if isinstance(ended, Failed) else None}


def _numbers(ended: Ended | None) -> Row:
    if ended is None or isinstance(ended, Failed):
        return {}
    return {
        key: value
        for key, value in flat(ended.data).items()
        if isinstance(value, bool | int | float)
        and key != _ENDED
        and not key.startswith(_ASKED_FOR)
    }


def measures(table: list[Row], axes: list[str]) -> set[str]:
    """The columns that are a number of a result."""
    named = {key for row in table if row[STATUS] == DONE for key in row}
    return named - {*axes, STATUS, ERROR}


def arrow(table: list[Row]) -> pyarrow.Table:
    """The rows as a table of Arrow's."""
    names = dict.fromkeys(key for row in table for key in row)
    columns = {name: column([row.get(name) for row in table]) for name in names}
    # Text though nothing failed: tables of several sweeps are read together.
    columns[ERROR] = pyarrow.array([row[ERROR] for row in table], pyarrow.string())
    return pyarrow.table(columns)


def save(table: list[Row], path: Path) -> None:
    """Writes Parquet, the same bytes for the same rows; raises PagelabError when it cannot."""
    content = BytesIO()
    pyarrow.parquet.write_table(arrow(table), content, compression="zstd")
    write(path, content.getvalue())


def load(path: Path) -> list[Row]:
    """The rows of a Parquet file, or of the sweep's folder that has one."""
    file = path / "sweep.parquet" if path.is_dir() else path
    if not file.is_file():
        compared = path.is_dir() and (path / "result.json").is_file()
        but = f": {path} is a result of `pagelab compare`, not of a sweep" if compared else ""
        raise PagelabError(f"there is no table {file}{but}")
    try:
        # Opened here: Arrow takes no names that are not text.
        with file.open("rb") as stream:
            # Without threads of Arrow's: at the end one may still let go of Python's file, and the
            # process is aborted.
            opened = pyarrow.parquet.ParquetFile(stream, pre_buffer=False)
            found: list[Row] = opened.read(use_threads=False).to_pylist()
    except (OSError, pyarrow.ArrowInvalid) as error:
        raise PagelabError(f"cannot read {file}: {error}") from error
    return found


@dataclass(frozen=True)
class Estimate:
    """A mean over so many seeds and half its 95 % confidence interval; `None` for a single run."""

    mean: float
    half: float | None
    runs: int

    @staticmethod
    def of(values: list[float]) -> "Estimate":
        """Student's interval: seeds are independent."""
        if len(values) < 2:
            return Estimate(fmean(values), None, len(values))
        half = student_t(len(values) - 1) * stdev(values) / math.sqrt(len(values))
        return Estimate(fmean(values), half, len(values))


@dataclass(frozen=True)
class Summary:
    """A point without its seed; `relative` to the baseline where there is one.

    A measure that a replicate lacks is left out.
    """

    point: Point
    runs: int
    failed: int
    measures: dict[str, Estimate]
    relative: dict[str, Estimate]


def summaries(
    table: list[Row], axes: list[str], measures: list[str], baseline: dict[str, Value]
) -> list[Summary]:
    """The replicates of each point together, in order.

    A run is divided by the baseline's of the same seed, so that what both have in common cancels.
    """
    shown = [axis for axis in axes if axis != "seed"]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in table:
        groups.setdefault(tuple(row[axis] for axis in shown), []).append(row)
    by_point = {tuple(row[axis] for axis in axes): row for row in table}
    found = []
    for key, members in groups.items():
        done = [row for row in members if row["status"] == DONE]
        values = {m: [row[m] for row in done if row.get(m) is not None] for m in measures}
        ratios = {m: [_ratio(row, by_point, axes, baseline, m) for row in done] for m in measures}
        found.append(
            Summary(
                {axis: value for axis, value in zip(shown, key, strict=True) if value is not None},
                len(done),
                len(members) - len(done),
                {m: Estimate.of(v) for m, v in values.items() if v},
                {
                    m: Estimate.of([value for value in v if value is not None])
                    for m, v in ratios.items()
                    if baseline and any(value is not None for value in v)
                },
            )
        )
    return found


def _ratio(
    row: Row,
    by_point: dict[tuple[Any, ...], Row],
    axes: list[str],
    baseline: dict[str, Value],
    measure: str,
) -> float | None:
    base = by_point.get(tuple(baseline.get(axis, row[axis]) for axis in axes))
    if base is None or not base.get(measure) or row.get(measure) is None:
        return None
    return float(row[measure]) / float(base[measure])
