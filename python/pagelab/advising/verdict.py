"""Verdicts on settings, from the rounds that were run, and the sentences that say them."""

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pagelab import advice, units
from pagelab.advising.candidates import Candidate
from pagelab.advising.trials import LEAST, Ratio, Trial, Trials, engaged

# Less than this is called no difference: a change of code layout moves real programs more.
NOTICEABLE = 0.01
# An interval no further than this from 1 says that there is little to be had.
SETTLED = 0.02
_MOST_ROUNDS = 2000
# A prediction so far beyond the interval, or half of the change, disagrees with the runs.
_APART = 0.03
# A setting with less memory by so much is named beside the best.
_LEANER = 0.05

Effect = Literal["faster", "slower", "no difference", "no effect", "cannot be told"]


@dataclass(frozen=True)
class Verdict:
    """The effect of a setting; `rounds` is how many would tell, where it cannot be told.

    `overall` is the ratio of all rounds together, of which `slower` were worse than unchanged.
    """

    trial: Trial
    effect: Effect
    cpu: Ratio
    wall: Ratio
    overall: float
    slower: int
    rounds: int | None = None


@dataclass(frozen=True)
class Advice:
    """Verdicts on all settings, and the best of those that are faster."""

    trials: Trials
    verdicts: list[Verdict]
    noise: Ratio
    predicted: dict[str, float] = field(default_factory=dict)
    memory: Path | None = None
    """The /proc/buddyinfo by which the model's memory began, which is not this machine's."""

    @property
    def quiet(self) -> bool:
        """The unchanged program is as fast as itself, as far as can be told."""
        return self.noise.low <= 1 + NOTICEABLE and self.noise.high >= 1 - NOTICEABLE

    @property
    def best(self) -> Verdict | None:
        """The fastest of the settings that are faster than none.

        One for this program alone, where it is as fast as one of the whole system.
        """
        faster = [one for one in self.verdicts if one.effect == "faster"]
        fastest = max(faster, key=lambda one: one.cpu.median, default=None)
        return fastest and max(
            self._alone(fastest), key=lambda one: one.cpu.median, default=fastest
        )

    @property
    def leaner(self) -> Verdict | None:
        """A setting with less memory than the best that, as far as can be told, is as fast.

        It is given by variables alone: an advice file has the best, and is one setting.
        """
        best = self.best
        if best is None:
            return None
        most = (1 - _LEANER) * best.trial.resident.peak
        found = [
            one
            for one in self._alone(best)
            if one.trial.candidate.policy == "own" and 0 < one.trial.resident.peak < most
        ]
        return min(found, key=lambda one: one.trial.resident.peak, default=None)

    def _alone(self, best: Verdict) -> list[Verdict]:
        """Settings for this program alone that, as far as can be told, are as fast as another."""
        return [
            one
            for one in self.verdicts
            if one.effect == "faster"
            and not one.trial.candidate.kernel
            and one.cpu.high >= best.cpu.median
            and one.cpu.median >= best.cpu.low
        ]


def decide(trials: Trials) -> Advice:
    """Verdicts on what was run."""
    noise = trials.faster(trials.again)
    advice = Advice(trials, [], noise)
    for trial in trials.others:
        cpu, wall = trials.faster(trial), trials.faster(trial, "wall")
        overall = trials.overall(trial)
        effect = _effect(trials, trial, cpu, overall, quiet=advice.quiet)
        rounds = _enough(trial, cpu) if effect == "cannot be told" else None
        slower = trials.slower_rounds(trial)
        advice.verdicts.append(Verdict(trial, effect, cpu, wall, overall, slower, rounds))
    return advice


def _effect(trials: Trials, trial: Trial, cpu: Ratio, overall: float, *, quiet: bool) -> Effect:
    if not engaged(trials.base, trial):
        return "no effect"
    if not quiet:
        return "cannot be told"
    # Most rounds have to be better, and all together: a few may take longer than the others save.
    if min(cpu.low, overall) > 1 + NOTICEABLE:
        return "faster"
    if max(cpu.high, overall) < 1 - NOTICEABLE:
        return "slower"
    settled = cpu.low > 1 - SETTLED and cpu.high < 1 + SETTLED
    return "no difference" if settled else "cannot be told"


def _enough(trial: Trial, cpu: Ratio) -> int | None:
    """Rounds with which the interval would leave out 1: it narrows with their square root.

    None where that is more than anybody would run.
    """
    change = abs(cpu.median - 1) - NOTICEABLE
    wide = max(cpu.median - cpu.low, cpu.high - cpu.median)
    if not math.isfinite(wide):
        return LEAST
    if change <= 0:
        return None
    rounds = math.ceil(len(trial.runs) * (wide / change) ** 2)
    # An interval that is narrow enough is not what the verdict lacks.
    return rounds if len(trial.runs) < rounds <= _MOST_ROUNDS else None


def disagreements(advice: Advice) -> list[str]:
    """Sentences on what was predicted and did not come true, which is said first."""
    found = []
    # Other memory gives other huge pages.
    for one in advice.verdicts if advice.memory is None else []:
        predicted = advice.predicted.get(one.trial.candidate.name)
        if predicted is None or one.effect in ("cannot be told", "no effect"):
            continue
        apart = max(_APART, abs(one.cpu.median - 1) / 2)
        if not one.cpu.low - apart <= predicted <= one.cpu.high + apart:
            found.append(
                f"The model is wrong on {one.trial.candidate.name}: it predicts "
                f"{_times(predicted)} times, runs took {_times(one.cpu.median)} times less."
            )
    return found


