"""The answer in a few sentences: each is written from the decision on a machine.

Speeds and shares have the digits of the table, so that no reader has to reconcile two figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pagelab import advice, first_touch, granted, units
from pagelab.answer import Advice, Answer, Decision, Estimate
from pagelab.caveats import caveats
from pagelab.decision import NOTICEABLE, SMALL, decide

if TYPE_CHECKING:
    from pagelab.results import Comparison, Run

_PART_NAMES = {
    "compute": "computing",
    "data": "waiting for data",
    "translation": "address translation",
    "mispredictions": "mispredicted branches",
    "fetch": "waiting for instructions",
    "faults": "page faults and unmapping",
    "zeroing": "zeroing pages",
    "migrations": "moving pages",
}
# More of them say less.
_MOST_PARTS = 3
_AS_BEFORE = " as before"


def verdict(comparison: Comparison) -> Answer:
    """Verdict of the numbers on changing the page table or the page size."""
    on_machines = [comparison.on(name) for name in comparison.machines]
    decisions = [decide(one) for one in on_machines]
    pairs = list(zip(on_machines, decisions, strict=True))
    several = len(pairs) > 1

    def told(texts: list[str]) -> str:
        named = zip(decisions, texts, strict=True)
        return " ".join(
            f"On {one.machine}: {text}" if several else text for one, text in named if text
        )

    # The advice depends on no machine: it is that of the first that it helps on.
    to_type = [one for machine, decision in pairs for one in _advice(machine, decision)]
    return Answer(
        decisions=decisions,
        headline=told([_headline(one, decision) for one, decision in pairs]),
        reason=told([_reason(one, decision) for one, decision in pairs]),
        advice=[one for at, one in enumerate(to_type) if one not in to_type[:at]],
        caveats=caveats(comparison),
    )


def _headline(comparison: Comparison, decision: Decision) -> str:
    program = "the beginning of this program" if _ended_early(comparison) else "this program"
    if decision.effect == "not asked":
        kernel = decision.kernel
        faults = "" if kernel < SMALL else f", page faults and zeroing {units.percent(kernel)}"
        return f"Translation costs {program} {decision.cost} of its time{faults}."
    if decision.gain is None:
        return f"That cannot be told: no other {decision.asked} has a result."
    best, more = decision.change, _memory(decision)
    if decision.asked == "operating system":
        return " ".join(_under_systems(comparison, decision))
    change = units.signed_percent(decision.gain.value)
    if decision.effect == "helps":
        return f"Yes: {best} would run {program} {decision.gain} faster{more}."
    if decision.effect == "depends" and decision.between is not None:
        return (
            f"That depends on where memory comes from: {best} would run {program} "
            f"{first_touch.told(decision.between)}{more}."
        )
    if decision.effect == "unknown":
        half = units.percent(decision.gain.half)
        return (
            f"That cannot be told from this sample: {best} would change the program's speed by "
            f"{change.removesuffix(' %')} \N{PLUS-MINUS SIGN} {half}{more}."
        )
    if len({run.design for run in comparison.runs} - {"ideal"}) * len(comparison.page_sizes) > 2:
        best = f"{best}, the best of these,"
    if decision.effect == "hurts":
        as_long = _as_long(decision.gain.value)
        return f"No: {best} would run {program} {decision.gain} slower{as_long}{more}."
    to_it = f" to {program}" if _ended_early(comparison) else ""
    return f"No: {best} would make no difference{to_it} ({change}){more}."


def _as_long(gain: float) -> str:
    """` (3.1 times as long)`, where a percentage says little."""
    times = 1 / (1 + gain)
    return f" ({times:,.1f} times as long)" if times > 2 else ""


def _under_systems(comparison: Comparison, decision: Decision) -> Iterator[str]:
    """A sentence for each operating system, that which differs most first."""
    base, first = comparison.baseline, _run(comparison, decision)
    others = [run for run in comparison.runs if run.design != "ideal" and run is not base]
    for run in sorted(others, key=lambda run: run is not first):
        value = comparison.speedup(run) - 1
        half = comparison.speedup_interval(run) or 0.0
        if abs(value) < max(NOTICEABLE, half):
            alike = f"this program would take as long as under {base.system}"
            yield f"Under {run.system} {alike if run is first else 'it would take as long'}."
            continue
        change = f"{Estimate(value=value, half=half)} {'faster' if value > 0 else 'slower'}"
        text = f"{change}{_as_long(value)}"
        if run is first:
            yield f"Under {run.system} this program would run {text} than under {base.system}" + (
                f"{_memory(decision)}."
            )
        else:
            yield f"Under {run.system} it would run {text}."


def _memory(decision: Decision) -> str:
    """` and take 12 MiB more memory (...)`: of page tables only if it is enough to matter."""
    before, after = decision.memory_bytes, decision.best_memory_bytes
    if not before or after is None:
        return ""
    change = abs(after - before)
    if change < max(NOTICEABLE * before, 1 << 16):
        return (
            ""
            if decision.asked == "page table"
            else f" and take as much memory ({units.size(after)})"
        )
    more = "more" if after > before else "less"
    return (
        f" and take {units.size(change)} {more} memory "
        f"({units.size(after)} instead of {units.size(before)})"
    )


def _reason(comparison: Comparison, decision: Decision) -> str:
    best = _run(comparison, decision)
    sentences = []
    if best is not None:
        sentences.append(_later(comparison, best))
        sentences += [granted.why_none(best), _because(comparison, decision, best)]
        sentences += [granted.fell_back(best), granted.split(best)]
        if comparison.recording is not None and decision.kernel >= SMALL:
            sentences.append(granted.in_steps(best))
    sentences.append(_to_gain(comparison, decision))
    return " ".join(f"{text}." for text in sentences if text)


def _ended_early(comparison: Comparison) -> bool:
    """True if the program or its simulation was ended, or its end is not in the recording."""
    recorded = comparison.recording
    if any(run.stopped for run in comparison.runs):
        return True
    if recorded is None:
        return False
    cut = recorded.limited and not recorded.window.get("sample")
    cut |= comparison.baseline.of_beginning
    ended = recorded.ended_after is not None or recorded.ended_by is not None
    return cut or ended or recorded.interrupted


def _later(comparison: Comparison, run: Run) -> str:
    """Speed of the second half, where a longer run would come to something else."""
    later = comparison.later_speedup(run)
    speed, half = comparison.speedup(run), comparison.speedup_interval(run) or 0.0
    if not _ended_early(comparison) or later is None:
        return ""
    if abs(later - speed) < max(2 * NOTICEABLE, 2 * half):
        return ""
    return (
        f"In the second half of that the change of speed is {units.signed_percent(later - 1)}, "
        "which a longer run comes nearer to"
    )


def _run(comparison: Comparison, decision: Decision) -> Run | None:
    """The run that a decision calls the best."""
    runs = (run for run in comparison.runs if comparison.label(run) == decision.best)
    return next(runs, None)


def _because(comparison: Comparison, decision: Decision, best: Run) -> str:
    """The parts of the time that change most, and what is behind it."""
    rises = [one.after > one.before for one in decision.parts]
    one_way = decision.effect in ("helps", "hurts")
    if not rises or decision.effect == "unknown":
        return ""
    if one_way and rises[0] != (decision.effect == "hurts"):
        return ""
    if not one_way and len(set(rises)) < 2:
        # Gains that make up for the change are spread over parts that change too little.
        return ""
    first, *others = decision.parts[:_MOST_PARTS]
    name = _PART_NAMES[first.part]
    text = (
        f"{name[0].upper()}{name[1:]} would take {_times(first.after)} of "
        f"{_time_of(comparison, decision)} instead of {units.percent(first.before)}"
    )
    for one in others:
        name = _PART_NAMES[one.part]
        text += f", {name} {_times(one.after)} instead of {units.percent(one.before)}"
    base = comparison.baseline
    if first.part == "translation" and base.walks.count and best.walks.count:
        text += _walks(base, best)
    return text


def _times(share: float) -> str:
    """A share of the baseline's time, which may be more than all of it."""
    return units.percent(share) if share <= 1 else f"{share:,.1f} times all"


