"""`pagelab diff`: two results compared, of sweeps, of simulations or of advice."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pagelab import changes, results, units
from pagelab.advising import saved
from pagelab.changes import Change, Changes
from pagelab.cli.options import Json
from pagelab.errors import PagelabError, UsageError, unknown
from pagelab.sweeping import table
from pagelab.sweeping.diff import Difference, difference


def diff(
    first: Annotated[
        Path, typer.Argument(help="A result: its folder, result.json, advice.json, or Parquet.")
    ],
    second: Annotated[Path, typer.Argument(help="Another one of the same kind.")],
    measure: Annotated[
        list[str] | None,
        typer.Option("--measure", help="Only these: columns of a sweep, or time, memory, ..."),
    ] = None,
    fail_above: Annotated[
        str | None,
        typer.Option(
            "--fail-above",
            metavar="PERCENT",
            help="Exit with 1 only if something got worse by more than this, for certain: 2%.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what changed between two results: of compare, simulate, advise or sweep.

    Exits with 1 when anything differs and with 2 when they cannot be compared, as diff(1) does.

    With --fail-above it exits with 1 only when a figure got worse by more than that with all of its
    interval, or the second result lacks what the first one has. The figure is the time of results,
    the gain by each setting of advice, or each --measure.
    """
    limit = None if fail_above is None else _limit(fail_above)
    kinds = [_kind(path) for path in (first, second)]
    if kinds[0] != kinds[1]:
        raise UsageError(f"{first} is a result of {kinds[0]}, {second} of {kinds[1]}")
    if kinds[0] == "sweep":
        if limit is not None:
            raise UsageError("--fail-above is for results of compare, simulate and advise")
        _diff_sweeps(first, second, measure or [], as_json=as_json)
    else:
        _diff_results(first, second, measure or [], limit, kinds[0], as_json=as_json)


def _limit(text: str) -> float:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", text, re.ASCII)
    if found is None:
        raise UsageError(f"--fail-above {text}: write it as 2% or 0.5%")
    return float(found[1]) / 100


def _kind(path: Path) -> str:
    """The kind of command that made a result. Raises UsageError where there is none."""
    if not path.exists():
        raise UsageError(f"there is no {path}")
    if saved.is_advice(path):
        return "advise"
    table_there = path.is_dir() and (path / "sweep.parquet").is_file()
    if table_there or path.suffix == ".parquet":
        return "sweep"
    if path.is_dir() and not (path / "result.json").is_file():
        raise UsageError(f"there is no result in {path}")
    return "compare or simulate"


def _diff_results(
    first: Path,
    second: Path,
    measures: list[str],
    limit: float | None,
    kind: str,
    *,
    as_json: bool,
) -> None:
    try:
        if kind == "advise":
            found = changes.of_advice(saved.load(first), saved.load(second))
        else:
            found = changes.of_results(results.load(first), results.load(second))
    except PagelabError as error:
        raise UsageError(str(error)) from error
    for name in measures:
        if name not in found.measures:
            raise unknown("measure", name, found.measures)
    wanted = [one for one in found.changes if one.measure in (measures or found.measures[:1])]
    if not wanted:
        raise UsageError(f"neither result has a {' or '.join(measures)}")
    shown = wanted if measures else found.changes
    told = _Told() if limit is None else _judge(found, wanted, limit, first, second)
    if as_json:
        typer.echo(json.dumps(_json(found, shown, told)))
    else:
        _show(found, shown, told)
    failed = _differs(found, shown) if limit is None else bool(told.failures)
    raise typer.Exit(1 if failed else 0)


@dataclass(frozen=True)
class _Told:
    """Sentences on what fails and what cannot be told, by a limit, and one where nothing fails."""

    failures: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)
    passed: str | None = None


def _judge(found: Changes, judged: list[Change], limit: float, first: Path, second: Path) -> _Told:
    most = f"{100 * limit:g} %"
    told = _Told(passed=f"Nothing judged got worse by more than {most}, as far as can be told.")
    # Bounds are nothing to be had, unless they are all that there is.
    for one in [one for one in judged if not one.bound] or judged:
        judgement = one.judge(limit)
        if judgement == "above":
            told.failures.append(f"{_grew(one)}, above {most}.")
        elif judgement == "unclear":
            told.unclear.append(f"{_grew(one)}: it may be above {most}, and may be below.")
    for label in found.only_first:
        told.failures.append(f"{label} is in {first} and not, or not whole, in {second}.")
    return told


def _differs(found: Changes, shown: list[Change]) -> bool:
    only = found.only_first or found.only_second
    return bool(only) or any(one.differs for one in shown)


