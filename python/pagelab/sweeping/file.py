"""The file of a sweep: what is varied, where, how often, what is shown of it (docs/sweep.md)."""

import math
import operator
import tomllib
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pagelab.errors import PagelabError, UsageError, fault, unknown

Value = str | int | float | bool
Point = dict[str, Value]

# One to begin with.
EXAMPLE = Path(__file__).with_name("example.toml")

# Axes beside keys of the machine, which have a dot in them.
WORKLOAD_PARAMETER = "workload."
AXES = ("workload", "trace", "design", "machine", "seed", "copies", "manager")
_COMPARISONS = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_SIGNS = tuple(_COMPARISONS)
# More is no sweep's file, but what was named by mistake: it is parsed as a whole.
_MOST_BYTES = 4 << 20
# Limit of combinations, before conditions: each takes memory, and a simulation.
_MOST_POINTS = 1_000_000


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Window(_Table):
    """Part of each program or trace that is taken, as the options of the same names say."""

    skip: str | None = None
    limit: str | None = None
    sample: str | None = None
    warm_up: str | None = None
    instructions: bool = False


class Only(BaseModel):
    """Points that have these values are run only where `where` holds too."""

    model_config = ConfigDict(extra="allow", frozen=True)

    where: dict[str, Value | list[Value]]

    @property
    def values(self) -> dict[str, Any]:
        """Values that a point must have for the condition to concern it."""
        return self.model_extra or {}

    def allows(self, point: Point) -> bool:
        """True if a point may be run."""
        return not matches(point, self.values) or matches(point, self.where)


class Plot(_Table):
    """Small multiples: a chart a value of `each`, a line a value of `line`, over `x`.

    With `pareto`, points instead: the least of both `x` and `y` are joined.
    """

    y: str
    x: str
    line: str | None = None
    each: str | None = None
    pareto: bool = False


class Sweep(_Table):
    """A file.

    `vary` has a list of values for each axis, and every combination of them is run with each entry
    of `together`, whose keys change together. `set` are keys of the machine that do not vary.
    `replicates` runs each point with so many seeds. `baseline` names values of the points that the
    others are divided by. `measure` are columns of the table that are shown.
    """

    title: str = ""
    machine: str = "dpt-paper"
    set: dict[str, Value] = {}
    window: Window = Window()
    vary: dict[str, list[Value]] = {}
    together: list[dict[str, Value]] = []
    only: list[Only] = []
    replicates: int = Field(default=1, ge=1)
    baseline: dict[str, Value] = {}
    measure: list[str] = ["cycles.elapsed", "tlb.l2_mpki", "os.peak_table_bytes"]
    plot: list[Plot] = []

    @property
    def axes(self) -> list[str]:
        """Axes in the file's order, the seed last."""
        names = [*dict.fromkeys(key for row in self.together for key in row), *self.vary]
        seeds = self._seeds() or "seed" in names
        names = [name for name in dict.fromkeys(names) if name != "seed"]
        return [*names, *(["seed"] if seeds else [])]

    def points(self) -> list[Point]:
        """Every point that is run, in order."""
        seeds = self._seeds()
        axes = {name: values for name, values in self.vary.items() if name != "seed"}
        if seeds:
            axes["seed"] = seeds
        found = []
        for row in self.together or [{}]:
            for values in product(*axes.values()):
                point = {**row, **dict(zip(axes, values, strict=True))}
                if all(only.allows(point) for only in self.only):
                    found.append({name: point[name] for name in self.axes if name in point})
        return found

    def measures(self) -> list[tuple[str, str]]:
        """Places in the file at which a number of results is named, and the number."""
        plotted = [
            name for plot in self.plot for name in ([plot.y, plot.x] if plot.pareto else [plot.y])
        ]
        named = [("measure", name) for name in self.measure]
        return [*named, *(("plot", name) for name in plotted)]

    def values(self, axis: str) -> list[Value]:
        """The values of an axis, in order."""
        if axis == "seed" and self._seeds():
            return self._seeds()
        return [*(row[axis] for row in self.together if axis in row), *self.vary.get(axis, [])]

    def _seeds(self) -> list[Value]:
        if "seed" in self.vary:
            return self.vary["seed"]
        return list(range(1, self.replicates + 1)) if self.replicates > 1 else []


def matches(point: Point, wanted: dict[str, Any]) -> bool:
    """True if a point has these values: a value, one of a list, or a bound such as ">= 4"."""
    return all(_holds(point.get(key), value) for key, value in wanted.items())


