"""The answer in a sentence or two, computed from the numbers and from nothing else.

To *save* is of the baseline's time, to *gain* is speed, as in the table's column.
"""

from dataclasses import dataclass

from pagelab import sampling, units
from pagelab.counts import CYCLE_PARTS
from pagelab.results import INTERRUPTED, Comparison, Run, same_windows, sampled_time

# Differences below this share are called none: a change of code layout moves real programs more.
NOTICEABLE = 0.005
# A bound below this leaves nothing to gain; a share of faults above it is worth a look.
SMALL = 0.05
# Of a share of accesses below this it does not matter from where they are served.
CROWDED = 0.001

_PART_NAMES = {
    "compute": "Time computing",
    "data": "Time waiting for data",
    "translation": "Time in address translation",
    "mispredictions": "Time lost to mispredicted branches",
    "fetch": "Time waiting for instructions",
    "faults": "Time in page faults and unmapping",
    "zeroing": "Time zeroing pages",
    "migrations": "Time moving pages",
}


@dataclass(frozen=True)
class Verdict:
    """A headline, the reason for it, and what limits its truth."""

    headline: str
    reason: str
    caveats: list[str]

    def __str__(self) -> str:
        return " ".join(filter(None, [self.headline, self.reason, *self.caveats]))


@dataclass(frozen=True)
class _Share:
    """A share of the baseline's time; `half` is half its confidence interval's width, or 0."""

    value: float
    half: float = 0.0

    def __str__(self) -> str:
        digits = 0 if abs(self.value) >= 0.0995 else 1
        text = units.percent(self.value, digits)
        if not self.half:
            return text
        half = f"{100 * self.half:.{digits}f}"
        return f"{text.removesuffix(' %')} \N{PLUS-MINUS SIGN}{half} %"

    @property
    def noticeable(self) -> bool:
        return abs(self.value) >= max(NOTICEABLE, self.half)


def verdict(comparison: Comparison) -> Verdict:
    """What the numbers say about changing the page table or the page size."""
    machines = comparison.machines
    if len(machines) == 1:
        return Verdict(*_answer(comparison), _caveats(comparison))
    answers = [(name, *_answer(comparison.on(name))) for name in machines]
    return Verdict(
        " ".join(f"On {name}: {headline}" for name, headline, _ in answers),
        " ".join(f"On {name}: {reason}" for name, _, reason in answers if reason),
        _caveats(comparison),
    )


def _answer(comparison: Comparison) -> tuple[str, str]:
    """Headline and reason for one machine."""
    base = comparison.baseline
    rivals = _rivals(comparison)
    if not rivals:
        headline = f"{_cost_text(comparison)}{'' if _few_faults(base) else _fault_share(base)}."
        return headline, _bound(comparison)
    best = max(rivals, key=comparison.speedup)
    saved = _saved(comparison, best)
    if saved.value > 0 and saved.noticeable:
        return _gains(comparison, best, saved), _reason(comparison, best)
    if not saved.noticeable:
        return _nothing_helps(comparison, rivals, best), ""
    base_name = comparison.label(base)
    headline = (
        f"{base_name} serves this program best: {_subject(base, best)}, the next, would make it "
        f"{_Share(1 - comparison.speedup(best))} slower."
    )
    if _ideal(comparison, base.pages) is None:
        headline += f" {_cost_text(comparison)}."
    return headline, _reason(comparison, best)


def _rivals(comparison: Comparison) -> list[Run]:
    """What may be recommended: neither the bound nor what failed."""
    return [
        run
        for run in comparison.runs
        if run is not comparison.baseline
        and run.design != "ideal"
        and run.stopped in (None, INTERRUPTED)
    ]


