"""Limits of the truth of an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagelab import first_touch, units
from pagelab.counts import INTERRUPTED
from pagelab.decision import why_no_bound

if TYPE_CHECKING:
    from pagelab.results import Comparison, Recording


def caveats(comparison: Comparison) -> list[str]:
    """A sentence for each."""
    found = []
    stopped = [run for run in comparison.runs if run.stopped == INTERRUPTED]
    failed = [run for run in comparison.runs if run.stopped and run not in stopped]
    found += [
        f"{comparison.label(run)} ended after {units.count(run.accesses)} accesses: {run.stopped}."
        for run in failed
    ]
    if stopped:
        least = min(run.accesses for run in stopped)
        found.append(
            f"The simulation was stopped early; this speaks of the first "
            f"{units.count(least)} accesses."
        )
    found += _no_bounds(comparison)
    found += filter(None, map(first_touch.caveat, map(comparison.on, comparison.machines)))
    recording = comparison.recording
    if recording is not None and recording.signal:
        found.append(
            f"The program was ended by {recording.signal_name} after "
            f"{units.count(recording.accesses)} accesses; this speaks of what it did until then."
        )
    elif recording is not None and _failed(recording):
        found.append(
            f"The program exited with status {recording.exit_status}: this speaks of a run that "
            "may have failed."
        )
    if recording is not None and recording.incomplete:
        found.append(f"The recording is incomplete: {recording.incomplete}.")
    if recording is not None and recording.ended_after is not None:
        found.append(
            f"The program was ended after {units.duration(recording.ended_after)}; "
            "this speaks of what it did until then."
        )
    elif recording is not None and recording.limited and _leaves_out(comparison):
        taken = f"{units.count(recording.accesses)} accesses"
        found.append(
            f"Pieces of the program were simulated, {taken} in all; --full takes its first 500 M."
            if recording.window.get("sample")
            else f"Only part of the program was recorded ({taken}). What was left out may behave "
            "differently."
        )
    found += _virtual(comparison)
    found += larger_than_caches(comparison)
    found += _unseen_use(comparison)
    found.extend(f"{note}." for note in comparison.notes)
    found.extend(
        f"{failure.design} has no result: {failure.error}." for failure in comparison.failures
    )
    return found


def _failed(recording: Recording) -> bool:
    ended = recording.ended_by is not None or recording.ended_after is not None
    return recording.exit_status != 0 and not ended


def _leaves_out(comparison: Comparison) -> bool:
    """True if it speaks of less than the program did, and that is not said of its beginning."""
    base, recording = comparison.baseline, comparison.recording
    pieces = recording is not None and recording.window.get("sample")
    return not base.of_beginning and (not pieces or base.skipped_instructions > 0)


def _virtual(comparison: Comparison) -> list[str]:
    """Presets know no hypervisor; a measured machine has both prices of a huge page."""
    larger = {"4K"} < set(comparison.page_sizes)
    measured = any(run.machine["cost"].get("zero_2m_between_ns") for run in comparison.runs)
    here = comparison.recording is not None and comparison.host.get("hypervisor")
    if not here or not larger or measured:
        return []
    return [
        "This is a virtual machine, of which a preset knows nothing: larger pages may gain less "
        "here, or lose, where the host has to give the memory first. -m here measures that, "
        "pagelab advise tries it."
    ]


def larger_than_caches(comparison: Comparison) -> list[str]:
    """Samples that guess what is in the last level of cache (docs/limits.md)."""
    for run in comparison.runs:
        if run.sample is None:
            continue
        cache = run.machine["caches"]["llc"]["kib"] << 10
        if run.of_beginning:
            return [
                f"What is said is of its first {units.count(run.windows[0].accesses)} accesses: "
                f"pieces of a program with more memory than the last level of cache has "
                f"({units.size(cache)}) have to guess what is there. --full takes more of it."
            ]
        if not run.sample.share:
            continue
        if run.memory > cache:
            return [
                f"The program's memory ({units.size(run.memory)}) is larger than the last level of "
                f"cache ({units.size(cache)}): what a sample says of waiting for data, and so of "
                f"speed, may be further off than its interval. {_without(comparison)} simulates it."
            ]
    return []


def _unseen_use(comparison: Comparison) -> list[str]:
    """Samples of programs whose memory is short."""
    if any(run.sample is not None and run.os.reclaim for run in comparison.runs):
        return [
            "Memory was short, and a sample does not see the use of pages that it leaves out: more "
            f"of them leave memory than would. {_without(comparison)} sees all."
        ]
    return []


def _without(comparison: Comparison) -> str:
    """Option that has all of the program simulated."""
    return "--full" if comparison.command else "Leaving out --sample"


def _no_bounds(comparison: Comparison) -> list[str]:
    """Runs in which `ideal` is not the bound that it should be."""
    caveats = []
    for name in comparison.machines:
        on_machine = comparison.on(name)
        for ideal in on_machine.runs:
            if ideal.design != "ideal" or ideal.stopped:
                continue
            reason = why_no_bound(on_machine, ideal)
            if not reason:
                continue
            text = (
                f"{comparison.label(ideal)} {reason}, so it is no bound here: its data lie in "
                "other frames, which crowd sets of the caches"
            )
            if ideal.cycles.recoverable is None:
                text += "; --set free_clock=true says what translation costs without it"
            caveats.append(f"{text}.")
    return caveats
