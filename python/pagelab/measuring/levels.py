"""Sizes and latencies of the caches and of memory, read off one latency curve.

What the system claims decides only between sizes that the curve leaves open: a level of which the
curve says that it is overflowed long before (a guest's share of a last level, a partition) has
the size at which it is.
"""

import math
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from pagelab import units
from pagelab.measuring.result import Fit, Plateau, Shape, SharedLevel, Step, Stepped

LINE = 64

# A concluded size this near to what the system claims is that: the probe's own lines take a few.
_SAME = 0.1
# Half of the loads miss this near to the capacity of a level that others use, too.
_NEAR = 0.2
# A shape explains a curve as well as the best one within this factor of its misfit: the probe's.
_AS_WELL = 1.5
# A level takes less than this of what a line in no cache takes.
_MEMORYS = 0.75
# The last plateau reaches as far as the sweep if it ends here: its last points may be spoilt.
_TO_ITS_END = 0.7
# Memory was seen if the sweep went this much further than the largest claim.
_BEYOND = 1.5


@dataclass
class Level:
    """One level of cache: bytes and latency in ns, where known, and where each is from."""

    size: int | None = None
    latency: float | None = None
    size_source: str = ""
    latency_source: str = ""
    size_concluded: bool = False
    latency_concluded: bool = False
    # Way in which lines leave it, by the curve: at random, and from sets of so many.
    at_random: bool = False
    ways: int | None = None
    # Bytes that others bring into it, 10^9 a second.
    others: float = 0.0


@dataclass
class Hierarchy:
    """The levels, nearest first, and the latency of memory behind them (None: not reached)."""

    levels: list[Level] = field(default_factory=list)
    memory: float | None = None
    memory_source: str = ""


def hierarchy(
    found: Stepped,
    claims: list[dict[str, Any]],
    shared: SharedLevel | None = None,
    flushed: float | None = None,
    count: int = 3,
) -> Hierarchy:
    """Reads `count` levels of cache off a curve over lines; latencies rise from one to the next.

    `claims` are what the system says, nearest level first; `shared` is what loads at random say of
    the last level, and `flushed` what a load of a line that no cache has takes, ns.
    """
    sizes: list[int | None] = [claim["size"] for claim in claims[:count]]
    sizes += [None] * (count - len(sizes))
    largest = max((size for size in sizes if size), default=0)
    swept = found.curve.x[-1] * LINE
    plateaus = list(found.plateaus)
    memory = None
    # A plateau nearly as dear as a line in no cache is memory, in as many pieces as found.
    dear = [p for p in plateaus if flushed and p.level > _MEMORYS * flushed]
    if dear:
        plateaus = plateaus[: -len(dear)]
        plateaus.append(dear[-1].model_copy(update={"first": dear[0].first}))
    reaches = bool(plateaus) and plateaus[-1].last >= found.curve.x[-1] * _TO_ITS_END
    # One more plateau than there are levels is memory's, also where its end rises (walks of ever
    # more pages), and where a last level that others use claims most of what was swept.
    beyond = reaches and swept >= _BEYOND * largest and len(plateaus) > 1
    if dear or beyond or (len(plateaus) > count and swept > largest):
        memory = plateaus.pop()
    assigned = _assign(plateaus, sizes)
    result = Hierarchy(memory=memory.level if memory else None)
    result.memory_source = (
        "measured" if memory else f"memory was not reached with {units.size(swept)}"
    )
    for index, claim in enumerate(sizes):
        above = next((p for p in assigned[index + 1 :] if p), memory)
        last = index == len(sizes) - 1
        level = _level(found, assigned[index], above, claim, last=last)
        own, hidden = assigned[index], not last and not any(assigned[index + 1 :])
        if hidden and own and claim and level.size and own.last * LINE <= claim < level.size:
            # The rise is to memory, over a level without a plateau: the claim is nearer the truth.
            level = Level(claim, own.level, latency_source="measured", latency_concluded=True)
            level.size_source = "as the system claims; the next level has no plateau"
        result.levels.append(level)
    _fill(found, result)
    if memory is not None:
        _without_room(found, result, memory, sizes)
    if shared is not None:
        _with_others(result.levels[-1], shared)
    _rise(result)
    return result


def _assign(plateaus: list[Plateau], sizes: list[int | None]) -> list[Plateau | None]:
    """The plateau of each level: by the middle of each; the longest where several fall together."""
    assigned: list[Plateau | None] = [None] * len(sizes)
    if None in sizes:
        for index, plateau in enumerate(plateaus[: len(sizes)]):
            assigned[index] = plateau
        return assigned
    least = 0
    for plateau in plateaus:
        middle = math.sqrt(plateau.first * plateau.last) * LINE
        index = next((i for i, s in enumerate(sizes) if s and middle <= s), len(sizes) - 1)
        index = max(index, least)
        held = assigned[index]
        if held is None or plateau.last / plateau.first > held.last / held.first:
            assigned[index] = plateau
        least = index
    return assigned


def _level(
    found: Stepped, own: Plateau | None, above: Plateau | None, claim: int | None, *, last: bool
) -> Level:
    """Size and latency of the level of one plateau, under the next one's."""
    level = Level()
    if own is None:
        return level
    level.latency, level.latency_source, level.latency_concluded = own.level, "measured", True
    step = next((s for s in found.steps if s.before == own.last), None)
    if step and above and step.nominal and step.no_conclusion is None and _reaches(step, above):
        size = step.nominal * LINE
        if claim and abs(size / claim - 1) < _SAME:
            size = claim
        level.size, level.size_source, level.size_concluded = size, "measured", True
        return level
    if above is None:
        return level
    half = _half(found, own, above)
    near = claim is not None and half is not None and abs(half / claim - 1) < _NEAR
    if claim and half and (near or _explains(found, own, above, claim)):
        level.size, level.size_source = claim, "as the system claims; the curve allows it"
        level.size_concluded = True
    elif half:
        level.size = half
        level.size_source = "no conclusion: half of the loads miss there"
        if step and step.fit and own.last < step.fit.capacity < above.first:
            _explained(level, _of_last_level(step.fit) if last else step.fit)
        if claim:
            level.size_source += (
                f", at the claimed {units.size(claim)} they take {_at(found, claim):.3g} ns"
            )
    return level