def _gains(comparison: Comparison, best: Run, saved: _Share) -> str:
    """`Translation costs this program 2.4 %; 2 MB pages would save 1.9 % and take ...`."""
    base = comparison.baseline
    subject = _subject(base, best)
    less = _difference(comparison, best)
    faults = _Share(_faults(comparison, base)), _Share(_faults(comparison, best))
    fewer = faults[0].value - faults[1].value
    if not less.noticeable:
        clauses = [
            f"{_cost_text(comparison)}; {subject} would not change that{_memory(base, best)}"
        ]
    elif less.value < 0:
        more = _Share(-less.value, less.half)
        clauses = [f"{_cost_text(comparison)}; {subject} would add {more}{_memory(base, best)}"]
    else:
        clauses = [f"{_cost_text(comparison)}; {subject} would save {less}{_memory(base, best)}"]
    # What reads the same is no change to a reader.
    if abs(fewer) >= NOTICEABLE and str(faults[0]) != str(faults[1]):
        verb = "fall" if fewer > 0 else "rise"
        clauses.append(f"page faults {verb} from {faults[0]} to {faults[1]}")
    if abs(saved.value - less.value) >= max(NOTICEABLE, saved.half):
        gain = comparison.speedup(best) - 1
        half = comparison.speedup_interval(best) or 0.0
        clauses.append(f"in all it would run {_Share(gain, half)} faster")
    return "; ".join(clauses) + "."


def _nothing_helps(comparison: Comparison, rivals: list[Run], best: Run) -> str:
    """`No page table would help: even free translation would gain only 2.9 %. 11 % of ...`."""
    base = comparison.baseline
    kinds = []
    if any(run.design != base.design for run in rivals):
        kinds.append("page table")
    if any(run.pages != base.pages for run in rivals):
        kinds.append("page size")
    kind = " or ".join(kinds)
    ideal = _ideal(comparison, base.pages)
    within = units.percent(max(NOTICEABLE, comparison.speedup_interval(best) or 0))
    if ideal is None:
        text = f"No {kind} of these would help: {_subject(base, best)}, the best, differs by less"
        return f"{text} than {within}. {_cost_text(comparison)}.{_fault_hint(comparison)}"
    gain = comparison.speedup(ideal) - 1
    bound = _Share(gain, comparison.speedup_interval(ideal) or 0.0)
    if gain < SMALL:
        text = f"No {kind} would help: even free translation would gain only {bound}."
    else:
        text = (
            f"No {kind} of these would help: {_subject(base, best)}, the best, differs by less "
            f"than {within}. Free translation, the bound for any design, would gain {bound}."
        )
    return text + _fault_hint(comparison)


def _cost_text(comparison: Comparison) -> str:
    cost = _saved_by_ideal(comparison)
    return f"Translation costs this program {cost}"


def _few_faults(run: Run) -> bool:
    return run.share("faults") + run.share("zeroing") < SMALL


def _fault_share(run: Run) -> str:
    return f", page faults {_Share(run.share('faults') + run.share('zeroing'))}"


def _fault_hint(comparison: Comparison) -> str:
    """What else takes time that pages of another size would change, if it is much."""
    base = comparison.baseline
    if _few_faults(base):
        return ""
    now = _faults(comparison, base)
    text = f" {_Share(now)} of the time is page faults and unmapping"
    others = [run for run in _rivals(comparison) if run.pages != base.pages and run.complete]
    if not others:
        return f"{text}: --pages 4K,2M shows what larger pages would do about them."
    least = min(others, key=lambda run: _faults(comparison, run))
    after = _faults(comparison, least)
    if now - after < NOTICEABLE or str(_Share(now)) == str(_Share(after)):
        return f"{text}, as many with every page size."
    return f"{text}: {_subject(base, least)} would bring them to {_Share(after)}."


def _subject(base: Run, run: Run) -> str:
    """What is different from the baseline: `2 MB pages`, `dpt`, `dpt with 2 MB pages`."""
    sizes = {"madvise": "2 MB pages where the program asks for them"}
    pages = sizes.get(run.pages, f"{run.pages[:-1]} {run.pages[-1]}B pages")
    if run.pages == base.pages:
        return run.design
    return pages if run.design == base.design else f"{run.design} with {pages}"


