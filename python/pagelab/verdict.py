"""The answer in a sentence or two, computed from the numbers and from nothing else."""

import signal
from dataclasses import dataclass

from pagelab import units
from pagelab.results import CYCLE_PARTS, INTERRUPTED, Comparison, Run

# Differences below this share are called none: a change of code layout moves real programs more.
NOTICEABLE = 0.005

_PART_NAMES = {
    "compute": "Time computing",
    "data": "Time waiting for data",
    "translation": "Time in address translation",
    "faults": "Time in page faults",
    "migrations": "Time moving pages",
}


@dataclass(frozen=True)
class Verdict:
    """A headline, the reason for it, and what limits its truth."""

    headline: str
    reason: str
    caveats: list[str]

    def __str__(self) -> str:
        return " ".join([self.headline, self.reason, *self.caveats]).strip()


def verdict(comparison: Comparison) -> Verdict:
    """What the numbers say about changing the page table."""
    base = comparison.baseline
    rivals = [
        run
        for run in comparison.runs
        if run is not base and run.design != "ideal" and run.stopped in (None, INTERRUPTED)
    ]
    if not rivals:
        headline, reason = _alone(base), _bound(comparison)
    else:
        best = max(rivals, key=comparison.speedup)
        gain = comparison.speedup(best) - 1
        # A difference within a sample's confidence interval is none either.
        noticeable = max(NOTICEABLE, comparison.speedup_interval(best) or 0)
        if abs(gain) < noticeable:
            headline = (
                f"{best.design} would run this program as fast as {base.design} does, "
                f"within {units.percent(noticeable)}."
            )
        elif gain > 0:
            headline = (
                f"{best.design} would make this program {_round(gain)} faster than {base.design}."
            )
        else:
            headline = (
                f"{base.design} serves this program best: {best.design}, the next, would make "
                f"it {_round(-gain)} slower."
            )
        reason = " ".join(filter(None, [_because(comparison, best), _bound(comparison)]))
    return Verdict(headline, reason, _caveats(comparison))


def _round(share: float) -> str:
    """A headline's figure: whole percents from 10 up."""
    return units.percent(share, 0 if share >= 0.0995 else 1)


def _alone(run: Run) -> str:
    share = units.percent(run.share("translation"))
    return f"Under {run.design} this program spends {share} of its time on address translation."


def _because(comparison: Comparison, run: Run) -> str:
    """The part of the time that changes most, and what is behind it."""
    base = comparison.baseline
    before = {part: base.share(part) for part in CYCLE_PARTS}
    after = {part: run.share(part) * comparison.relative_time(run) for part in CYCLE_PARTS}
    part = max(CYCLE_PARTS, key=lambda name: abs(before[name] - after[name]))
    if abs(before[part] - after[part]) < NOTICEABLE:
        return ""
    verb = "falls" if after[part] < before[part] else "rises"
    text = (
        f"{_PART_NAMES[part]} {verb} from {units.percent(before[part])} to "
        f"{units.percent(after[part])} of {base.design}'s time"
    )
    if part == "translation" and base.walks.count and run.walks.count:
        text += f": {_walks(base, run)}"
    return text + "."


def _walks(base: Run, run: Run) -> str:
    """How the walks differ: their number when that changes, else their length and reads."""
    ours = run.walks.count / run.instructions
    theirs = base.walks.count / base.instructions
    if abs(ours - theirs) > 0.1 * theirs:
        return f"{1000 * ours:.2f} walks per thousand instructions instead of {1000 * theirs:.2f}"
    reads = run.walks.reads / run.walks.count, base.walks.reads / base.walks.count
    return (
        f"a page walk takes {run.walks.latency.mean:.0f} cycles instead of "
        f"{base.walks.latency.mean:.0f} and makes {reads[0]:.2f} memory references "
        f"instead of {reads[1]:.2f}"
    )


def _bound(comparison: Comparison) -> str:
    """What a free translation would gain: no page table can do better."""
    ideal = next((run for run in comparison.runs if run.design == "ideal"), None)
    if ideal is None or ideal is comparison.baseline:
        return ""
    gain = comparison.speedup(ideal) - 1
    if gain < NOTICEABLE:
        mpki = comparison.baseline.tlb.l2_mpki
        return (
            f"Even free translation would gain only {units.percent(max(gain, 0))}: "
            f"the TLBs miss {mpki:.2f} times per thousand instructions."
        )
    return f"Free translation, the bound for any design, would gain {units.percent(gain)}."


def _caveats(comparison: Comparison) -> list[str]:
    caveats = []
    stopped = [run for run in comparison.runs if run.stopped == INTERRUPTED]
    failed = [run for run in comparison.runs if run.stopped and run not in stopped]
    caveats += [
        f"{run.design} ended after {units.count(run.accesses)} accesses: {run.stopped}."
        for run in failed
    ]
    if stopped:
        least = min(run.accesses for run in stopped)
        caveats.append(
            f"The simulation was stopped early; this speaks of the first "
            f"{units.count(least)} accesses."
        )
    recording = comparison.recording
    if recording is not None and recording.signal:
        name = signal.Signals(recording.signal).name
        caveats.append(
            f"The program was ended by {name} after {units.count(recording.accesses)} accesses; "
            "this speaks of what it did until then."
        )
    if recording is not None and recording.incomplete:
        caveats.append(f"The recording is incomplete: {recording.incomplete}.")
    if recording is not None and recording.limited:
        caveats.append(
            f"Only part of the program was recorded ({units.count(recording.accesses)} "
            "accesses). What was left out may behave differently, and pages first touched there "
            "count as faults here."
        )
    caveats.extend(
        f"{failure.design} has no result: {failure.error}." for failure in comparison.failures
    )
    return caveats
