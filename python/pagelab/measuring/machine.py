"""A machine preset for the simulator, from a measurement.

Nothing is fitted: each value is a measured one, what the system claims where the measurement
leaves that open, or what the manufacturer publishes, and the file says which. What is not concluded
says so.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from pagelab import units
from pagelab.errors import PagelabError, cannot
from pagelab.measuring import cores, machine_caches, machine_code, machine_core, machine_costs
from pagelab.measuring.entry import BASE, HUGE, Entry, Status, cycles, split
from pagelab.measuring.findings import capacity, effective_page, second_level_sets
from pagelab.measuring.levels import Hierarchy, Level, hierarchy
from pagelab.measuring.result import Conditions, Environment, Measurement, Step, Stepped

# Bytes of a leaf entry.
LEAF = 8
PAGE = 4096

# A step that fewer resamples show has no fit that means anything.
_SURE = 0.95

# As many places as a level has entries, at random in sets of four to 24, miss by 53 to 57 %.
_HALF = 0.6

# The last plateau is not of walks alone if it begins so many times beyond the second's end.
_FAR = 10

# Contiguous pages that an entry may cover, of those in a line of the page table: what the chain
# over groups of eight neighbours can show. Its capacity over the other chain's is near one of them.
_COALESCED = (1, 4, 8)
_NEAR = 1.25

# Cycles of a look-up in the base preset's walk caches.
_WALK_CACHE = 2
# Such look-ups of a nested walk: the guest's, and the host's for the leaf table and for the page.
_NESTED_LOOKUPS = 3
# The nested TLB's geometry, as docs/designs/nested.md has it.
_NESTED_TLB = "{{ entries = 16, ways = 16, cycles = {} }}"


@dataclass(frozen=True)
class Preset:
    """A machine in the simulator's terms.

    `design` is the one that this machine has itself: `radix`, or `nested-radix` in a guest.
    """

    name: str
    description: str
    heading: str
    design: str
    tables: dict[str, list[Entry]]

    @property
    def notes(self) -> list[str]:
        """Values that are not concluded, a line each."""
        return [
            f"{table}.{entry.key}: {entry.source}"
            for table, entries in self.tables.items()
            for entry in entries
            if entry.status == "open"
        ]

    def toml(self) -> str:
        """The file that `--machine` takes."""
        text = [
            *(f"# {line}" for line in self.heading.splitlines()),
            f'base = "{BASE}"',
            f'name = "{self.name}"',
            f'description = "{self.description}"',
        ]
        for table, entries in self.tables.items():
            if not entries:
                continue
            text += ["", f"[{table}]"]
            for entry in entries:
                line = f"{entry.status}: {entry.source}"
                if entry.value is None:
                    text.append(f"# {entry.key}: {line}")
                else:
                    text.append(f"{entry.key} = {entry.value}  # {line}")
        return "\n".join(text) + "\n"

    def as_json(self) -> dict[str, Any]:
        """The same for programs: each key with its value, its status and its source."""
        return {
            "name": self.name,
            "base": BASE,
            "design": self.design,
            "values": [
                asdict(entry) | {"key": f"{table}.{entry.key}"}
                for table, entries in self.tables.items()
                for entry in entries
            ],
            "not_concluded": self.notes,
        }


def preset(measurement: Measurement, name: str, found_beside: Conditions | None = None) -> Preset:
    """The preset, but as was found beside a program, where that is known.

    Raises PagelabError when caches or TLBs were not measured.
    """
    lines = measurement.stepped("caches", "lines")
    small = measurement.stepped("tlb", "small")
    ghz = measurement.parts.get("caches", {}).get("core_ghz")
    if lines is None or small is None or ghz is None:
        raise PagelabError("a machine needs the parts caches and tlb: run  pagelab measure")
    # Time of memory when its curve was measured.
    flushed = measurement.flushed()
    if found_beside:
        measurement = measurement.beside(found_beside)
    raw = measurement.parts["caches"]
    shared = measurement.shared_level()
    found = hierarchy(lines, raw["claimed"], shared, flushed.median if flushed else None)
    here = measurement.environment
    page = effective_page(measurement)
    guest = here.hypervisor is not None
    design = "nested-radix" if guest else "radix"
    core = list(machine_core.entries(measurement, ghz))
    first = next(of.value for of in core if of.key == "miss_buffers")
    tables = {
        "core": [
            *core,
            machine_core.l2_miss_buffers(measurement, found, int(first) if first else None),
        ],
        "core.execution": list(machine_core.execution(measurement)),
        "core.execution.arithmetic": list(machine_core.arithmetic(measurement)),
        "tlb": list(_tlb(measurement, small, ghz)),
        "caches": [*machine_caches.entries(measurement, found, ghz)],
        "fetch": list(machine_code.entries(measurement)),
        "dram": list(_dram(measurement, found, small)),
        "nested": list(_nested(measurement, found, small, ghz, page)) if guest else [],
        "radix.pwc": [] if guest else list(_walk(measurement, found, small, ghz)),
        "memory": list(_memory(here)),
        "cost": list(machine_costs.entries(measurement)),
    }
    heading = [
        f"{here.cpu}, Linux {here.kernel.split()[0]}, as measured; the machine was "
        f"{measurement.noise.verdict}.",
        f"Seed {measurement.seed}. Keys that are not here are those of {BASE}.",
        f"This machine's own design is {design}.",
    ]
    if (price := machine_costs.first_touch(measurement)) is not None:
        heading.append(price)
    if guest:
        heading.append(
            "A guest: "
            + (
                "whether its huge pages are whole in the host is not concluded."
                if page is None
                else f"the host maps its memory by {units.size(page)} pages, as far as TLBs show."
            )
        )
    return Preset(name, f"{here.cpu}, measured", "\n".join(heading), design, tables)


def write(
    measurement: Measurement, name: str, path: Path, found_beside: Conditions | None = None
) -> Preset:
    """Writes the preset; raises PagelabError when it cannot."""
    made = preset(measurement, name, found_beside)
    with cannot("write", path):
        path.write_text(made.toml(), encoding="utf-8")
    return made


def _tlb(measurement: Measurement, small: Stepped, ghz: float) -> Iterator[Entry]:
    claims = measurement.parts["tlb"]["claimed"]

    def claimed(level: int, pages: str) -> dict[str, Any] | None:
        of = (c for c in claims if c["level"] == level and pages in c["pages"].split("/"))
        return next(of, None)

    first = next(iter(small.steps), None)
    if first is None or first.nominal is None or first.fit is None:
        raise PagelabError("the first TLB level was not found: measure on a quieter machine")
    shape = first.fit.shape
    sets = shape["even"]["sets"] if isinstance(shape, dict) and "even" in shape else 1
    # A sharp step is one set; a ramp is as long as there are sets.
    ways = 0 if sets * 16 < first.nominal else round(first.nominal / sets)
    size, status, source = _entries(small, first, claimed(1, "4K"))
    covers = {level: _coalesced(measurement, level) for level in (1, 2)}
    yield Entry("l1_4k", *_covering(_array(size, ways), status, source, covers[1]))
    large = _first_of_huge(measurement)
    claim = claimed(1, "2M")
    if large is not None:
        yield Entry("l1_2m", _array(large, 0), "measured", "whole huge pages")
    elif claim:
        value = _array(claim["entries"], claim["ways"])
        yield Entry("l1_2m", value, "claimed", "by CPUID; no huge page is whole here to measure")
    second = second_level_sets(measurement)
    claim = claimed(2, "4K")
    if second is not None:
        value = _array(second["entries"], second["ways"])
        yield Entry("l2_4k", *_covering(value, "measured", "ways too", covers[2]))
    elif len(small.steps) > 1:
        ways = claim["ways"] if claim and claim["ways"] else 8
        size, status, source = _entries(small, small.steps[1], claim)
        core = cores.documented(measurement.environment)
        if status == "open" and core and _allows(small, small.steps[1], core.second_tlb[0]):
            (size, ways), status = core.second_tlb, "published"
            source = f"of {core.name}; {source}"
        yield Entry("l2_4k", *_covering(_array(size, ways), status, source, covers[2]))
    elif claim and claim["entries"] > size:
        value = _array(claim["entries"], claim["ways"] or 8)
        yield Entry("l2_4k", value, "claimed", "by CPUID; the chain showed no second step")
    else:
        raise PagelabError("the second TLB level was not overflowed: run without --quick")
    if len(small.plateaus) > 1:
        cost = small.plateaus[1].level - small.plateaus[0].level
        yield Entry("l2_cycles", str(cycles(cost, ghz)), "measured", "the second plateau's rise")
    else:
        yield Entry("l2_cycles", None, "open", f"no second plateau; {BASE}'s")


def _coalesced(measurement: Measurement, level: int) -> int | None:
    """Contiguous pages that an entry of a TLB level covers, where both chains conclude."""
    pages = capacity(measurement, "contiguous", level)
    entries = capacity(measurement, "small", level)
    if not pages or not entries:
        return None
    found = pages / entries
    near = [count for count in _COALESCED if count / _NEAR <= found <= count * _NEAR]
    return near[0] if near else None


def _covering(
    array: str, status: Status, source: str, pages: int | None
) -> tuple[str, Status, str]:
    """An array's entry with the pages that one of its entries covers."""
    if pages is None:
        return array, status, f"{source}; what contiguous pages do is not concluded"
    if pages == 1:
        return array, status, source
    text = array.replace(" }", f", coalesce = {pages} }}")
    return text, status, f"{source}; {pages} contiguous pages an entry, measured"


