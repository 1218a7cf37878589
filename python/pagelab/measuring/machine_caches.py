"""The caches of a machine preset: sizes, ways, latencies, others that use them, prefetchers."""

import itertools
import math
from bisect import bisect_left
from collections.abc import Iterator
from random import Random
from statistics import fmean, median
from typing import Any

from pagelab.measuring import cores
from pagelab.measuring.entry import BASE, HUGE, Entry, Status, cycles, split
from pagelab.measuring.findings import LINE, PAGE, effective_page
from pagelab.measuring.levels import Hierarchy
from pagelab.measuring.result import Estimate, Measurement

# The base preset's time between two cores' caches, ns.
BASE_TRANSFER = 50.3

# Lines in order that take less than this of what lines at random take were fetched ahead.
_AHEAD = 0.5
# Pages whose lines are followed where that is not published: those of Intel's streamer.
_FOLLOWED = 32
# Instructions that are followed; nobody publishes how many.
_FOLLOWED_INSTRUCTIONS = 64
# Lines of a page, and the most that a simulated stream fetches at an access.
_LINES = PAGE // LINE
_MOST_AT_ONCE = 8
# A stream of lines that are at least so far apart would fetch many that nobody wants.
_LONG_STRIDE = 512
# Loads of a chain that tell how long it takes.
_CHAIN = 4000
_NO_STRIDES = f"{{ instructions = {_FOLLOWED_INSTRUCTIONS}, ahead = 0 }}"


