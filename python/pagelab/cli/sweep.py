"""`pagelab sweep`: many simulations from one file."""

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pagelab import units
from pagelab.cli import executing
from pagelab.cli.options import IsQuiet, Json
from pagelab.errors import PagelabError, UsageError
from pagelab.experiment.case import Case, Ended, Result
from pagelab.experiment.run import How, run_all
from pagelab.experiment.store import Store
from pagelab.jobs import available_processors
from pagelab.store import check as check_place
from pagelab.sweeping import file, plan, report, slurm, table
from pagelab.sweeping.file import Point, Sweep
from pagelab.sweeping.outcome import Outcome, facts, outcome

# A longer table is for the page.
_MOST_ROWS = 40
# A longer name is a heading.
_LONG = 16


def _print_example(wanted: bool) -> None:
    if wanted:
        typer.echo(file.EXAMPLE.read_text(encoding="utf-8"), nl=False)
        raise typer.Exit


def sweep(
    path: Annotated[Path, typer.Argument(metavar="FILE.toml", help="What to vary: docs/sweep.md.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="The folder of the table and the page.", show_default=False
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say how many runs there are, and how long they take.")
    ] = False,
    only: Annotated[
        str, typer.Option("--only", help="`failed`: run again what failed, and nothing else.")
    ] = "",
    again: Annotated[bool, typer.Option("--again", help="Run what is kept, too.")] = False,
    shard: Annotated[
        str | None,
        typer.Option(
            "--shard", metavar="I/N", help="Run the I-th of N shares, and only keep them."
        ),
    ] = None,
    emit: Annotated[
        str | None,
        typer.Option("--emit", help="`slurm`: print a job array for sbatch, and run nothing."),
    ] = None,
    shards: Annotated[int, typer.Option("--shards", min=1, help="Jobs of --emit.")] = 16,
    store: executing.StoreFolder = executing.STORE,
    jobs: executing.Jobs = None,
    memory: executing.Memory = None,
    dask: executing.Dask = None,
    slurm_jobs: executing.Slurm = None,
    example: Annotated[
        bool,
        typer.Option(
            "--example", callback=_print_example, is_eager=True, help="Print a file to begin with."
        ),
    ] = False,
    as_json: Json = False,
    quiet: IsQuiet = False,
) -> None:
    """Simulate every point of a sweep, and write one table and one page.

    Results are kept in --store: a sweep that was broken off goes on where it was, and sweeps share
    what they have in common.
    """
    if only not in ("", "failed"):
        raise UsageError(f"--only {only}: it can only be `failed`")
    if only and again:
        raise UsageError("--only failed leaves out what --again runs: give one of the two")
    swept = file.load(path)
    out = out or Path("pagelab-results") / f"sweep-{path.stem}"
    if emit is not None:
        if emit != "slurm":
            raise UsageError(f"--emit {emit}: it can only be `slurm`")
        if as_json:
            raise UsageError("--emit slurm prints a script, which --json has no form for")
        asked = [*(["--only", only] if only else []), *(["--again"] if again else [])]
        typer.echo(slurm.script(path, store, out, shards, asked), nl=False)
        return
    points = plan.plan(swept, path.parent)
    if dry_run:
        _say_how_long(points, store, jobs, as_json=as_json, quiet=quiet)
        return
    if shard is None:
        check_place(out)
    started = time.monotonic()
    where = executing.Where(store, jobs, memory, dask, slurm_jobs)
    with executing.how(where, again="all" if again else "", quiet=quiet) as how:
        how = replace(how, only=only, shard=_shard(shard))
        ended = run_all([case for _, case in points], how)
        share = [case for _, case in points if how.has(case)]
    if shard is not None:
        _say_of_share(shard, {case.key: ended.get(case.key) for case in share}, as_json=as_json)
        return
    found = outcome(swept, path, points, ended)
    found.save(out, path.stem, facts(path, len(points), time.monotonic() - started))
    _tell(found, out, as_json=as_json)


def _shard(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    turn, slash, count = text.partition("/")
    decimal = turn.isdecimal() and count.isdecimal()
    if not (slash and decimal and 1 <= int(turn) <= int(count)):
        raise UsageError(f"--shard {text}: write it as I/N, such as 3/16")
    return int(turn), int(count)


def _say_of_share(shard: str, ended: dict[str, Ended | None], *, as_json: bool) -> None:
    """Says what became of the runs of a share; raises PagelabError when one of them failed."""
    statuses = [table.status(one) for one in ended.values()]
    counts = {status: statuses.count(status) for status in _STATUSES}
    if as_json:
        typer.echo(json.dumps({"shard": shard, "counts": counts}))
    if counts[table.FAILED]:
        raise PagelabError(
            f"{counts[table.FAILED]} of {len(ended)} runs of share {shard} failed; the command "
            "without --shard says why, and --only failed runs them again"
        )


def _say_how_long(
    points: list[tuple[Point, Case]],
    store: Path,
    jobs: int | None,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Number of runs, and from those that are kept how long; without any, one is timed."""
    kept = Store(store)
    cases = {case.key: case for _, case in points}
    known = {key: one for key in cases if isinstance(one := kept.get(key), Result)}
    if not known:
        first = next(iter(cases.values()))
        if not quiet:
            typer.echo(f"None is kept yet: running one, {first.label}, to time it.", err=True)
        ended = run_all([first], How(store, quiet=True))
        known = {key: one for key, one in ended.items() if isinstance(one, Result)}
    missing = [case for key, case in cases.items() if kept.get(key) is None]
    judge = _Judge(cases, known)
    seconds = sum(judge.seconds(case) for case in missing)
    at_once = jobs or available_processors()
    most = max((case.memory for case in missing), default=0)
    if as_json:
        whole = {
            "points": len(points),
            "runs": len(cases),
            "kept": len(cases) - len(missing),
            "memory_bytes": most,
            "processor_seconds": seconds if known else None,
            "judged_by": len(known),
            "at_once": at_once,
        }
        typer.echo(json.dumps(whole))
        return
    typer.echo(
        f"{len(points)} points, {len(cases)} runs, of which {len(cases) - len(missing)} are kept"
    )
    if missing:
        typer.echo(f"a run takes up to {units.size(most)} of memory")
    if known:
        judges = "1 run" if len(known) == 1 else f"{len(known)} runs"
        typer.echo(
            f"about {units.duration(seconds)} of processor time, judged by {judges}: "
            f"{units.duration(seconds / at_once)} with {at_once} at once"
        )


class _Judge:
    """Judge of how long a run takes, by those that are kept."""

    # Program and design, the program, the design, or nothing is the same.
    _ALIKE = (("source", "design"), ("source",), ("design",), ())

    def __init__(self, cases: dict[str, Case], known: dict[str, Result]) -> None:
        self._times: dict[str, list[float]] = {}
        for key, one in known.items():
            for alike in self._ALIKE:
                name = self._name(cases[key], alike)
                self._times.setdefault(name, []).append(one.host["seconds"])

    def seconds(self, case: Case) -> float:
        """The mean of those that have most in common with it."""
        for alike in self._ALIKE:
            if times := self._times.get(self._name(case, alike)):
                return fmean(times)
        return 0.0

    @staticmethod
    def _name(case: Case, alike: tuple[str, ...]) -> str:
        return json.dumps({key: case.task[key] for key in alike}, sort_keys=True)


def _tell(found: Outcome, out: Path, *, as_json: bool) -> None:
    """Prints the outcome; raises PagelabError when a run failed or is missing."""
    if as_json:
        summary = [asdict(one) for one in found.summaries]
        typer.echo(json.dumps({"counts": found.counts, "rows": found.rows, "summary": summary}))
    else:
        _show(found.sweep, found.summaries, found.rows)
        typer.echo(f"Table: {out / 'sweep.parquet'}\nReport: {out / 'report.html'}")
    if count := found.counts[table.FAILED]:
        raise PagelabError(
            f"{count} of {len(found.rows)} runs failed; the report says why, and "
            "--only failed runs them again"
        )
    if count := found.counts[table.MISSING]:
        # After a change of the simulator that may be all of them.
        raise PagelabError(
            f"{count} of {len(found.rows)} runs are missing; the command without --only runs them"
        )


_STATUSES = (table.DONE, table.FAILED, table.MISSING)


def _show(swept: Sweep, summaries: list[table.Summary], rows: list[table.Row]) -> None:
    """A table for each value of what has long names; numbers of three digits."""
    console = Console()
    axes = [axis for axis in swept.axes if axis != "seed"]
    long = [a for a in axes if any(len(str(s.point.get(a, ""))) > _LONG for s in summaries)]
    groups: dict[tuple[str, ...], list[table.Summary]] = {}
    for summary in summaries[:_MOST_ROWS]:
        groups.setdefault(tuple(str(summary.point.get(a, "")) for a in long), []).append(summary)
    columns = [axis for axis in axes if axis not in long]
    for names, members in groups.items():
        console.print(*names, style="bold", highlight=False, markup=False)
        shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for axis in columns:
            shown.add_column(_heading(axis), overflow="fold")
        for measure in swept.measure:
            shown.add_column(_heading(measure), justify="right", overflow="fold")
        for one in members:
            point = [escape(str(one.point.get(axis, ""))) for axis in columns]
            shown.add_row(*point, *(_cell(one, measure) for measure in swept.measure))
        console.print(shown)
    if len(summaries) > _MOST_ROWS:
        console.print(f"... and {len(summaries) - _MOST_ROWS} more", style="dim")
    if any(summary.relative for summary in summaries):
        base = ", ".join(f"{key} = {value}" for key, value in swept.baseline.items())
        told = f"Changes are against {base}."
        console.print(told, style="dim", highlight=False, markup=False)
    for error, count in report.failures(rows):
        console.print(f"Failed: {count}: {error}", style="red", markup=False, highlight=False)


def _heading(key: str) -> str:
    """A dotted name in two lines, of which the second is its own."""
    table, dot, name = key.rpartition(".")
    return f"{table}{dot}\n{name}" if dot else key


def _cell(summary: table.Summary, measure: str) -> str:
    """The change against the baseline with its interval, where there is one; else the number."""
    ratio, value = summary.relative.get(measure), summary.measures.get(measure)
    if ratio is not None:
        half = "" if not ratio.half else f" \N{PLUS-MINUS SIGN}{units.percent(ratio.half)}"
        return f"{units.signed_percent(ratio.mean - 1)}{half}"
    if value is None:
        return units.number(None)
    half = "" if not value.half else f" \N{PLUS-MINUS SIGN}{units.count(value.half)}"
    return f"{units.count(value.mean)}{half}"