def _holds(found: Value | None, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return any(_holds(found, one) for one in wanted)
    if isinstance(wanted, str) and not isinstance(found, str) and found is not None:
        for sign, compare in _COMPARISONS.items():
            if wanted.startswith(sign):
                return bool(compare(found, _number(wanted, sign)))
    if isinstance(wanted, str) and wanted.startswith("!="):
        return found != wanted.removeprefix("!=").strip()
    return bool(found == wanted)


def _number(bound: str, sign: str) -> float:
    try:
        return float(bound.removeprefix(sign))
    except ValueError as error:
        raise PagelabError(f"'{bound}' is no bound: a number belongs after {sign}") from error


def load(path: Path) -> Sweep:
    """Reads a file; raises PagelabError that names the file, the key and what is wrong with it."""
    try:
        # Read no further: it may have no end.
        with path.open("rb") as stream:
            content = stream.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise PagelabError(
                f"{path} is no sweep's file: it has more than {_MOST_BYTES >> 20} MiB"
            )
        sweep = Sweep.model_validate(tomllib.loads(content.decode()))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PagelabError(f"{path}: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        # TOML makes tables of a key with dots that is not in quotes.
        dots = isinstance(first["input"], dict) and len(first["loc"]) > 1
        hint = "; a key with dots in it belongs in quotes" if dots else ""
        raise PagelabError(f"{path}: {fault(error)}{hint}") from error
    try:
        _check_size(sweep)
        _check(sweep)
        try:
            left = sweep.points()
        except PagelabError as error:
            raise PagelabError(f"only: {error}") from error
        if not left:
            raise PagelabError("no point is left by what `only` says")
        return _with_whole_baseline(sweep, left)
    except PagelabError as error:
        raise PagelabError(f"{path}: {error}") from error


def _check_size(sweep: Sweep) -> None:
    """Raises PagelabError for more combinations than can be listed, without listing them."""
    seeds = 1 if "seed" in sweep.vary else sweep.replicates
    lists = [len(values) for values in sweep.vary.values()]
    combinations = math.prod(max(1, n) for n in [*lists, len(sweep.together), seeds])
    if combinations > _MOST_POINTS:
        raise PagelabError(
            f"vary, together and replicates make {combinations:,} combinations; "
            f"at most {_MOST_POINTS:,} can be run, also where `only` leaves some out"
        )


def _check(sweep: Sweep) -> None:
    """Raises PagelabError for what would be run, or shown, otherwise than it was meant."""
    for name in sweep.axes:
        if "." not in name and name not in AXES:
            raise PagelabError(f"vary: {unknown('axis', name, AXES)}")
    if ("workload" in sweep.axes) == ("trace" in sweep.axes):
        raise PagelabError("vary either workload or trace (a list of one will do)")
    parameters = [name for name in sweep.axes if name.startswith(WORKLOAD_PARAMETER)]
    if parameters and "trace" in sweep.axes:
        raise PagelabError(f"vary: {parameters[0]}: a trace has no parameters")
    for name, values in sweep.vary.items():
        if not values:
            raise PagelabError(f"vary.{name}: no value is given")
        _each_once(f"vary.{name}", values)
    for number, row in enumerate(sweep.together, start=1):
        if row.keys() != sweep.together[0].keys():
            raise PagelabError(f"together, entry {number}: not the keys of the first entry")
        for name in row:
            # It would be replaced in silence.
            if name in sweep.vary or (name == "seed" and sweep.replicates > 1):
                other = "vary" if name in sweep.vary else "replicates"
                raise PagelabError(f"together: {name} is given by {other}, too")
    _each_once("together", sweep.together)
    places = [("only", table) for only in sweep.only for table in (only.values, only.where)]
    for place, table in [*places, ("baseline", sweep.baseline)]:
        for key, value in table.items():
            if key not in sweep.axes:
                raise PagelabError(f"{place}: {unknown('axis', key, sweep.axes)}")
            _check_value(place, key, value, sweep)
    for plot in sweep.plot:
        axes = {"line": plot.line, "each": plot.each} | ({} if plot.pareto else {"x": plot.x})
        for key, axis in axes.items():
            if axis is not None and (axis not in sweep.axes or axis == "seed"):
                shown = [name for name in sweep.axes if name != "seed"]
                raise PagelabError(f"plot: {key}: {unknown('axis', axis, shown)}")


def _each_once(place: str, values: Sequence[Any]) -> None:
    """A value that is there twice would count as two replicates."""
    for at, value in enumerate(values):
        if value in values[:at]:
            raise PagelabError(f"{place}: {value!r} is there twice")


def _check_value(place: str, key: str, wanted: Any, sweep: Sweep) -> None:
    """Raises PagelabError where the axis has none of these values; they may be bounds."""
    # Patterns are not replaced by files yet.
    if key == "trace":
        return
    there = sweep.values(key)
    values = wanted if isinstance(wanted, list) else [wanted]
    bound = any(isinstance(value, str) and value.startswith(_SIGNS) for value in values)
    if not bound and not any(value in there for value in values):
        listed = ", ".join(str(value) for value in there)
        raise PagelabError(f"{place}: {key} is never {wanted!r}, but one of {listed}")


def _with_whole_baseline(sweep: Sweep, points: list[Point]) -> Sweep:
    """The baseline with the keys that change together with those that it names.

    Raises PagelabError when no point is the baseline of another one.
    """
    named = sweep.baseline
    if not named:
        return sweep
    rows = [row for row in sweep.together if any(key in row for key in named)]
    rows = [row for row in rows if all(row[key] == named[key] for key in named if key in row)]
    if len(rows) == 1:
        sweep = sweep.model_copy(update={"baseline": rows[0] | named})
    base = {key: value for key, value in sweep.baseline.items() if key != "trace"}
    if not any(matches(point, base) for point in points):
        raise PagelabError("baseline: no point has all of these values")
    return sweep