def _time_of(comparison: Comparison, decision: Decision) -> str:
    base = comparison.baseline
    if decision.asked == "operating system":
        return f"{base.system}'s time"
    if decision.asked == "page size":
        return f"the time with {base.pages} pages"
    return f"{base.design}'s time" if decision.asked == "page table" else "the baseline's time"


def _walks(base: Run, run: Run) -> str:
    """Difference of the walks: their number when that changes, else their length and reads."""
    ours = run.walks.count / run.instructions
    theirs = base.walks.count / base.instructions
    if abs(ours - theirs) > 0.1 * theirs:
        return (
            f". There would be {1000 * ours:.2f} page walks per thousand instructions instead of "
            f"{1000 * theirs:.2f}"
        )
    cycles = _instead(run.walks.latency.mean, base.walks.latency.mean, 0)
    reads = _instead(run.walks.reads / run.walks.count, base.walks.reads / base.walks.count, 2)
    if cycles[1] == reads[1] == _AS_BEFORE:
        return ""
    length = f". A page walk takes {cycles[0]} cycles{cycles[1]}"
    return f"{length} and makes {reads[0]} memory references{reads[1]}"


def _instead(ours: float, theirs: float, digits: int) -> tuple[str, str]:
    """A figure, and what it is instead of; one that reads the same is said to be so."""
    new, old = f"{ours:.{digits}f}", f"{theirs:.{digits}f}"
    return new, _AS_BEFORE if new == old else f" instead of {old}"


