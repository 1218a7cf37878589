"""A machine preset for the simulator, from a measurement.

Nothing is fitted: each value is a measured one, or what the CPU claims where nothing is concluded,
and the file says which. What neither gives stays as the base preset has it.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pagelab.errors import PagelabError
from pagelab.measure.findings import LINE, effective_page, second_level_sets
from pagelab.measure.result import Measurement, Step, Stepped

BASE = "skylake-sp"

# Bytes of a leaf entry.
LEAF = 8


@dataclass(frozen=True)
class _Entry:
    """A key of the preset, and where its value comes from."""

    key: str
    value: str
    source: str


def preset(measurement: Measurement, name: str) -> str:
    """The TOML of the preset; raises PagelabError when caches or TLBs were not measured."""
    lines = measurement.stepped("caches", "lines")
    small = measurement.stepped("tlb", "small")
    ghz = measurement.parts.get("caches", {}).get("core_ghz")
    if lines is None or small is None or ghz is None:
        raise PagelabError("a machine needs the parts caches and tlb: run  pagelab measure")
    tables = {
        "core": [_Entry("ghz", f"{ghz:.3g}", "measured")],
        "tlb": _tlb(measurement, small, ghz),
        "caches": _caches(measurement, lines, ghz),
        "radix.pwc": _walk(measurement, lines, small, ghz),
        "dram": [_dram(measurement, lines)],
        "memory": [_Entry("memory_bytes", _memory(measurement), "rounded down to 1 GiB")],
        "cost": _cost(measurement),
    }
    here = measurement.environment
    text = [
        f"# {here.cpu}, Linux {here.kernel.split()[0]}, as measured; the machine was "
        f"{measurement.noise.verdict}.",
        f"# Seed {measurement.seed}. Keys that are not here are those of {BASE}.",
        f'base = "{BASE}"',
        f'name = "{name}"',
        f'description = "{here.cpu}, measured"',
    ]
    for table, entries in tables.items():
        if not entries:
            continue
        text += ["", f"[{table}]"]
        text += [f"{e.key} = {e.value}  # {e.source}" for e in entries]
    return "\n".join(text) + "\n"


def write(measurement: Measurement, name: str, path: Path) -> None:
    """Writes the preset; raises PagelabError when it cannot."""
    text = preset(measurement, name)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PagelabError(f"cannot write {path}: {error.strerror}") from error


def _cycles(nanoseconds: float, ghz: float) -> int:
    return max(1, round(nanoseconds * ghz))


def _concluded(step: Step) -> int | None:
    return step.nominal if step.no_conclusion is None else None


def _split(entries: int, ways: int) -> int:
    """The largest number of ways up to `ways` that makes whole sets; all of them for 0."""
    if ways == 0:
        return entries
    return next(w for w in range(min(ways, entries), 0, -1) if entries % w == 0)


def _caches(measurement: Measurement, found: Stepped, ghz: float) -> list[_Entry]:
    raw = measurement.parts["caches"]
    measured_ways = (raw["associativity"] or {}).get("levels", [])
    entries = []
    for index, key in enumerate(("l1", "l2", "llc")):
        claim = raw["claimed"][index] if index < len(raw["claimed"]) else None
        step = found.steps[index] if index < len(found.steps) else None
        size = _concluded(step) if step else None
        if size is not None:
            kib, source = size * LINE // 1024, "size measured"
            # The probe's own lines take a few of those of a small cache.
            if claim and abs(size * LINE / claim["size"] - 1) < 0.1:
                kib, source = claim["size"] // 1024, "size measured, and as sysfs claims"
        elif claim:
            kib, source = claim["size"] // 1024, "size as sysfs claims"
        else:
            continue
        crossing = measured_ways[index]["ways"] if index < len(measured_ways) else None
        # The sets of a larger level are known where huge pages are whole.
        known = index == 0 or effective_page(measurement) == 2 << 20
        if known and crossing and crossing["confidence"] >= 0.95:
            ways, how = crossing["last_below"], "measured"
        else:
            ways, how = (claim["ways"], "as sysfs claims") if claim else (16, "assumed")
        ways = _split(kib * 1024 // LINE, ways)
        latency, when = _level_latency(found, index, kib * 1024 // LINE)
        cycles = _cycles(latency, ghz)
        value = f"{{ kib = {kib}, ways = {ways}, cycles = {cycles} }}"
        entries.append(_Entry(key, value, f"{source}; ways {how}; latency {when}"))
    return entries


def _level_latency(found: Stepped, index: int, lines: int) -> tuple[float, str]:
    """Latency of a level: its plateau, or a working set of half its size where it has none."""
    if index < len(found.plateaus):
        return found.plateaus[index].level, "measured"
    inside = [
        ns
        for x, ns in zip(found.curve.x, found.curve.ns, strict=True)
        if ns is not None and x <= lines / 2
    ]
    return inside[-1], "no plateau; that of half its size"


def _tlb(measurement: Measurement, small: Stepped, ghz: float) -> list[_Entry]:
    claims = measurement.parts["tlb"]["claimed"]
    first = next(iter(small.steps), None)
    if first is None or first.nominal is None or first.fit is None:
        raise PagelabError("the first TLB level was not found: measure on a quieter machine")
    shape = first.fit.shape
    sets = shape["even"]["sets"] if isinstance(shape, dict) and "even" in shape else 1
    # A sharp step is one set; a ramp is as long as there are sets.
    ways = 0 if sets * 16 < first.nominal else round(first.nominal / sets)
    l1 = f"{{ entries = {first.nominal}, ways = {_split(first.nominal, ways)} }}"
    entries = [_Entry("l1_4k", l1, "measured")]
    huge = measurement.stepped("tlb", "huge")
    large = _concluded(huge.steps[0]) if huge and huge.steps else None
    # Where a hypervisor breaks huge pages up, that chain has seen entries of their pieces.
    if large is not None and effective_page(measurement) == 2 << 20:
        value = f"{{ entries = {large}, ways = {_split(large, 0)} }}"
        entries.append(_Entry("l1_2m", value, "measured"))
    second = second_level_sets(measurement)
    if second is not None:
        size, ways, source = second["entries"], second["ways"], "measured, ways too"
    else:
        size, source = _second_level(small)
        claim = next((c for c in claims if c["level"] == 2 and "4K" in c["pages"]), None)
        ways = _split(size, claim["ways"] if claim and claim["ways"] else 8)
    value = f"{{ entries = {size}, ways = {ways} }}"
    entries.append(_Entry("l2_4k", value, source))
    cost = small.plateaus[1].level - small.plateaus[0].level if len(small.plateaus) > 1 else 0.0
    entries.append(_Entry("l2_cycles", str(_cycles(cost, ghz)), "measured"))
    return entries


def _walk(measurement: Measurement, lines: Stepped, small: Stepped, ghz: float) -> list[_Entry]:
    """What a walk takes beside the read of its leaf entry, as the time of the walk caches.

    The last plateau of the TLB's curve is that of a walk for every load. The tables of its pages
    (and the links, as many again) fill so many lines, of which the simulator will read one from
    the cache that holds them; what is left (in a guest, the second dimension of the walk) is fixed.
    """
    if len(small.plateaus) < 3:
        return []
    top, second = small.plateaus[-1], small.plateaus[1]
    pages = math.sqrt(top.first * top.last)
    filled = 2 * pages * LEAF / LINE
    sizes = [claim["size"] // LINE for claim in measurement.parts["caches"]["claimed"]]
    level = next((i for i, size in enumerate(sizes) if filled <= size), len(sizes) - 1)
    if level < 0 or level >= len(lines.plateaus):
        return []
    rest = top.level - second.level - lines.plateaus[level].level
    what = f"a measured walk ({top.level - second.level:.3g} ns) less a read of level {level + 1}"
    return [_Entry("pmd.cycles", str(_cycles(rest, ghz)), what)]


def _second_level(small: Stepped) -> tuple[int, str]:
    """Entries of the second level: concluded, or where half of the loads miss."""
    if len(small.steps) > 1 and (size := _concluded(small.steps[1])) is not None:
        return size, "measured"
    latencies = [ns for ns in small.curve.ns if ns is not None]
    if len(small.plateaus) < 2 or latencies[-1] < 2 * small.plateaus[1].level:
        raise PagelabError("the second TLB level was not overflowed: run without --quick")
    half = (small.plateaus[1].level + latencies[-1]) / 2
    for x, ns in zip(small.curve.x, small.curve.ns, strict=True):
        if ns is not None and ns > half:
            # A power of two below it, so that sets are whole.
            size = 1 << round(math.log2(x))
            return size, f"no conclusion; half of the loads miss at {x} pages"
    raise PagelabError("the second TLB level was not overflowed: run without --quick")


def _dram(measurement: Measurement, lines: Stepped) -> _Entry:
    """What memory adds to the last level: beyond every cache, less the latency of the last."""
    beyond = [v for v in lines.curve.ns if v is not None][-1]
    claims = measurement.parts["caches"]["claimed"]
    last = claims[-1]["size"] // LINE if claims else lines.curve.x[-1] // 4
    latency = max(1.0, beyond - _level_latency(lines, 2, last)[0])
    return _Entry("latency_ns", f"{latency:.1f}", "measured")


def _memory(measurement: Measurement) -> str:
    return str(max(1, measurement.environment.memory >> 30) << 30)


def _cost(measurement: Measurement) -> list[_Entry]:
    """What the operating system's work costs, from the parts faults and folios if they were run."""
    entries = []
    life: dict[str, Any] = measurement.parts.get("faults", {}).get("per_page_ns", {})
    if life:
        fault = life["present_file"]["first_touch"]["median"]
        entries.append(_Entry("fault_ns", f"{fault:.1f}", "a fault that only maps"))
        zero = life["zeroing_in_user_mode"]["median"]
        entries.append(_Entry("zero_4k_ns", f"{zero:.1f}", "zeroing in user mode"))
    sizes = measurement.parts.get("folios", {}).get("sizes", [])
    if sizes and sizes[0]["bytes"] == 4096:
        figures = sizes[0]["per_page_ns"]
        shared = figures["write_after_fork_child_alive"]["median"]
        alone = figures["write_after_fork_child_gone"]["median"]
        copy = max(1.0, shared - alone)
        entries.append(
            _Entry("copy_4k_ns", f"{copy:.1f}", "write fault with the child alive, less without")
        )
        entry = figures["fork"]["median"]
        entries.append(_Entry("entry_ns", f"{max(0.1, entry):.1f}", "fork, a page"))
    return entries