def _array(entries: int, ways: int) -> str:
    return f"{{ entries = {entries}, ways = {split(entries, ways)} }}"


def _first_of_huge(measurement: Measurement) -> int | None:
    """Entries of the first level for 2 MiB pages.

    Where a hypervisor breaks huge pages up, that chain has seen entries of their pieces.
    """
    huge = measurement.stepped("tlb", "huge")
    if huge is None or not huge.steps or effective_page(measurement) != HUGE:
        return None
    step = huge.steps[0]
    return step.nominal if step.no_conclusion is None else None


def _entries(small: Stepped, step: Step, claim: dict[str, Any] | None) -> tuple[int, Status, str]:
    """Entries of a TLB level: concluded, what CPUID claims if the step allows it, or a middle."""
    if step.no_conclusion is None and step.nominal is not None:
        return step.nominal, "measured", "a step"
    low, high = step.before, step.after
    what = f"between {low:,} and {high:,}"
    if step.fit is not None:
        low, high = min(step.fit.capacity_low, high), max(step.fit.capacity_high, low)
        what = f"{low:,} to {high:,} of the best fit"
    if claim and _allows(small, step, claim["entries"]):
        return claim["entries"], "claimed", f"by CPUID; no conclusion ({what}) contradicts it"
    also = f"; CPUID's {claim['entries']:,} contradicts the curve" if claim else ""
    if step.fit is not None and step.confidence >= _SURE:
        return _round(step.fit.capacity), "open", f"no conclusion: {what}{also}"
    size = _round(_halfway(small, step))
    what = f"between {step.before:,} and {step.after:,}"
    return size, "open", f"no conclusion: {what}{also}"