def entries(measurement: Measurement, found: Hierarchy, ghz: float) -> Iterator[Entry]:
    """The keys of `caches`."""
    raw = measurement.parts["caches"]
    claims = raw["claimed"]
    ways_found = (raw["associativity"] or {}).get("levels", [])
    last = 0
    status: Status
    for index, (key, level) in enumerate(zip(("l1", "l2", "llc"), found.levels, strict=True)):
        claim = claims[index] if index < len(claims) else None
        if level.size is None or level.latency is None:
            why = level.latency_source or level.size_source or "no plateau"
            bound = _bounded(found, index, claim, ghz, last)
            if bound is None:
                yield Entry(key, None, "open", f"{why}; {BASE}'s")
                continue
            size, latency = bound
            status, source = "open", f"{why}; size as claimed, latency between its neighbours'"
        else:
            size, latency = level.size, cycles(level.latency, ghz)
            concluded = level.size_concluded and level.latency_concluded
            status = "measured" if concluded else "open"
            source = f"size {level.size_source}; latency {level.latency_source}"
        latency = last = max(latency, last + 1)
        crossing = ways_found[index]["ways"] if index < len(ways_found) else None
        # Sets are known where huge pages are whole. Elsewhere those of the first level are, but its
        # lines, a huge page apart, may be more than the TLB's ways are before they are the cache's.
        whole = effective_page(measurement) == HUGE
        fewer = claim is not None and crossing and crossing["last_below"] < claim["ways"]
        known = whole or (index == 0 and not fewer)
        if known and crossing and crossing["confidence"] >= 0.95:
            ways, how = crossing["last_below"], "measured"
        elif level.ways:
            ways, how = level.ways, "as the curve has them"
        else:
            ways, how = (claim["ways"], "as claimed") if claim else (16, "assumed")
        kib = max(1, size // 1024)
        if level.ways:
            kib = max(1, round(kib / ways)) * ways  # Whole sets.
        ways = split(kib * 1024 // LINE, ways)
        order = ', replacement = "random"' if level.at_random else ""
        value = f"{{ kib = {kib}, ways = {ways}, cycles = {latency}{order} }}"
        yield Entry(key, value, status, f"{source}; ways {how}")
    yield _others(measurement, found.levels[-1].others)
    # Not sooner than the last level, which is asked first.
    transfer = max(cycles(BASE_TRANSFER, ghz), last + 1)
    value = f"{{ transfer_cycles = {transfer}, invalidate_cycles = {transfer}, turn = 64 }}"
    yield Entry("coherence", value, "open", f"not measured; {BASE}'s {BASE_TRANSFER} ns")
    yield _filled_pages(measurement, *(level.latency for level in found.levels[:3]))
    yield _prefetch(measurement, found.levels[1].latency)


def _filled_pages(
    measurement: Measurement, first: float | None, second: float | None, last: float | None
) -> Entry:
    """Level with the lines of a page that the kernel has filled: the one that takes as long.

    `first`, `second` and `last` are the levels' latencies, ns. What takes more than twice the last
    level's comes from memory; what is in the first level has no key, and counts as the second's.
    """
    key, raw = "filled_pages", measurement.parts.get("faults", {}).get("filled_page")
    if raw is None or raw["longer_than_l1_ns"] is None:
        return Entry(key, None, "open", f"not measured; {BASE}'s")
    if first is None or second is None or last is None:
        return Entry(key, None, "open", f"a level has no latency; {BASE}'s")
    longer = Estimate.model_validate(raw["longer_than_l1_ns"])
    low, high = first + longer.low, first + longer.high
    what = f"a line of a page touched just before takes {low:.3g} to {high:.3g} ns"

    def level(nanoseconds: float) -> str:
        if nanoseconds < math.sqrt(second * last):
            return "l2"
        return "llc" if nanoseconds < 2 * last else "memory"

    if level(low) != level(high):
        return Entry(key, None, "open", f"not concluded: {what}; {BASE}'s")
    return Entry(key, f'"{level(low)}"', "measured", what)


def _others(measurement: Measurement, others: float) -> Entry:
    """Lines that others bring into the last level."""
    key, shared = "others", measurement.shared_level()
    if shared is None:
        return Entry(key, None, "open", "loads at random were not measured: nobody")
    interval = f"{shared.others_low:.2g} to {shared.others_high:.2g} GB/s"
    value = f"{{ gigabytes_per_second = {others:.3g} }}" if others else None
    if shared.no_conclusion:
        what = f"with that size, {interval}" if others else "nobody"
        return Entry(key, value, "open", f"no conclusion: {shared.no_conclusion}; {what}")
    if not others:
        return Entry(key, None, "measured", f"nobody else uses the last level ({interval})")
    return Entry(key, value, "measured", f"loads at random, side by side and alone ({interval})")


def _prefetch(measurement: Measurement, second: float | None) -> Entry:
    """Lines that the second level fetches ahead, if any are: the manufacturer's numbers.

    Where those are not published, as many lines as must be under way for lines to come in order as
    soon as they do; a page has no more to fetch. `second` is the latency of the second level, ns.
    """
    key = "prefetch"
    nothing = f"{{ adjacent = false, streams = 0, ahead = 0, strides = {_NO_STRIDES} }}"
    raw = measurement.parts.get("memory", {}).get("prefetching")
    if raw is None:
        return Entry(key, nothing, "open", "not measured")
    in_order, random = (raw[order]["ns"][0] for order in ("in_order", "random"))
    if not in_order or not random:
        return Entry(key, nothing, "open", "not measured")
    what = f"lines in order take {in_order:.3g} ns, at random {random:.3g}"
    if in_order > _AHEAD * random:
        return Entry(key, nothing, "measured", what)
    core = cores.documented(measurement.environment)
    if core is None or core.prefetch is None:
        latencies = _latencies(measurement, random)
        ahead = _ahead(latencies, in_order, second)
        strides, by_stride = _strides(raw, latencies, second)
        goes_on, pages = _pages(raw, random, second)
        streams = f"adjacent = false, streams = {_FOLLOWED}, ahead = {ahead}{goes_on}"
        # That prefetchers hold back is Intel's: here only while all requests miss.
        value = f"{{ {streams}, busy = 1.0, strides = {strides} }}"
        source = f"{what}: {ahead} ahead; {pages}{_FOLLOWED} pages at a time, as Intel's"
        return Entry(key, value, "open", f"{source}; {by_stride}")
    return Entry(key, core.prefetch, "published", f"of {core.name}; {what}")


def _pages(raw: dict[str, Any], random: float, second: float | None) -> tuple[str, str]:
    """Keys of a stream, how it begins and ends in a page, and where they are from.

    Of pages that come at random, those are fetched ahead whose loads are near enough to each other.
    Their lines in order wait for memory some times a page, as often as a stream does that fetches
    so many at once; if lines of pages in order wait for less than half of one of these times a
    page, a page's stream goes on in the next.
    """
    pages = raw.get("pages_in_random_order")
    if pages is None or second is None or not pages["ns"][0]:
        return "", ""
    ahead = itertools.takewhile(
        lambda point: point[1] and point[1] <= _AHEAD * random,
        zip(pages["x"], pages["ns"], strict=True),
    )
    within = max((stride // LINE for stride, _ in ahead), default=1)
    line = pages["ns"][0]
    waits = (line - second) * _LINES / random
    fitting = (lines for lines in range(1, _MOST_AT_ONCE) if _waits(lines) <= round(waits))
    at_once = next(fitting, _MOST_AT_ONCE)
    crosses = (line - raw["in_order"]["ns"][0]) * _LINES > random / 2
    keys = f", within = {within}, at_once = {at_once}, crosses_pages = {str(crosses).lower()}"
    what = f"with pages at random {line:.3g}, {waits:.1f} waits a page, so {at_once} at once"
    beyond = "also" if crosses else "not"
    return keys, f"{what}, to strides of {within * LINE} bytes, {beyond} in the next page; "


def _waits(at_once: int) -> int:
    """Number of times that a chain through the lines of a page waits for memory: line by line.

    From the third on each has so many more fetched when it is asked for. What has come takes no
    time.
    """
    now, furthest = 0, 2
    comes: dict[int, int] = {}
    for line in range(_LINES):
        asked, now = now, max(now, comes.get(line, now + 1))
        if line >= 2:
            comes |= dict.fromkeys(range(furthest + 1, furthest + 1 + at_once), asked + 1)
            furthest += at_once
    return now


def _latencies(measurement: Measurement, mean: float) -> list[float]:
    """Times of lines of memory, ns: as they differ, if that was measured, `mean` on average.

    As `dram.spread` has it (machine.py).
    """
    each: list[float] | None = measurement.parts["caches"].get("flushed_sixteenths_ns")
    if each is None:
        return [mean]
    return [max(1.0, ns + mean - fmean(each)) for ns in each]


def _ahead(latencies: list[float], in_order: float, second: float | None) -> int:
    """Distance ahead at which a chain through lines in order goes as fast.

    A load waits for its line, which was asked for when the load so far before it was, and takes
    `second` ns at least, unless lines in order take less, which are brought nearer then. Where
    latencies differ the slowest is waited for, so that more must be under way than by Little's law.
    """
    least = second if second and second < in_order else 0.0
    drawn = Random(1).choices(latencies, k=_CHAIN)

    def of_chain(ahead: int) -> float:
        asked, now = [0.0] * _CHAIN, 0.0
        for line, takes in enumerate(drawn):
            asked[line] = now
            comes = asked[line - ahead] + takes if line >= ahead else takes
            now = max(now + least, comes)
        return now / _CHAIN

    # One more is under way: the one that is waited for.
    alike = math.ceil(fmean(latencies) / in_order) - 1
    lines = range(min(max(alike, 1), _LINES - 1), _LINES - 1)
    return lines.start + bisect_left(lines, x=True, key=lambda ahead: of_chain(ahead) <= in_order)


def _strides(raw: dict[str, Any], latencies: list[float], second: float | None) -> tuple[str, str]:
    """Prefetching by instructions, and its source: the measured chains are one instruction's.

    By longer strides than a stream needs, as many loads as must be under way, as for lines.
    """
    ratios = {}
    for stride, in_order, random in zip(
        raw["in_order"]["x"], raw["in_order"]["ns"], raw["random"]["ns"], strict=True
    ):
        if stride >= _LONG_STRIDE and in_order and random and in_order <= _AHEAD * random:
            ratios[int(stride)] = random / in_order
    if not ratios:
        return _NO_STRIDES, "no long strides are fetched ahead"
    mean = fmean(latencies)
    ahead = _ahead(latencies, mean / median(ratios.values()), second)
    crosses = max(ratios) >= PAGE
    value = (
        f"{{ instructions = {_FOLLOWED_INSTRUCTIONS}, ahead = {ahead}, longest = {max(ratios)}, "
        f"crosses_pages = {str(crosses).lower()} }}"
    )
    return value, f"strides of {min(ratios)} to {max(ratios)} bytes {ahead} ahead"


def _bounded(
    found: Hierarchy, index: int, claim: dict[str, Any] | None, ghz: float, last: int
) -> tuple[int, int] | None:
    """Size and cycles of a level that the curve does not show: between its neighbours."""
    level = found.levels[index]
    size = level.size or (claim["size"] if claim else None)
    above = next((lv.latency for lv in found.levels[index + 1 :] if lv.latency), found.memory)
    if size is None or above is None:
        return None
    smaller = [lv.size for lv in found.levels[:index] if lv.size]
    if smaller and size <= smaller[-1]:
        size = 2 * smaller[-1]
    if level.latency is not None:
        return size, cycles(level.latency, ghz)
    return size, max(last + 1, round(math.sqrt(max(last, 1) * above * ghz)))
