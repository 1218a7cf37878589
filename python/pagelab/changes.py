"""Changes of a program between two results: of `compare` and `simulate`, or of `advise`."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from pagelab import sampling
from pagelab.advising.saved import Saved, Tried
from pagelab.advising.trials import Ratio
from pagelab.caveats import larger_than_caches
from pagelab.errors import PagelabError
from pagelab.results import Comparison, Run, same_windows

# Measures of results and of advice, that first which is judged unless others are asked for.
OF_RESULTS = ("time", "memory", "faults", "misses", "tables")
OF_ADVICE = ("gain", "time", "rate", "memory", "faults")
# Measures of which more is better.
_MORE_IS_BETTER = ("gain", "rate")
_KEYS = 3

Judgement = Literal["above", "unclear", "within"]


@dataclass(frozen=True)
class Change:
    """A measure of a run in two results, and the share by which it grew, with its interval.

    The interval is a point where nothing is uncertain.
    """

    run: str
    measure: str
    before: float
    after: float
    share: float
    low: float
    high: float

    @property
    def exact(self) -> bool:
        """True if nothing is uncertain."""
        return self.low == self.high

    @property
    def bound(self) -> bool:
        """True for free translation."""
        return self.run.startswith("ideal ")

    @property
    def differs(self) -> bool:
        """True if the interval leaves out that nothing changed."""
        return self.low > 0 or self.high < 0

    def worse(self) -> Ratio:
        """The share by which it got worse, with its interval."""
        if self.measure in _MORE_IS_BETTER:
            return Ratio(-self.share, -self.high, -self.low)
        return Ratio(self.share, self.low, self.high)

    def judge(self, limit: float) -> Judgement:
        """Judgement against a limit; above it is only what its whole interval is above of."""
        worse = self.worse()
        if worse.low > limit:
            return "above"
        return "unclear" if worse.high > limit else "within"


@dataclass(frozen=True)
class Changes:
    """Changes of what both results have, labels of what only one has, and notes on the pair."""

    measures: tuple[str, ...]
    """Names of all measures; the first is judged unless others are asked for."""
    changes: list[Change]
    only_first: list[str]
    only_second: list[str]
    notes: list[str]


def of_results(first: Comparison, second: Comparison) -> Changes:
    """Changes between two results of simulations, by design, page size and machine.

    Raises PagelabError where they have no run in common.
    """
    ours, theirs = _runs(first), _runs(second)
    both = [label for label in ours if label in theirs]
    if not both:
        have = "; ".join(", ".join(found) or "none that is whole" for found in (ours, theirs))
        raise PagelabError(f"the two results have no run in common: {have}")
    return Changes(
        OF_RESULTS,
        [one for label in both for one in _of_runs(label, ours[label], theirs[label])],
        [label for label in ours if label not in theirs],
        [label for label in theirs if label not in ours],
        [
            *_named(first.name, second.name, first.pagelab, second.pagelab),
            *_machines([(label, ours[label], theirs[label]) for label in both]),
            *_parts(first, second),
            *dict.fromkeys([*larger_than_caches(first), *larger_than_caches(second)]),
        ],
    )


def _runs(comparison: Comparison) -> dict[str, Run]:
    """Runs that came to their end, by a label that is the same in every result."""
    return {
        f"{run.design} {run.pages} on {run.machine_name}": run
        for run in comparison.runs
        if run.complete
    }


def _of_runs(label: str, first: Run, second: Run) -> Iterator[Change]:
    yield _change(label, "time", first.elapsed, second.elapsed, _uncertain(first, second))
    yield _change(label, "memory", first.memory, second.memory)
    yield _change(label, "faults", first.os.faults, second.os.faults)
    misses = [(run.per_kilo("l2_tlb_misses"), _instructions(run)) for run in (first, second)]
    before, after = (rate * count / 1000 for (rate, _), count in misses)
    halves = [half / rate if rate else 0.0 for (rate, half), _ in misses]
    yield _change(label, "misses", before, after, math.hypot(*halves))
    tables = (run.os.peak_table_bytes for run in (first, second))
    yield _change(label, "tables", *tables)


def _instructions(run: Run) -> int:
    return run.instructions if run.sample is None else run.sample.instructions


def _uncertain(first: Run, second: Run) -> float:
    """Half the interval of the ratio of two times, relative to it: 0 of what was run whole."""
    if first.sample and second.sample and same_windows(first, second):
        kernel = first.on_one_core and second.on_one_core
        value, half = sampling.relative(second.sample, first.sample, kernel=kernel)
        return half / value if value else math.inf
    return math.hypot(*(_uncertain_time(run) for run in (first, second)))


def _uncertain_time(run: Run) -> float:
    """Half the interval of the time of a run, relative to it."""
    if run.sample is None:
        return 0.0
    counter = sampling.in_program if run.on_one_core else sampling.of("cycles")
    _, half = run.sample.of_instructions(counter)
    return half * run.sample.instructions / run.elapsed


def _change(
    label: str, measure: str, before: float, after: float, uncertain: float = 0.0
) -> Change:
    """A change whose ratio is uncertain by a share of itself."""
    if before == after == 0:
        return Change(label, measure, before, after, 0.0, 0.0, 0.0)
    ratio = after / before if before else math.inf
    half = uncertain * ratio if uncertain else 0.0
    low = max(ratio - half, 0.0) - 1
    return Change(label, measure, before, after, ratio - 1, low, ratio + half - 1)


def _named(first: str, second: str, version: str, later: str) -> list[str]:
    found = []
    if first != second:
        found.append(f"The first is of {first}, the second of {second}.")
    if version != later:
        found.append(f"pagelab {version} and {later} made them: changes may be the simulator's.")
    return found


def _machines(pairs: Iterable[tuple[str, Run, Run]]) -> list[str]:
    """Notes on machines that have one name and other keys."""
    found = {}
    for _, first, second in pairs:
        keys = sorted(_unlike(first.machine, second.machine))
        if keys:
            named = ", ".join(keys[:_KEYS]) + (" and others" if len(keys) > _KEYS else "")
            found[first.machine_name] = f"{first.machine_name} differs between the two in {named}."
    return list(found.values())


def _unlike(first: object, second: object, place: str = "") -> Iterator[str]:
    if isinstance(first, dict) and isinstance(second, dict):
        for key in {**first, **second}:
            name = f"{place}.{key}" if place else str(key)
            yield from _unlike(first.get(key), second.get(key), name)
    elif first != second:
        yield place


def _parts(first: Comparison, second: Comparison) -> list[str]:
    """Notes on results that speak of a part of the program."""
    cut = [
        word
        for word, one in (("first", first), ("second", second))
        if one.interrupted
        or (one.recording and one.recording.limited and one.window.get("sample") is None)
    ]
    if not cut:
        return []
    return [f"Only a part of the program is in the {' and the '.join(cut)}: times are of that."]


def of_advice(first: Saved, second: Saved) -> Changes:
    """Changes between two advices, by setting.

    Raises PagelabError where none was tried in both.
    """
    ours, theirs = ({one.name: one for one in saved.tried} for saved in (first, second))
    both = [name for name in ours if name in theirs]
    if not both:
        raise PagelabError("no setting was tried in both")
    found = [
        _of_ratios(name, "gain", ours[name].faster.ratio, theirs[name].faster.ratio)
        for name in both
    ]
    pairs: list[tuple[str, Tried, Tried]] = [("unchanged", first.unchanged, second.unchanged)]
    pairs += [(name, ours[name], theirs[name]) for name in both]
    for pair in pairs:
        found += _of_tries(*pair, rated=first.rated and second.rated)
    notes = _named(_program(first), _program(second), "", "")
    cpus = [saved.host.get("cpu", "?") for saved in (first, second)]
    if cpus[0] != cpus[1]:
        notes.append(f"The first was run on {cpus[0]}, the second on {cpus[1]}.")
    return Changes(
        OF_ADVICE,
        found,
        [name for name in ours if name not in theirs],
        [name for name in theirs if name not in ours],
        notes,
    )


def _program(saved: Saved) -> str:
    return saved.command[0].rpartition("/")[2] if saved.command else "?"


def _of_tries(name: str, first: Tried, second: Tried, *, rated: bool) -> Iterator[Change]:
    yield _of_ratios(name, "time", first.median("cpu"), second.median("cpu"))
    if rated:
        yield _of_ratios(name, "rate", first.median("rate"), second.median("rate"))
    # Memory was looked at now and then, in a run or two.
    peaks = (Ratio(float(one.peak_bytes), 0.0, math.inf) for one in (first, second))
    yield _of_ratios(name, "memory", *peaks)
    yield _of_ratios(name, "faults", first.median("faults"), second.median("faults"))


def _of_ratios(name: str, measure: str, before: Ratio, after: Ratio) -> Change:
    """A change whose interval reaches from one end of the two intervals to the other."""
    if not before.median:
        return _change(name, measure, before.median, after.median)
    open_ = math.isinf(before.high) or math.isinf(after.high) or not before.low
    low, high = (0.0, math.inf) if open_ else (after.low / before.high, after.high / before.low)
    share = after.median / before.median - 1
    return Change(name, measure, before.median, after.median, share, low - 1, high - 1)