def _memory(base: Run, run: Run) -> str:
    """` and take 12 % more memory`, if it is enough to be said."""
    if not base.memory:
        return ""
    change = run.memory / base.memory - 1
    if abs(change) < NOTICEABLE:
        return ""
    return f" and take {_Share(abs(change))} {'more' if change > 0 else 'less'} memory"


def _ideal(comparison: Comparison, pages: str) -> Run | None:
    """Free translation with a page size, if it is the bound that it should be."""
    runs = (run for run in comparison.runs if run.pages == pages and run.design == "ideal")
    ideal = next(runs, None)
    return ideal if ideal is not None and not _why_no_bound(comparison, ideal) else None


def _why_no_bound(comparison: Comparison, ideal: Run) -> str:
    """Why a run under `ideal` says nothing about translation; empty if it does.

    Without page tables between them data lie in other frames, which may crowd the same sets of the
    caches. It may then still be the fastest, and gain too little by it.
    """
    same = [run for run in comparison.runs if run.pages == ideal.pages and run is not ideal]
    if not same:
        return ""
    fastest = max(same, key=comparison.speedup)
    if comparison.speedup(fastest) > comparison.speedup(ideal) * (1 + NOTICEABLE):
        return f"is slower than {comparison.label(fastest)}"
    usual = next((run for run in same if run.design == comparison.baseline.design), same[0])
    if _crowds(ideal, usual):
        return f"has more cache misses than {comparison.label(usual)}"
    return ""


def _crowds(ideal: Run, usual: Run) -> bool:
    """Whether more data come from far away, by more than prefetchers and chance account for.

    There should be fewer, since no entries of page tables are in the caches.
    """
    ours, theirs = ideal.caches.data, usual.caches.data
    beyond_l2 = ours.llc + ours.dram, theirs.llc + theirs.dram
    beyond_llc = ours.dram, theirs.dram
    return any(
        more > least + max(SMALL * least, CROWDED * usual.accesses)
        for more, least in (beyond_l2, beyond_llc)
    )


def _saved(comparison: Comparison, run: Run) -> _Share:
    """The share of the baseline's time that a run does not take."""
    return _combined(comparison, [(1.0, comparison.baseline), (-1.0, run)])


def _saved_by_ideal(comparison: Comparison) -> _Share:
    """What translation costs the baseline: what it would save if it were free.

    Without `ideal`, by the second clock, and without that what the simulator charges to it.
    """
    base = comparison.baseline
    ideal = _ideal(comparison, base.pages)
    if ideal is None:
        return _recoverable(base)
    return _saved(comparison, ideal)


def _recoverable(run: Run) -> _Share:
    """What free translation would save a run, as a share of its own time."""
    if run.cycles.recoverable is None:
        return _Share(run.share("translation"))
    if run.sample is not None:
        return _Share(*run.sample.of_time(sampling.of("recoverable")))
    return _Share(run.share("recoverable"))


def _translation(comparison: Comparison, run: Run) -> float:
    """What translation costs a run, as a share of the baseline's time."""
    base = comparison.baseline
    ideals = _ideal(comparison, run.pages), _ideal(comparison, base.pages)
    if ideals[0] is None or ideals[1] is None:
        return _recoverable(run).value * comparison.relative_time(run)
    return _combined(comparison, [(1.0, run), (-1.0, ideals[0])]).value


def _difference(comparison: Comparison, run: Run) -> _Share:
    """How much less translation costs a run than the baseline, as a share of its time."""
    base = comparison.baseline
    theirs, ours = _ideal(comparison, base.pages), _ideal(comparison, run.pages)
    if theirs is None or ours is None:
        return _Share(_translation(comparison, base) - _translation(comparison, run))
    return _combined(comparison, [(1.0, base), (-1.0, theirs), (-1.0, run), (1.0, ours)])