def _to_gain(comparison: Comparison, decision: Decision) -> str:
    """Possible gain from translation and faults in all."""
    texts = []
    base = comparison.baseline
    bound = decision.bound
    if decision.asked == "operating system":
        return ""
    if decision.asked == "page size":
        if decision.effect != "helps":
            kernel = units.percent(decision.kernel)
            return (
                f"With {base.pages} pages translation costs {decision.cost} of the time, page "
                f"faults, unmapping and zeroing {kernel}"
            )
        return ""
    if bound is not None and base.design != "ideal":
        if bound.value < NOTICEABLE:
            texts.append(
                f"Even free translation would gain only {units.percent(max(bound.value, 0))}: the "
                f"TLBs miss {base.per_kilo('l2_tlb_misses')[0]:.2f} times per thousand instructions"
            )
        else:
            texts.append(
                f"Free translation, the bound for any page table with {base.pages} pages, would "
                f"gain {bound}"
            )
    elif decision.effect not in ("helps", "not asked"):
        texts.append(f"Translation costs {decision.cost} of the time")
    if (
        decision.kernel >= SMALL
        and len(comparison.page_sizes) == 1
        # Designs that were asked for, too, where a run was stopped before it began.
        and not comparison.failures
        and decision.effect != "not asked"
    ):
        texts.append(
            f"Page faults, unmapping and zeroing take {units.percent(decision.kernel)} of the "
            "time: --pages 4K,2M says what larger pages would do about them"
        )
    return ". ".join(texts)


def _advice(comparison: Comparison, decision: Decision) -> list[Advice]:
    best = _run(comparison, decision)
    if best is None:
        return []
    if decision.effect == "helps":
        return advice.to_have(comparison, best)
    if decision.effect == "depends":
        return [Advice(words="pagelab validate runs a program both ways on this machine.")]
    if decision.effect == "unknown":
        words = "More windows, or longer ones, tell more: --sample, or none for the whole program."
        return [Advice(words=words)] if best.windows else []
    return []