def _halfway(small: Stepped, step: Step) -> int:
    """Point at which the curve is halfway between both levels of a step, on a logarithmic scale."""
    middle = math.sqrt(step.low * step.high)
    above = [x for x, ns in small.curve.points if x > step.before and ns > middle]
    return above[0] if above else step.after


def _allows(small: Stepped, step: Step, entries: int) -> bool:
    """True if a level of so many entries may make a step.

    Not where nothing misses yet or nearly everything does: of as many places as a level has
    entries, scattered over its sets, half miss.
    """
    return step.before <= entries <= step.after and _missing(small, step, entries) <= _HALF


def _missing(small: Stepped, step: Step, places: int) -> float:
    """The share of loads that miss at so many places or a few less, by where the curve is."""
    ns = [ns for x, ns in small.curve.points if x <= places][-1]
    return (ns - step.low) / (step.high - step.low)


def _round(entries: int) -> int:
    """The nearest number of entries with whole sets: four significant bits."""
    unit = 1 << max(0, entries.bit_length() - 4)
    return max(1, round(entries / unit)) * unit


@dataclass(frozen=True)
class Walk:
    """A walk in the TLB's curve: what a load takes longer for it, ns, and of how many pages."""

    ns: float
    pages: float


def walk_of(small: Stepped) -> Walk | None:
    """Time of a walk whose reads hit the caches nearby.

    That is the last plateau less the second. Where that one begins far beyond the second level,
    walks have become slower for another reason (their tables no longer fit a cache, which the
    simulator models): then the median just beyond the level is taken.
    """
    if len(small.plateaus) < 3:
        return None
    top, second = small.plateaus[-1], small.plateaus[1]
    reach = second.last
    if top.first <= _FAR * reach:
        return Walk(top.level - second.level, math.sqrt(top.first * top.last))
    beyond = [(x, ns) for x, ns in small.curve.points if 2 * reach <= x <= 4 * reach]
    if not beyond:
        return None
    level = median(ns for _, ns in beyond)
    return Walk(max(level - second.level, 0.0), math.sqrt(beyond[0][0] * beyond[-1][0]))


