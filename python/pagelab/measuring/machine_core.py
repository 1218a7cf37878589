"""The core of a machine preset: what it looks ahead, and what it has under way."""

from collections.abc import Iterator
from typing import Any

from pagelab.measuring import cores
from pagelab.measuring.entry import BASE, Entry, cycles
from pagelab.measuring.findings import LINE
from pagelab.measuring.levels import Hierarchy
from pagelab.measuring.result import Estimate, Measurement

# A state in more samples than this is what the core has.
_MOSTLY = 0.5

# Share of what registers or the reorder buffer hold above which it is the same bound.
_FEWER = 0.85

# A number of cycles that is no further from a whole one is that.
_NEAR_WHOLE = 0.25

# Rates at which memory is gone through, in words.
RATES = {
    "one_core": "read by one core",
    "all_cores": "read by all cores",
    "one_core_moves": "read and written back by one core",
    "all_cores_moves": "read and written back by all cores",
}


def execution(measurement: Measurement) -> Iterator[Entry]:
    """The keys of `core.execution` but its table of arithmetic."""
    yield _integer_registers(measurement.parts.get("window", {}))


def arithmetic(measurement: Measurement) -> Iterator[Entry]:
    """The keys of `core.execution.arithmetic`, whose times of instructions are published."""
    window = measurement.parts.get("window", {})
    more = measurement.parts.get("caches", {}).get("scaled_index_cycles")
    yield _whole("scaled_index", more, 0, "a load with a scaled index takes {} more")
    yield _whole("atomics", window.get("locked_cycles"), 2, "a locked instruction takes {}", 0.5)
    yield from _forwarding(window)


def entries(measurement: Measurement, ghz: float) -> Iterator[Entry]:
    """The keys of `core` but `l2_miss_buffers` and `execution`, of a clock of so many GHz."""
    yield Entry("ghz", f"{ghz:.3g}", "measured", "a chain of multiplications")
    published = cores.documented(measurement.environment)
    window = measurement.parts.get("window", {})
    yield _published("width", published)
    yield _reorder_buffer(window, _integer_registers(window), published)
    yield _ahead("store_buffer", window.get("stores"), published, beside=0)
    yield _store_ports(window.get("store_cycles"))
    yield _misprediction(measurement.parts.get("branches", {}), ghz)
    raw = measurement.parts.get("memory", {})
    of_levels = (raw.get("misses") or {}).values()
    misses = [level["under_way"] for level in of_levels if level["under_way"]]
    # The less disturbed of the chains beyond the second level and beyond the last.
    surest = min(misses, key=lambda m: Estimate.model_validate(m).relative_error(), default=None)
    for key, under_way in (
        ("miss_buffers", surest),
        ("walkers", (raw.get("walks") or {}).get("under_way")),
    ):
        known = getattr(published, key) if published else None
        # Time lost to others makes one chain slower than it is, and seems to overlap with more.
        noisy = measurement.noise.verdict == "very noisy"
        yield _under_way(key, under_way, known, published.name if published else "", noisy)


def _published(key: str, core: cores.Core | None) -> Entry:
    """Published figure of this core."""
    if core is None:
        return Entry(key, None, "open", f"this core is not known; {BASE}'s")
    return Entry(key, str(getattr(core, key)), "published", f"of {core.name}")