def _grew(one: Change) -> str:
    grew = "grew" if one.share >= 0 else "fell"
    text = f"The {one.measure} of {one.run} {grew} by {_share(abs(one.share))}"
    if one.exact:
        return text
    return f"{text} (interval {_interval(one)})"


def _share(share: float) -> str:
    return units.percent(share) if math.isfinite(share) else "more than any ratio, from 0"


def _interval(one: Change) -> str:
    if one.exact:
        return ""
    if not math.isfinite(one.high):
        return "unknown"
    low, high = (units.signed_percent(end) for end in (one.low, one.high))
    return f"{low.removesuffix(' %')} to {high}"


def _figure(one: Change, value: float) -> str:
    if one.measure in ("memory", "tables"):
        return units.size(value)
    return f"{value:.3f}" if one.measure == "gain" or value < 10 else units.count(value)


def _show(found: Changes, shown: list[Change], told: _Told) -> None:
    console = Console()
    changed = [one for one in shown if one.before != one.after]
    if changed:
        rows = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        for head in ("", "measure"):
            rows.add_column(head, overflow="fold")
        sampled = any(not one.exact for one in changed)
        for head in ("first", "second", "change", *(["interval"] if sampled else [])):
            rows.add_column(head, justify="right", no_wrap=True)
        for one in changed:
            share = units.signed_percent(one.share) if math.isfinite(one.share) else "from 0"
            cells = [_figure(one, one.before), _figure(one, one.after), share]
            cells += [_interval(one)] if sampled else []
            rows.add_row(escape(one.run), one.measure, *cells)
        console.print(rows)
    say = _saying(console)
    for text, labels in (("first", found.only_first), ("second", found.only_second)):
        if labels:
            say(f"Only in the {text}: {', '.join(labels)}.")
    for note in found.notes:
        say(note)
    if not changed and not _differs(found, shown):
        say("no difference")
    for sentence in told.unclear:
        say(f"NOT TOLD: {sentence}")
    for sentence in told.failures:
        say(f"FAILED: {sentence}")
    if told.passed and not told.failures:
        say(told.passed)


def _saying(console: Console) -> Callable[[str], None]:
    return lambda text: console.print(text, highlight=False, markup=False, soft_wrap=True)


def _json(found: Changes, shown: list[Change], told: _Told) -> dict[str, Any]:
    def finite(one: Change) -> dict[str, Any]:
        """JSON has no infinity."""
        return {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in asdict(one).items()
        }

    return {
        "changes": [finite(one) for one in shown],
        "only_first": found.only_first,
        "only_second": found.only_second,
        "notes": found.notes,
        "not_told": told.unclear,
        "failed": told.failures,
    }


def _diff_sweeps(first: Path, second: Path, measures: list[str], *, as_json: bool) -> None:
    try:
        found = difference(table.load(first), table.load(second), measures)
    except PagelabError as error:
        raise UsageError(str(error)) from error
    if as_json:
        typer.echo(json.dumps(asdict(found)))
    else:
        _show_difference(found, str(first), str(second))
    raise typer.Exit(0 if found.same else 1)


def _show_difference(found: Difference, first: str, second: str) -> None:
    console = Console()
    for text, points in (
        (f"only in {first}", found.only_first),
        (f"only in {second}", found.only_second),
        (f"done in {first} and not in {second}", found.broken),
        (f"done in {second} and not in {first}", found.mended),
        ("done in neither, for different reasons", found.ended_otherwise),
    ):
        if points:
            examples = "; ".join(_point(point) for point in points[:3])
            more = " ..." if len(points) > 3 else ""
            console.print(f"{len(points)} {text}: {examples}{more}", highlight=False, markup=False)
    for name, measures in ((first, found.measures_first), (second, found.measures_second)):
        if measures:
            more = " ..." if len(measures) > 3 else ""
            text = f"{len(measures)} measures only in {name}: {', '.join(measures[:3])}{more}"
            console.print(text, highlight=False, markup=False)
    changed = [change for change in found.changes if change.changed]
    if found.same:
        console.print("no difference")
    if not changed:
        return
    shown = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for head in ("", "changed", "of", "mean ratio", "largest", "where"):
        shown.add_column(head, overflow="fold")
    for change in changed:
        shown.add_row(
            change.measure,
            str(change.changed),
            str(change.points),
            _percent(change.ratio),
            _percent(change.largest),
            escape(_point(change.where)),
        )
    console.print(shown)


def _percent(ratio: float | None) -> str:
    return "" if ratio is None else units.signed_percent(ratio - 1, 2)


def _point(point: dict[str, Any]) -> str:
    return ", ".join(str(value) for value in point.values())