def headline(advice: Advice) -> str:
    """The answer in a sentence or two."""
    best = advice.best
    if not advice.quiet:
        low, high = advice.noise.low, advice.noise.high
        much = f"{_times(low)} to {_times(high)} times as"
        took = f"got {much} much done" if advice.trials.rated else f"took {much} long"
        return f"No verdict: the program unchanged {took} as itself. Try on a quieter machine."
    if best is not None:
        memory = _memory(advice.trials.base, best.trial)
        and_memory = f"and {memory} " if memory else ""
        much = f"{_times(best.cpu.median)} times"
        does = (
            f"its load gets {much} as much done"
            if advice.trials.rated
            else f"it takes {much} less processor time"
        )
        return (
            f"Yes: {does} "
            f"({_times(best.cpu.low)} to {_times(best.cpu.high)}, {len(best.trial.runs)} rounds) "
            f"{and_memory}where {best.trial.candidate.words}.{_of_all(best)}"
        )
    if any(one.effect == "cannot be told" for one in advice.verdicts):
        return (
            "No verdict: what was tried could not be told from the unchanged program in "
            f"{advice.trials.rounds} rounds."
        )
    if not (advice.verdicts or advice.trials.idle):
        return "No: this machine has no setting to try."
    if all(one.effect == "no effect" for one in advice.verdicts):
        return "No: nothing that was tried changed the program's memory."
    return "No: nothing that was tried makes it faster."


def _of_all(verdict: Verdict) -> str:
    """The ratio of all rounds together, where the median says something else."""
    if not _differs(verdict):
        return ""
    since = f", since {verdict.slower} of them were worse than unchanged" if verdict.slower else ""
    return f" Over all rounds together it is {_times(verdict.overall)} times{since}."


def _differs(verdict: Verdict) -> bool:
    """True if all rounds together say something else than their median."""
    return not verdict.cpu.low <= verdict.overall <= verdict.cpu.high


def _memory(base: Trial, trial: Trial) -> str:
    """The difference in memory; nothing of runs too short to be looked at."""
    peaks = base.resident.peak, trial.resident.peak
    if not all(peaks):
        return ""
    more = peaks[1] - peaks[0]
    return f"{units.size(abs(more))} {'more' if more >= 0 else 'less'} memory"


# Files of the kernel's settings, by the probe's names.
_FILES = {
    "thp": f"{advice.SETTINGS}/enabled",
    "thp-defrag": f"{advice.SETTINGS}/defrag",
    "thp-max-ptes-none": f"{advice.SETTINGS}/khugepaged/max_ptes_none",
    "huge-pages": "/proc/sys/vm/nr_hugepages",
}


def to_type(advice: Advice, command: list[str], file: str) -> list[str]:
    """Command lines that run the program with the best setting; `file` has the advice.

    Behind them is a leaner setting, if there is one.
    """
    if advice.best is None:
        return []
    lines = _to_type(advice.best, command, file)
    if advice.leaner is not None:
        less = _memory(advice.best.trial, advice.leaner.trial)
        (line,) = typed(advice.leaner.trial.candidate, command)
        lines += [f"# {less}, as fast as far as can be told:", line]
    return lines


def _to_type(verdict: Verdict, command: list[str], file: str) -> list[str]:
    candidate = verdict.trial.candidate
    if candidate.policy != "own":
        return [f"pagelab run --advice {shlex.quote(file)} -- {shlex.join(command)}"]
    return typed(candidate, command)


def typed(candidate: Candidate, command: list[str]) -> list[str]:
    """Command lines that run a program with a setting that needs no `pagelab run`."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in candidate.environment.items()]
    return [*_as_root(candidate.kernel), " ".join([*variables, shlex.join(command)])]


def _as_root(settings: Sequence[str]) -> Iterator[str]:
    """Command lines that set the kernel for all programs."""
    note = "     # as root, for all programs"
    for setting in settings:
        name, _, value = setting.partition("=")
        if name in _FILES:
            yield f"echo {value} > {_FILES[name]}{note}"
        else:
            # Only that size was given when it was tried.
            yield f"echo inherit > {advice.SETTINGS}/hugepages-{value}kB/enabled{note}"
            yield f"echo never > {advice.SETTINGS}/hugepages-2048kB/enabled"


def quoted(advice: Advice, program: str, processor: str) -> str:
    """A line for others, of the best that could be told; empty where nothing could."""
    told = [one for one in advice.verdicts if one.effect in ("faster", "slower", "no difference")]
    shown = advice.best or max(told, key=lambda one: one.cpu.median, default=None)
    if shown is None:
        return ""
    half = (shown.cpu.high - shown.cpu.low) / 2
    overall = f", {_times(shown.overall)} over all" if _differs(shown) else ""
    return (
        f"{shown.trial.candidate.name} ran {_times(shown.cpu.median)} ± {half:.2f} times faster "
        f"than unchanged ({program}, {processor}, native, {len(shown.trial.runs)} rounds{overall})"
    )


def _times(value: float) -> str:
    return f"{value:.2f}"
