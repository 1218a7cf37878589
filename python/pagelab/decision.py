"""Decides what the runs of a comparison say, from the figures that the table has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagelab import first_touch, sampling
from pagelab.answer import Asked, Change, Decision, Effect, Estimate
from pagelab.counts import CYCLE_PARTS, INTERRUPTED

if TYPE_CHECKING:
    from pagelab.results import Comparison, Run

# Differences below this share are called none: a change of code layout moves real programs more.
NOTICEABLE = 0.005
# A confidence interval this far from nothing, and no further, settles that there is little to tell.
SETTLED = 0.02
# Share of misses that is chance; share of faults that is worth a look.
SMALL = 0.05
# Share of accesses below which it does not matter from where they are served.
CROWDED = 0.001


def decide(comparison: Comparison) -> Decision:
    """Decision by the runs on one machine."""
    base = comparison.baseline
    asked = _asked(comparison)
    best = _best(comparison, asked)
    gain = None if best is None else _gain(comparison, best)
    between = None if best is None else first_touch.gains(comparison, best)
    effect = _effect(asked, gain)
    if between is not None and first_touch.decides(between):
        effect = "depends"
    bound = ideal(comparison, base.pages)
    return Decision(
        machine=base.machine_name,
        asked=asked,
        effect=effect,
        baseline=comparison.label(base),
        best=None if best is None else comparison.label(best),
        change=None if best is None else subject(base, best),
        gain=gain,
        between=between,
        parts=[] if best is None else _parts(comparison, best, effect),
        memory_bytes=base.memory,
        best_memory_bytes=None if best is None else best.memory,
        kernel=base.share("faults") + base.share("zeroing"),
        cost=_cost(comparison, bound),
        bound=None if bound is None else _gain(comparison, bound),
    )


def _best(comparison: Comparison, asked: Asked) -> Run | None:
    """The run that is spoken of: the fastest, or of operating systems the most different.

    Another operating system is not spoken of where the baseline's is as good.
    """
    rivals = _rivals(comparison)
    if asked == "operating system":
        return max(rivals, key=lambda run: abs(comparison.speedup(run) - 1), default=None)
    best = max(rivals, key=comparison.speedup, default=None)
    if best is None:
        return None
    enough = comparison.speedup(best) - NOTICEABLE
    alike = (
        run
        for run in rivals
        if (run.pages, run.without_system) == (best.pages, best.without_system)
        and run.system == comparison.baseline.system
        and comparison.speedup(run) > enough
    )
    return next(alike, best)


def subject(base: Run, run: Run) -> str:
    """Difference from the baseline: `2 MB pages`, `dpt`, `dpt with 2 MB pages`."""
    sizes = " and ".join(f"{size[:-1]} {size[-1]}B" for size in run.pages.split("+"))
    named = {
        "madvise": "2 MB pages where the program asks for them",
        "reserved": "2 MB blocks that are reserved",
        "quicksilver": "2 MB pages as Quicksilver makes them",
    }
    pages = named.get(run.pages, f"{sizes} pages")
    if run.pages == base.pages:
        return run.system if run.without_system == base.without_system else run.design
    return pages if run.design == base.design else f"{run.design} with {pages}"


def ideal(comparison: Comparison, pages: str) -> Run | None:
    """Free translation with a page size, if it is the bound that it should be."""
    runs = (run for run in comparison.runs if run.pages == pages and run.design == "ideal")
    found = next(runs, None)
    return found if found is not None and not why_no_bound(comparison, found) else None


def why_no_bound(comparison: Comparison, ideal: Run) -> str:
    """Reason for which a run under `ideal` says nothing about translation; empty if it does.

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
    """True if more data come from far away, by more than prefetchers and chance account for.

    There should be fewer, since no entries of page tables are in the caches.
    """
    ours, theirs = ideal.caches.data, usual.caches.data
    beyond_l2 = ours.llc + ours.dram, theirs.llc + theirs.dram
    beyond_llc = ours.dram, theirs.dram
    return any(
        more > least + max(SMALL * least, CROWDED * usual.accesses)
        for more, least in (beyond_l2, beyond_llc)
    )


def _others(comparison: Comparison) -> list[Run]:
    """The runs that were asked about: all but the baseline and the bounds."""
    return [
        run for run in comparison.runs if run is not comparison.baseline and run.design != "ideal"
    ]


def _rivals(comparison: Comparison) -> list[Run]:
    """The runs that may be recommended."""
    return [run for run in _others(comparison) if run.stopped in (None, INTERRUPTED)]


def _asked(comparison: Comparison) -> Asked:
    base, others = comparison.baseline, _others(comparison)
    tables = any(run.without_system != base.without_system for run in others)
    sizes = any(run.pages != base.pages for run in others)
    if tables and sizes:
        return "page table or page size"
    if sizes:
        return "page size"
    if not tables and any(run.system != base.system for run in others):
        return "operating system"
    failed = any(failure.design != "ideal" for failure in comparison.failures)
    return "page table" if tables or failed else "nothing"


def _effect(asked: Asked, gain: Estimate | None) -> Effect:
    if asked == "nothing":
        return "not asked"
    if gain is None:
        return "unknown"
    # As shares of the baseline's time: of slow runs speed says little.
    saved = gain.value / (1 + gain.value)
    half = gain.half / (1 + gain.value) ** 2
    if abs(saved) >= max(NOTICEABLE, half):
        return "helps" if saved > 0 else "hurts"
    return "no difference" if abs(saved) + half < max(SETTLED, NOTICEABLE) else "unknown"


def _gain(comparison: Comparison, run: Run) -> Estimate:
    """The speed that a run gains."""
    half = comparison.speedup_interval(run) or 0.0
    return Estimate(value=comparison.speedup(run) - 1, half=half)


def _cost(comparison: Comparison, bound: Run | None) -> Estimate:
    """The share of the baseline's time that translation costs: what `ideal` would save.

    Without `ideal`, by the second clock, and without that what the simulator charges to it.
    """
    base = comparison.baseline
    if bound is not None:
        gain = _gain(comparison, bound)
        faster = 1 + gain.value
        return Estimate(value=1 - 1 / faster, half=gain.half / faster**2)
    if base.cycles.recoverable is None:
        return Estimate(value=base.share("translation"))
    if base.sample is not None:
        value, half = base.sample.of_time(sampling.of("recoverable"))
        return Estimate(value=value, half=half)
    return Estimate(value=base.share("recoverable"))


def _parts(comparison: Comparison, run: Run, effect: Effect) -> list[Change]:
    """The parts of the time that change: those first that go the effect's way, the largest first.

    Parts are shares of the sum over cores; of several cores they need not say why one is last.
    """
    base, time = comparison.baseline, comparison.relative_time(run)
    changes = [
        Change(part=part, before=base.share(part), after=run.share(part) * time)
        for part in CYCLE_PARTS
    ]
    rises = effect == "hurts"
    told = [one for one in changes if abs(one.after - one.before) >= NOTICEABLE]
    return sorted(
        told, key=lambda one: ((one.after > one.before) != rises, -abs(one.after - one.before))
    )
