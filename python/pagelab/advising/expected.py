"""Settings that a program is too long to be tried with: what the model expects of its beginning."""

import shlex
from typing import Any

from rich.table import Table

from pagelab import units
from pagelab.advising.candidates import Candidate, Unavailable
from pagelab.advising.show import model
from pagelab.advising.verdict import typed
from pagelab.advising.why import Why

SCHEMA = "pagelab.expectation/1"
# Each setting is recorded for such a share of the time that a run had, and so long at least.
_SHARE = 1 / 6
_LEAST_SECONDS = 3.0
# Recordings of so many seconds do not end at the same place: less than this is nothing.
_CLEAR = 0.03


def recorded_seconds(seconds: float) -> float:
    """Seconds that each setting is recorded for, of a program that was given so many."""
    return max(_LEAST_SECONDS, _SHARE * seconds)


def best(settings: list[Candidate], why: Why) -> Candidate | None:
    """The setting that is expected to be fastest, if any is to be noticed."""
    known = [one for one in settings if why.predicted.get(one.name, 0) > 1 + _CLEAR]
    return max(known, key=lambda one: why.predicted[one.name], default=None)


def headline(name: str, seconds: float, chosen: Candidate | None, why: Why) -> str:
    """The answer, in two sentences."""
    still = f"Not tried: {name} was still running after {units.duration(seconds)}."
    of = f"the model of {why.machine} expects"
    if chosen is None:
        return f"{still} Of its beginning {of} nothing from any setting."
    times = f"{why.predicted[chosen.name]:.2f} times less time"
    return f"{still} Of its beginning {of} {times} where {chosen.words}."


def to_try(command: list[str], chosen: Candidate | None) -> list[str]:
    """Lines that run the program with the setting; none where it needs `pagelab run`."""
    return [] if chosen is None or chosen.policy != "own" else typed(chosen, command)


def to_prove(command: list[str]) -> str:
    """Sentence on how the expectation is put to the test."""
    again = shlex.join(["pagelab", "advise", "--time", "SECONDS", "--", *command])
    return f"To have it tried, give it thirty times as long as it runs, or less to do: {again}"


def table(settings: list[Candidate], why: Why) -> Table:
    """Settings by what is expected of them, for a terminal."""
    shown = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    shown.add_column("setting")
    shown.add_column("expected times faster", justify="right")
    for one in sorted(settings, key=lambda one: -why.predicted.get(one.name, 0)):
        found = why.predicted.get(one.name)
        shown.add_row(one.name, "not simulated" if found is None else f"{found:.2f}")
    return shown


def as_json(
    command: list[str],
    answer: str,
    chosen: Candidate | None,
    settings: list[Candidate],
    missing: list[Unavailable],
    why: Why,
) -> dict[str, Any]:
    """For programs."""
    expected = [{**one.as_json(), "predicted": why.predicted.get(one.name)} for one in settings]
    return {
        "schema": SCHEMA,
        "command": command,
        "answer": answer,
        "type": to_try(command, chosen),
        "expected": expected,
        "model": model(why),
        "not_tried": [{"name": one.name, "why": one.why} for one in missing],
    }
