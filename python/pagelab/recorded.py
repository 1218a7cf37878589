"""Summary of a recording, for people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pagelab import units

if TYPE_CHECKING:
    from pagelab.results import Recording, Refused


def summary(outcome: Recording) -> str:
    """Summary of a recording, in a line or a few."""
    if outcome.incomplete and not outcome.accesses:
        return "\n".join([f"recorded nothing: {outcome.incomplete}", *outcome.notes])
    rate = outcome.accesses / outcome.seconds if outcome.seconds else 0.0
    text = (
        f"recorded {units.count(outcome.accesses)} accesses in "
        f"{units.duration(outcome.seconds)} ({units.count(rate)} acc/s, "
        f"{units.size(outcome.bytes)})"
    )
    if outcome.running_seconds is not None:
        text += f"; the program had ended after {units.duration(outcome.running_seconds)}"
    if outcome.limited:
        pieces = outcome.window.get("sample")
        text += f"; {'pieces' if pieces else 'a part'} of the program"
    if outcome.ended_after is not None:
        text += f"; the program was ended after {units.duration(outcome.ended_after)}"
    if outcome.incomplete:
        text += f"; the recording ends early: {outcome.incomplete}"
        if outcome.bytes:
            text += " (the trace is good up to there)"
    if outcome.signal:
        text += f"; the program was ended by {outcome.signal_name}"
    elif outcome.exit_status:
        text += f"; the program exited with {outcome.exit_status}"
    lines = [text, *_unrecorded(outcome), *_refused(outcome), *_words(outcome), *outcome.notes]
    return "\n".join(lines)


def _words(outcome: Recording) -> list[str]:
    """Advice on what was kept."""
    if outcome.words is None:
        return []
    return [f"kept {outcome.words}: `pagelab trace finish` makes the trace of it"]


# Programs of other names are counted only.
_NAMED = 4


def _unrecorded(outcome: Recording) -> list[str]:
    """Programs that were left out because another one took over."""
    times = sum(outcome.unrecorded.values())
    if not times:
        return []
    often = sorted(outcome.unrecorded.items(), key=lambda item: -item[1])
    names = [f"{Path(path).name} ({count})" for path, count in often[:_NAMED]]
    if len(often) > _NAMED:
        names.append(f"{len(often) - _NAMED} others")
    programs = outcome.programs + times
    return [
        f"NOT RECORDED: {times} of the {programs} programs that were run: {', '.join(names)}; "
        "--follow-exec records what can be"
    ]


# The C library tries these when a program and each thread start, and does without.
_TRIED_FIRST = {"rseq", "clone3"}


def _refused(outcome: Recording) -> list[str]:
    """System calls that the program did not get, or that did something else."""
    told = [each for each in outcome.refused if each.call not in _TRIED_FIRST]
    refused = [each for each in told if each.error.startswith("E")]
    otherwise = [each for each in told if each not in refused]
    lines = {
        "REFUSED by the emulator, as a kernel may not": refused,
        "GRANTED, but not as by a kernel": otherwise,
    }
    return [f"{head}: {_most_often(calls)}" for head, calls in lines.items() if calls]


def _most_often(refused: list[Refused]) -> str:
    often = sorted(refused, key=lambda each: -each.times)
    calls = [f"{each.call} {each.times} ({each.error})" for each in often[:_NAMED]]
    if len(often) > _NAMED:
        calls.append(f"{len(often) - _NAMED} others (--json has all)")
    return ", ".join(calls)