def _table_level(found: Hierarchy, walk: Walk) -> Level | None:
    """The cache level that holds the leaf tables of a walk's chain, whose links fill as much."""
    filled = 2 * walk.pages * LEAF
    fits = (level for level in found.levels if level.size and filled <= level.size)
    level = next(fits, None)
    return level if level and level.latency else None


def _walk(
    measurement: Measurement, found: Hierarchy, small: Stepped, ghz: float
) -> Iterator[Entry]:
    """Time of a native walk beside the read of its leaf entry: time of the walk caches."""
    walk = walk_of(small)
    level = _table_level(found, walk) if walk is not None else None
    if walk is None or level is None or level.latency is None:
        yield Entry("pmd.cycles", None, "open", f"no plateau of walks; {BASE}'s")
        return
    what = f"a walk ({walk.ns:.3g} ns) less the read of its leaf entry"
    yield Entry("pmd.cycles", str(cycles(walk.ns - level.latency, ghz)), "measured", what)


def _nested(
    measurement: Measurement, found: Hierarchy, small: Stepped, ghz: float, page: int | None
) -> Iterator[Entry]:
    """The host: the size of its pages, and what a two-dimensional walk takes beside its reads.

    With the walk caches warm a walk reads the host's entry for the guest's leaf table, the guest's
    leaf entry, and the host's entry for the page. Those of the host are few in that chain, since
    its pages share few frames, and hit the first level.
    """
    if page is None:
        yield Entry("host_thp", None, "open", "no step of pieces of huge pages; 4 KiB host pages")
    else:
        value = "true" if page == HUGE else "false"
        what = f"a TLB entry covers {units.size(page)} of a huge page"
        yield Entry("host_thp", value, "measured", what)
    walk = walk_of(small)
    level = _table_level(found, walk) if walk is not None else None
    first = found.levels[0].latency
    if walk is None or level is None or level.latency is None or first is None:
        yield Entry("tlb", None, "open", "no plateau of walks; as the walk caches")
        return
    reads = level.latency + 2 * first
    rest = cycles(max(walk.ns - reads, 0), ghz) - _NESTED_LOOKUPS * _WALK_CACHE
    what = f"a nested walk ({walk.ns:.3g} ns) less its three reads ({reads:.3g} ns) and walk caches"
    if rest < 0:
        what += f", {-rest} cycles too many"
    value = _NESTED_TLB.format(max(rest, 0))
    yield Entry("tlb", value, "measured" if rest >= 0 else "open", what)