def _ahead(key: str, between: dict[str, Any] | None, core: cores.Core | None, beside: int) -> Entry:
    """A buffer by what fits into it between two loads, and `beside` for these.

    Where there was less of it for a part of the measurement it is what there was for most of that.
    Taken is what is published where it fits, or half of it; else the most that fitted.
    """
    steps = between and between["together_and_apart"]
    if not steps:
        return _published(key, core)
    share = steps["share_of_smaller"]
    step = steps["smaller" if share > _MOSTLY else "larger"]
    low, high = (length + beside for length in step)
    found = f"two loads wait together with up to {step[0]} between, not with {step[1]}"
    if steps["smaller"] != steps["larger"]:
        found += f"; as large as with {steps['smaller'][0]} in {share:.0%} of the samples"
        found += f", with {steps['larger'][0]} in the others"
    whole = getattr(core, key) if core else None
    for value, of in ((whole, "all of"), (whole and whole // 2, "half of")):
        if core and value and low <= value <= high:
            return Entry(key, str(value), "measured", f"{found}: {of} {core.name}'s {whole}")
    return Entry(key, str(low), "measured", found)


def _whole(
    key: str, cycles: float | None, least: int, what: str, near: float = _NEAR_WHOLE
) -> Entry:
    """Cycles that are a whole number on a core, and none where they are not measured.

    What was measured is no further than `near` from that; of many cycles the clock's error is
    more than a part of one.
    """
    if cycles is None:
        return Entry(key, None, "open", "not measured: as without the key")
    found = what.format(f"{cycles:.2f} cycles")
    whole = round(cycles)
    if whole < least or abs(cycles - whole) > near:
        return Entry(key, None, "open", f"not concluded: {found}")
    return Entry(key, str(whole), "measured", found)


def _forwarding(window: dict[str, Any]) -> Iterator[Entry]:
    """Rest of a chain of additions to memory without those, and all of one by vector registers."""
    added = window.get("added_to_memory_cycles")
    yield _whole(
        "forwarding",
        None if added is None else max(added - 1, 0),
        0,
        "a load of what was just stored takes {} in a chain of additions to memory",
        0.5,
    )
    vector = window.get("vector_through_memory_cycles")
    what = "a load of what was just stored takes {}, to and from a vector register"
    yield _whole("vector_forwarding", vector, 0, what, 0.5)


def _store_ports(cycles: float | None) -> Entry:
    """Stores in a cycle, of which a core writes a whole number."""
    key = "store_ports"
    if not cycles:
        return Entry(key, None, "open", "not measured: one")
    found = f"{1 / cycles:.2f} stores that hit the first level are written in a cycle"
    whole = round(1 / cycles)
    if whole < 1 or abs(1 / cycles - whole) > _NEAR_WHOLE:
        return Entry(key, None, "open", f"not concluded: {found}")
    return Entry(key, str(whole), "measured", found)


def _integer_registers(window: dict[str, Any]) -> Entry:
    """Registers of integer additions between two loads, and of the loads themselves.

    As many as there were at the best: where additions of both kinds are no more, it is the reorder
    buffer that was full.
    """
    key = "integer_registers"
    steps, others = (
        (window.get(kind) or {}).get("together_and_apart") for kind in ("integers", "additions")
    )
    if not steps or not others:
        return Entry(key, None, "open", "not measured: any number")
    (low, high), of_both = steps["larger"], others["larger"][0]
    what = f"two loads wait together with up to {low} integer additions between, not with {high}"
    if low >= _FEWER * of_both:
        return Entry(
            key, None, "open", f"not concluded: {what}, and {of_both} additions of any kind"
        )
    return Entry(key, str(low + 2), "measured", what)


def _reorder_buffer(window: dict[str, Any], registers: Entry, core: cores.Core | None) -> Entry:
    """The reorder buffer, by additions of which every other one takes an integer register.

    Where these run out first, it is as large as published: what was found is the registers'.
    """
    key = "reorder_buffer"
    found = _ahead(key, window.get("additions"), core, beside=2)
    if core is None or found.status != "measured" or registers.value is None:
        return found
    seen, whole = int(found.value or 0), core.reorder_buffer
    if 2 * _FEWER * int(registers.value) <= seen < whole:
        why = f"of {core.name}; {found.source}, when integer registers run out"
        return Entry(key, str(whole), "published", why)
    return found


def l2_miss_buffers(measurement: Measurement, found: Hierarchy, first: int | None) -> Entry:
    """Number of lines that one core reads at a time that come from memory, ahead or not.

    By Little's law from what it reads in order. Nothing else is the bound of that where more goes
    from memory and to it when all cores read or when cores write, too, and where it is more than
    the first level's `first` misses. A line takes a buffer from when the second level has missed
    it.
    """
    key, second = "l2_miss_buffers", found.levels[1].latency
    flushed = measurement.flushed()
    rates = bandwidth(measurement)
    one, more = rates.pop("one_core", None), max((of.median for of in rates.values()), default=None)
    if one is None or flushed is None or second is None or first is None:
        return Entry(key, None, "open", "not measured: any number")
    waits = flushed.median - second
    low, count, high = (rate * waits / LINE for rate in (one.low, one.median, one.high))
    what = f"one core reads {one.median:.3g} GB/s of lines that take {waits:.3g} ns"
    if more is None or one.high >= more:
        return Entry(key, None, "open", f"not concluded, {what} and may be memory's bound")
    if count <= first:
        return Entry(key, None, "open", f"not concluded, {what}: the first level's misses do that")
    if one.relative_error() >= 0.2:
        return Entry(key, None, "open", f"not concluded, {what} ({low:.1f} to {high:.1f})")
    return Entry(key, str(max(1, round(count))), "measured", f"{what} ({low:.1f} to {high:.1f})")


def _misprediction(raw: dict[str, Any], ghz: float) -> Entry:
    """Cycles from a mispredicted branch to what follows it."""
    key, cost = "misprediction", raw.get("misprediction_ns")
    if cost is None:
        return Entry(key, None, "open", f"not measured; {BASE}'s")
    found = Estimate.model_validate(cost)
    what = f"branches on random bits ({found.low * ghz:.1f} to {found.high * ghz:.1f} cycles)"
    if found.relative_error() < 0.2 and 1 <= found.median * ghz < 100:
        return Entry(key, str(cycles(found.median, ghz)), "measured", what)
    return Entry(key, None, "open", f"not concluded from {what}; {BASE}'s")


def _under_way(key: str, raw: Any, published: int | None, core: str, noisy: bool) -> Entry:
    """Misses or walks at a time: measured by chains side by side, else as published.

    What is measured is a lower bound where queues in front of memory fill first.
    """
    if raw is not None:
        found = Estimate.model_validate(raw)
        what = f"chains side by side ({found.low:.1f} to {found.high:.1f})"
        if published is not None and found.low * 0.9 <= published <= found.high * 1.1:
            return Entry(key, str(published), "published", f"of {core}; {what}")
        sure = published is None or not noisy
        if sure and found.relative_error() < 0.2 and found.median >= 1:
            also = f"; {core} has {published}" if published else ""
            return Entry(key, str(round(found.median)), "measured", what + also)
        if published is None:
            return Entry(key, None, "open", f"{what}; {BASE}'s")
        return Entry(key, str(published), "published", f"of {core}; not concluded from {what}")
    if published is None:
        return Entry(key, None, "open", f"not measured; {BASE}'s")
    return Entry(key, str(published), "published", f"of {core}; not measured")


def bandwidth(measurement: Measurement) -> dict[str, Estimate]:
    """GB/s that one core and all cores read, or read and write back, as far as measured."""
    raw = measurement.parts.get("memory", {}).get("bandwidth") or {}
    return {of: Estimate.model_validate(raw[of]) for of in RATES if raw.get(of)}