def _combined(comparison: Comparison, terms: list[tuple[float, Run]]) -> _Share:
    """A sum of runs' times over the baseline's."""
    base = comparison.baseline
    value = sum(factor * comparison.relative_time(run) for factor, run in terms)
    if not same_windows(base, *(run for _, run in terms)):
        return _Share(value)
    return _Share(*sampled_time(terms, base))


def _faults(comparison: Comparison, run: Run) -> float:
    """Page faults and zeroing, as a share of the baseline's time."""
    kernel = run.share("faults") + run.share("zeroing")
    return kernel * comparison.relative_time(run)


def _reason(comparison: Comparison, run: Run) -> str:
    return " ".join(filter(None, [_because(comparison, run), _bound(comparison)]))


def _because(comparison: Comparison, run: Run) -> str:
    """The part of the time that changes most, and what is behind it."""
    base = comparison.baseline
    before = {part: base.share(part) for part in CYCLE_PARTS}
    after = {part: run.share(part) * comparison.relative_time(run) for part in CYCLE_PARTS}
    part = max(CYCLE_PARTS, key=lambda name: abs(before[name] - after[name]))
    if abs(before[part] - after[part]) < NOTICEABLE:
        return ""
    verb = "falls" if after[part] < before[part] else "rises"
    name = comparison.label(base)
    text = (
        f"{_PART_NAMES[part]} {verb} from {units.percent(before[part])} to "
        f"{units.percent(after[part])} of {'the baseline' if ' ' in name else name}'s time"
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
    cycles = _instead(run.walks.latency.mean, base.walks.latency.mean, 0)
    reads = _instead(run.walks.reads / run.walks.count, base.walks.reads / base.walks.count, 2)
    length = f"takes {cycles[0]} cycles{cycles[1]}"
    return f"a page walk {length} and makes {reads[0]} memory references{reads[1]}"


def _instead(ours: float, theirs: float, digits: int) -> tuple[str, str]:
    """A figure, and what it is instead of; one that reads the same is said to be so."""
    new, old = f"{ours:.{digits}f}", f"{theirs:.{digits}f}"
    return new, " as before" if new == old else f" instead of {old}"


def _bound(comparison: Comparison) -> str:
    """What a free translation would gain: no page table can do better."""
    ideal = _ideal(comparison, comparison.baseline.pages)
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


def _no_bounds(comparison: Comparison) -> list[str]:
    """Where `ideal` is not the bound that it should be."""
    caveats = []
    for name in comparison.machines:
        on_machine = comparison.on(name)
        for ideal in on_machine.runs:
            if ideal.design != "ideal" or ideal.stopped:
                continue
            reason = _why_no_bound(on_machine, ideal)
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


def _caveats(comparison: Comparison) -> list[str]:
    caveats = []
    stopped = [run for run in comparison.runs if run.stopped == INTERRUPTED]
    failed = [run for run in comparison.runs if run.stopped and run not in stopped]
    caveats += [
        f"{comparison.label(run)} ended after {units.count(run.accesses)} accesses: {run.stopped}."
        for run in failed
    ]
    if stopped:
        least = min(run.accesses for run in stopped)
        caveats.append(
            f"The simulation was stopped early; this speaks of the first "
            f"{units.count(least)} accesses."
        )
    caveats += _no_bounds(comparison)
    recording = comparison.recording
    if recording is not None and recording.signal:
        caveats.append(
            f"The program was ended by {recording.signal_name} after "
            f"{units.count(recording.accesses)} accesses; this speaks of what it did until then."
        )
    if recording is not None and recording.incomplete:
        caveats.append(f"The recording is incomplete: {recording.incomplete}.")
    if recording is not None and recording.limited:
        caveats.append(
            f"Only part of the program was recorded ({units.count(recording.accesses)} "
            "accesses). What was left out may behave differently, and pages first touched there "
            "count as faults here."
        )
    caveats.extend(f"{note}." for note in comparison.notes)
    caveats.extend(
        f"{failure.design} has no result: {failure.error}." for failure in comparison.failures
    )
    return caveats