def _explained(level: Level, shape: Shape) -> None:
    """A level without an edge has the size and the replacement that explain the curve best.

    What others bring into a level that they share evicts lines in no order of the program's: a
    chain of the level's size then misses now and then, and one of twice the size not always.
    """
    level.size = shape.capacity * LINE
    level.at_random, level.ways = shape.evicts_at_random, shape.ways
    how = "at random" if level.at_random else "the oldest first"
    explains = f"{units.size(level.size)} explain the curve, evicting {how}"
    level.size_source = f"no conclusion: {explains}"


def _of_last_level(fit: Fit) -> Shape:
    """The shape that evicts at random, where the curve leaves it open.

    No last level of the last ten years keeps the youngest lines whatever comes (Jaleel et al., ISCA
    2010), and what its other users bring in comes at any time.
    """
    rival = fit.rival
    if rival and rival.evicts_at_random and rival.misfit <= _AS_WELL * fit.misfit:
        return rival
    return fit


def _reaches(step: Step, above: Plateau) -> bool:
    """True if a step ends where the next level's plateau begins."""
    return step.after == above.first


def _at(found: Stepped, size: int) -> float:
    """Latency at the last point that is not beyond a size."""
    points = [ns for x, ns in found.curve.points if x * LINE <= size]
    return points[-1] if points else math.nan


def _half(found: Stepped, own: Plateau, above: Plateau) -> int | None:
    """Bytes at which half of the loads miss a level: between both plateaus, in the middle."""
    middle = (own.level + above.level) / 2
    inside = [(x, ns) for x, ns in found.curve.points if own.last <= x <= above.first]
    for (x, ns), (_, following) in zip(inside, [*inside[1:], inside[-1]], strict=True):
        # Two in a row: one point may be disturbed.
        if ns > middle and following > middle:
            return x * LINE
    return above.first * LINE


def _explains(found: Stepped, own: Plateau, above: Plateau, size: int) -> bool:
    """True if a level of a size may make the curve: most loads hit there, and few at twice it."""
    middle = (own.level + above.level) / 2
    return _at(found, size) <= middle < _at(found, 2 * size)


def _fill(found: Stepped, result: Hierarchy) -> None:
    """Latency of a level without a plateau: what the curve has well inside of it."""
    below = 0
    for level in result.levels:
        if level.latency is None and level.size:
            inside = [ns for x, ns in found.curve.points if 2 * below < x * LINE <= level.size / 2]
            if inside:
                level.latency = median(inside)
                level.latency_source = "no plateau: the median well inside of it"
        below = level.size or below


def _without_room(
    found: Stepped, result: Hierarchy, memory: Plateau, sizes: list[int | None]
) -> None:
    """A level without a plateau, at whose claimed size the curve is memory's already.

    Others take its room. It gets what the curve leaves it, between the level before and memory.
    """
    below = 0
    for level, claim in zip(result.levels, sizes, strict=True):
        start = memory.first * LINE
        if level.latency is None and claim is not None and below < start <= claim:
            between = [
                ns
                for x, ns in found.curve.points
                if below < x * LINE <= start and ns < memory.level
            ]
            level.size = start
            level.latency = median(between) if between else None
            level.size_source = (
                f"no conclusion: memory's latency from there on, {claim >> 10} KiB claimed"
            )
            level.latency_source = "no plateau: the median of what lies between"
        below = level.size or below


def _with_others(level: Level, shared: SharedLevel) -> None:
    """A last level as loads at random find it, and not laps of a chain.

    A chain that comes back to its lines in the time that others leave them there finds room that
    loads at random do not; those tell how much there is and how fast others take it.
    """
    concluded = shared.no_conclusion is None
    # Dozens of points that one level explains say more of it than where one chain's laps miss.
    if not concluded and (not shared.explains or level.size_concluded):
        return
    room = range(shared.lines_low * LINE, shared.lines_high * LINE + 1)
    interval = f"{units.size(room[0])} to {units.size(room[-1])}"
    if level.size is None or not level.size_concluded or level.size not in room:
        was = f", a chain's laps {units.size(level.size)}" if level.size else ""
        level.size, level.size_concluded = shared.lines * LINE, concluded
        level.size_source = f"by loads at random ({interval}{was})"
        if not concluded:
            level.size_source = f"no conclusion: {level.size_source}"
        level.at_random, level.ways = False, None
    # The interval begins at nothing where nobody else uses it. What is not concluded explains the
    # curves together with the room only: more of both does so as well.
    if shared.others_low > 0.0 or not concluded:
        level.others = shared.others


def _rise(result: Hierarchy) -> None:
    """Drops what would make a level as fast as one before it, or memory as fast as a cache."""
    last, size = 0.0, 0
    for level in result.levels:
        if level.latency is not None and level.latency <= last:
            level.latency, level.latency_concluded = None, False
            level.latency_source = "no conclusion: no slower than the level before"
        last = level.latency or last
        if level.size is not None and level.size <= size:
            level.size, level.size_concluded = None, False
            level.size_source = "no conclusion: no larger than the level before"
        size = level.size or size
    if result.memory is not None and result.memory <= last:
        result.memory, result.memory_source = None, "no conclusion: no slower than the caches"