def _dram(measurement: Measurement, found: Hierarchy, small: Stepped) -> Iterator[Entry]:
    """Latency of memory beyond the last level, and its bandwidth."""
    last = found.levels[-1].latency
    lines = measurement.flushed()
    if last is not None and lines is not None:
        # Without walks, and whatever of a last level others leave.
        what = f"flushed lines ({lines.low:.4g} to {lines.high:.4g}) less the last level"
        yield Entry("latency_ns", f"{max(1.0, lines.median - last):.1f}", "measured", what)
        yield from _spread(measurement.parts["caches"], lines.median, last)
    elif found.memory is None or last is None:
        why = found.memory_source if found.memory is None else "the last level's latency is open"
        yield Entry("latency_ns", None, "open", f"{why}; {BASE}'s")
    else:
        beyond, what = found.memory, "beyond the caches less the last level"
        walk = walk_of(small)
        page = effective_page(measurement)
        if page is not None and page < HUGE and walk is not None:
            # Eight loads of that chain share a walk (crates/probe/src/places.rs).
            beyond -= walk.ns / 8
            what += ", less an eighth of a walk"
        latency = max(1.0, beyond - last)
        yield Entry("latency_ns", f"{latency:.1f}", "measured", what)
    rates = machine_core.bandwidth(measurement)
    if rates:
        # All cores together read no less than one alone, but for others who take their time.
        of = max(rates, key=lambda of: rates[of].median)
        rate = rates[of]
        what = f"{machine_core.RATES[of]} ({rate.low:.3g} to {rate.high:.3g})"
        if of.startswith("one_core") and of.replace("one_core", "all_cores") in rates:
            what += "; no conclusion for all cores, which were busy"
        yield Entry("gigabytes_per_second", f"{rate.median:.3g}", "measured", what)
    else:
        yield Entry("gigabytes_per_second", None, "open", f"not measured; {BASE}'s")


def _spread(raw: Mapping[str, Any], mean: float, last: float) -> Iterator[Entry]:
    """Sixteenths of memory's latencies beyond the last level.

    Each load was timed with a counter, which takes time as well, and the same for each: what they
    take more or less than all of them in the mean is from there, and the mean from the chain.
    """
    each: list[float] | None = raw.get("flushed_sixteenths_ns")
    if each is None:
        return
    rest = mean - last - fmean(each)
    beyond = [max(1.0, ns + rest) for ns in each]
    what = f"flushed lines one by one: a sixteenth takes {each[-1] / each[0]:.2g} times the least"
    yield Entry("spread", f"[{', '.join(f'{ns:.3g}' for ns in beyond)}]", "measured", what)


def _memory(here: Environment) -> Iterator[Entry]:
    size = total(here)
    yield Entry("memory_bytes", str(size), "measured", "rounded up to 1 GiB")
    free = free_blocks(here)
    if free:
        file = "pagetypeinfo" if here.free_blocks_movable else "buddyinfo"
        what = f"as /proc/{file} had them; what is available besides in the largest"
        yield Entry("free_blocks", str(free), "measured", what)


def total(here: Environment) -> int:
    """Bytes of the simulated memory: the kernel keeps some for itself, so they are rounded up."""
    return max(1, -(-here.memory >> 30)) << 30


def free_blocks(here: Environment) -> list[int]:
    """`memory.free_blocks`: the free memory by order, none where the kernel does not tell.

    Page cache and the like can be had, too: as blocks of the largest order, as far as there is room
    beside what is free in smaller ones.
    """
    free = list(here.free_blocks)
    if not free:
        return []
    bytes_of = [count * (PAGE << order) for order, count in enumerate(free)]
    largest = PAGE << (len(free) - 1)
    small = sum(bytes_of[:-1])
    # A free block has a neighbour that is not, so that the smaller ones take twice their size.
    room = total(here) - sum(bytes_of) - small
    more = (here.available or 0) - sum(bytes_of)
    free[-1] += max(0, min(more, room)) // largest
    return free
