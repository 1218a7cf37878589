"""An advice as a table, as Markdown and as JSON."""

import math
from typing import Any

from rich.table import Table

from pagelab import units
from pagelab.advising.candidates import Unavailable
from pagelab.advising.trials import CONFIDENCE, Ratio, Trial, Trials
from pagelab.advising.verdict import Advice, Verdict, disagreements, headline, to_type
from pagelab.advising.why import Why

SCHEMA = "pagelab.advice/3"
_HEAD = ("setting", "times faster", "overall", "", "model", "huge", "faults", "peak")
_SHORT = {"no difference": "same", "cannot be told": "unclear"}
LEGEND = (
    f"times faster: by processor time, the median round with its {CONFIDENCE:.1%} interval; "
    "overall: all rounds together; unclear: the interval has gains and losses; huge: memory in "
    "huge pages."
)


def interval(ratio: Ratio) -> str:
    """A ratio with its interval; of too few rounds without."""
    if not math.isfinite(ratio.high):
        return f"{ratio.median:.2f}"
    return f"{ratio.median:.2f} ({ratio.low:.2f}-{ratio.high:.2f})"


def so_far(trials: Trials) -> tuple[str, str]:
    """The answer after some rounds: the fastest setting in a line, and all as a table."""
    found = [(trials.faster(one), one.candidate.name, len(one.runs)) for one in trials.others]
    found.sort(key=lambda one: -one[0].median)
    itself = (trials.faster(trials.again), "unchanged (itself)", trials.rounds)
    wide = max(len(name) for _, name, _ in (*found, itself))
    lines = [
        f"{name:{wide}}  {interval(faster)} times faster, {rounds} round{'s' * (rounds > 1)}"
        for faster, name, rounds in (*found, itself)
    ]
    return f"so far: {' '.join(lines[0].split())}", "\n".join(lines)


def _rows(advice: Advice) -> list[tuple[str, ...]]:
    """The head and the rows; without what was predicted where nothing was."""
    rows: list[tuple[str, ...]] = [
        ("unchanged", interval(advice.noise), "", "(itself)", "", *_memory(advice.trials.base))
    ]
    for one in sorted(advice.verdicts, key=lambda one: -one.cpu.median):
        name, effect = one.trial.candidate.name, one.effect
        predicted = advice.predicted.get(name)
        model = "" if predicted is None else f"{predicted:.2f}"
        rows.append(
            (
                *(name, interval(one.cpu), f"{one.overall:.2f}", _SHORT.get(effect, effect), model),
                *_memory(one.trial),
            )
        )
    if advice.predicted:
        return [_HEAD, *rows]
    return [(*row[:4], *row[5:]) for row in (_HEAD, *rows)]


def _memory(trial: Trial) -> tuple[str, str, str]:
    most = trial.resident
    # Too short to be looked at.
    peak = units.size(most.peak) if most.peak else "?"
    return units.size(most.huge), units.count(trial.faults), peak


def table(advice: Advice) -> Table:
    """For a terminal."""
    shown = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    head, *rows = _rows(advice)
    for name in head:
        left = name in ("setting", "")
        shown.add_column(name, justify="left" if left else "right", no_wrap=name != "setting")
    for row in rows:
        shown.add_row(*row)
    return shown


def counters(why: Why) -> Table:
    """Counts that the model expects of `perf stat`, for a terminal."""
    shown = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    shown.add_column("expected", overflow="fold")
    settings = list(next(iter(why.expected.values())))
    for name in settings:
        shown.add_column(name, justify="right", overflow="fold")
    for event, counts in why.expected.items():
        shown.add_row(event, *(units.count(counts[name]) for name in settings))
    return shown


def idle(advice: Advice) -> str:
    """A sentence on settings that did nothing; empty where there are none."""
    names = ", ".join(one.candidate.name for one in advice.trials.idle)
    return f"No effect on its memory: {names}." if names else ""


def markdown(advice: Advice, command: list[str], file: str) -> str:
    """For an issue: the answer, what to type, and the table."""
    head, *found = _rows(advice)
    lines = (head, ("---",) * len(head), *found)
    rows = ["| " + " | ".join(row) + " |" for row in lines]
    typed = to_type(advice, command, file)
    if typed:
        typed = ["", *(f"    {line}" for line in typed)]
    nothing = ["", idle(advice)] if advice.trials.idle else []
    return "\n".join([*disagreements(advice), headline(advice), *typed, "", *rows, *nothing])


def as_json(
    advice: Advice,
    command: list[str],
    missing: list[Unavailable],
    host: dict[str, str],
    why: Why | None = None,
    file: str = "advice.json",
) -> dict[str, Any]:
    """For programs, and for `pagelab run`."""
    best = advice.best
    return {
        "schema": SCHEMA,
        "command": command,
        "host": host,
        "answer": headline(advice),
        "setting": None if best is None else best.trial.candidate.as_json(),
        "type": to_type(advice, command, file),
        "rounds": advice.trials.rounds,
        "interrupted": advice.trials.interrupted,
        "noise": _ratio(advice.noise),
        "unchanged": _trial(advice.trials.base),
        "tried": [
            _verdict(one, advice.predicted.get(one.trial.candidate.name)) for one in advice.verdicts
        ],
        "idle": [{**one.candidate.as_json(), **_trial(one)} for one in advice.trials.idle],
        "disagreements": disagreements(advice),
        "model": None if why is None else model(why),
        "not_tried": [{"name": one.name, "why": one.why} for one in missing],
    }


def rows(advice: Advice) -> list[dict[str, Any]]:
    """A row a run, of all rounds."""
    trials = advice.trials
    return [
        {"setting": one.candidate.name, "round": at, **run.as_json()}
        for one in (trials.base, trials.again, *trials.others)
        for at, run in enumerate(one.runs, 1)
    ]


def model(why: Why) -> dict[str, Any]:
    """Places that the model has walks and faults in, and how to see them with counters."""
    return {
        "machine": why.machine,
        "where": why.where(),
        "perf": {"command": why.perf, "expected": why.expected},
    }


def _verdict(verdict: Verdict, predicted: float | None) -> dict[str, Any]:
    return {
        **verdict.trial.candidate.as_json(),
        "effect": verdict.effect,
        "faster": _ratio(verdict.cpu),
        "faster_wall": _ratio(verdict.wall),
        "faster_overall": verdict.overall if math.isfinite(verdict.overall) else None,
        "slower_rounds": verdict.slower,
        "rounds_needed": verdict.rounds,
        "predicted": predicted,
        **_trial(verdict.trial),
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "runs": [run.as_json() for run in trial.runs],
        "peak_bytes": trial.resident.peak,
        "huge_page_bytes": trial.resident.huge,
        "remote_bytes": trial.resident.remote,
    }


def _ratio(ratio: Ratio) -> dict[str, float | None]:
    """JSON has no infinity."""
    finite = math.isfinite(ratio.high)
    return {
        "median": ratio.median,
        "low": ratio.low if finite else None,
        "high": ratio.high if finite else None,
    }
