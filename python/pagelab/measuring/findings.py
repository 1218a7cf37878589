"""Findings of a measurement, as rows: for the terminal, the report and the comparison."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pagelab import units
from pagelab.measuring.result import Estimate, Measurement, Step
from pagelab.units import nanoseconds

PAGE = 4096
LINE = 64


@dataclass(frozen=True)
class Finding:
    """One figure. `number` is what two results are compared by; `note` says how sure it is."""

    part: str
    what: str
    value: str
    number: float | None
    note: str = ""
    claimed: str = ""


def findings(measurement: Measurement) -> list[Finding]:
    """Everything worth a row, in the order of the parts."""
    rows: list[Finding] = []
    readers = (
        *(_caches, _branches, _window, _tlbs, _faults),
        *(_folios, _huge, _idle, _syscalls, _shared, _calls),
    )
    for read in readers:
        rows += read(measurement)
    return rows


def _time(part: str, what: str, raw: Any) -> Finding:
    estimate = Estimate.model_validate(raw)
    interval = f"{nanoseconds(estimate.low)} \N{EN DASH} {nanoseconds(estimate.high)}"
    return Finding(part, what, nanoseconds(estimate.median), estimate.median, interval)


def _capacity(part: str, what: str, step: Step, unit: int, claimed: str) -> Finding:
    if step.no_conclusion is not None or step.nominal is None or step.fit is None:
        why = step.no_conclusion or "not measured"
        return Finding(part, what, "no conclusion", None, why, claimed)

    def show(count: int) -> str:
        return units.size(count * unit) if unit > 1 else f"{count:,}"

    fit = step.fit
    low, high = show(fit.capacity_low), show(fit.capacity_high)
    interval = low if low == high else f"{low} \N{EN DASH} {high}"
    note = f"{interval} ({step.confidence:.0%})"
    return Finding(part, what, show(step.nominal), float(step.nominal), note, claimed)


def _shared_level(measurement: Measurement, claimed: str) -> Iterator[Finding]:
    """The last level as loads at random find it."""
    level = measurement.shared_level()
    if level is None:
        return
    room, others = "last level, by loads at random", "what others bring into it"
    if level.no_conclusion:
        yield Finding("caches", room, "no conclusion", None, level.no_conclusion, claimed)
        return
    size = level.lines * LINE
    interval = f"{units.size(level.lines_low * LINE)} – {units.size(level.lines_high * LINE)}"
    yield Finding("caches", room, units.size(size), float(size), interval, claimed)
    interval = f"{level.others_low:.2g} – {level.others_high:.2g}"
    yield Finding("caches", others, f"{level.others:.2g} GB/s", level.others, interval, "")


def _caches(measurement: Measurement) -> Iterator[Finding]:
    found = measurement.stepped("caches", "lines")
    if found is None:
        return
    raw = measurement.parts["caches"]
    claims = raw["claimed"]
    for level, plateau in enumerate(found.plateaus[: len(claims) or None], start=1):
        latency = nanoseconds(plateau.level)
        yield Finding("caches", f"L{level} latency", latency, plateau.level)
    beyond = found.curve.ns[-1]
    if beyond is not None:
        what = f"latency of {units.size(found.curve.x[-1] * LINE)}"
        yield Finding("caches", what, nanoseconds(beyond), beyond)
    ways = (raw["associativity"] or {}).get("levels", [])
    for level, step in enumerate(found.steps, start=1):
        claim = claims[level - 1] if level <= len(claims) else None
        claimed = units.size(claim["size"]) if claim else ""
        yield _capacity("caches", f"L{level} size", step, LINE, claimed)
        crossing = ways[level - 1]["ways"] if level <= len(ways) else None
        claimed = str(claim["ways"]) if claim else ""
        what = f"L{level} ways"
        broken = (effective_page(measurement) or PAGE) < 2 << 20
        if level > 1 and broken:
            why = "addresses are not known: huge pages are broken up"
            yield Finding("caches", what, "no conclusion", None, why, claimed)
        elif broken and claim and crossing and crossing["last_below"] < claim["ways"]:
            why = "huge pages are broken up: these are the ways of the TLB"
            yield Finding("caches", what, "no conclusion", None, why, claimed)
        elif crossing is None or crossing["confidence"] < 0.95:
            why = "lines a power of two apart do not fall into one set"
            yield Finding("caches", what, "no conclusion", None, why, claimed)
        else:
            number = crossing["last_below"]
            note = f"({crossing['confidence']:.0%})"
            yield Finding("caches", what, str(number), float(number), note, claimed)
    if (memory := measurement.flushed()) is not None:
        interval = f"{memory.low:.4g} – {memory.high:.4g} ns"
        what = "latency of flushed lines"
        yield Finding("caches", what, nanoseconds(memory.median), memory.median, interval)
    yield from _shared_level(measurement, units.size(claims[-1]["size"]) if claims else "")
    line = raw["line_bytes"]
    if line and line["line"]:
        claimed = f"{claims[0]['line']} B" if claims else ""
        yield Finding("caches", "line", f"{line['line']} B", float(line["line"]), "", claimed)


def _branches(measurement: Measurement) -> Iterator[Finding]:
    cost = measurement.parts.get("branches", {}).get("misprediction_ns")
    if cost is not None:
        yield _time("branches", "mispredicted branch", cost)


def _window(measurement: Measurement) -> Iterator[Finding]:
    raw = measurement.parts.get("window", {})
    for key, what in (
        ("additions", "instructions ahead"),
        ("integers", "integer registers ahead"),
        ("stores", "stores ahead"),
    ):
        if key not in raw:
            continue
        steps = raw[key]["together_and_apart"]
        if steps is None:
            yield Finding("window", what, "no conclusion", None, "loads wait now so, now so")
            continue
        (smaller, _), (larger, apart) = steps["smaller"], steps["larger"]
        note = f"between two loads that wait together, not {apart}"
        if smaller != larger:
            note += f"; {smaller} in {steps['share_of_smaller']:.0%} of the samples"
        yield Finding("window", what, str(larger), float(larger), note)


_PAGES = {
    "small": ("4 KiB", "4K"),
    "huge": ("2 MiB", "2M"),
    "giant": ("1 GiB", "1G"),
}


def _tlbs(measurement: Measurement) -> Iterator[Finding]:
    raw = measurement.parts.get("tlb")
    if raw is None:
        return
    kinds = (raw.get("kinds") or {}).get("kinds", [])
    reach = effective_page(measurement)
    for key, (label, group) in _PAGES.items():
        found = measurement.stepped("tlb", key)
        if found is None:
            continue
        for level, step in enumerate(found.steps[:2], start=1):
            sets = second_level_sets(measurement) if (key, level) == ("small", 2) else None
            walks = key == "small" and level <= len(kinds) and kinds[level - 1] == "walk"
            if walks and sets is None:
                continue
            claims = [
                c for c in raw["claimed"] if c["level"] == level and group in c["pages"].split("/")
            ]
            claimed = f"{claims[0]['entries']:,}" if claims else ""
            what = f"{label}: L{level} entries"
            if key != "small" and reach is not None and reach < 2 << 20:
                why = f"the hypervisor maps {units.size(reach)} pieces"
                yield Finding("tlb", what, "no conclusion", None, why, claimed)
                break
            if sets is None:
                yield _capacity("tlb", what, step, 1, claimed)
            else:
                number = sets["entries"]
                note = f"{sets['sets']} sets ({step.confidence:.0%})"
                yield Finding("tlb", what, f"{number:,}", float(number), note, claimed)
                ways = str(claims[0]["ways"] or "") if claims else ""
                number = sets["ways"]
                what = f"{label}: L{level} ways"
                yield Finding("tlb", what, str(number), float(number), "", ways)
            cost = step.high - step.low
            yield Finding("tlb", f"{label}: L{level} miss", f"+{nanoseconds(cost)}", cost)
    if reach is not None:
        yield Finding(
            "tlb", "2 MiB page, effective", units.size(reach), float(reach), "a TLB entry covers"
        )
    what = "contiguous pages an entry"
    factor = coalescing(measurement)
    if factor is None:
        why = "a first level was not found"
        yield Finding("tlb", what, "no conclusion", None, why)
    else:
        yield Finding("tlb", what, f"{factor:.1f} pages", factor, "coalescing, first level")


def second_level_sets(measurement: Measurement) -> dict[str, int] | None:
    """Sets, ways and entries of the second level, from pages that fall into one set."""
    raw = measurement.parts.get("tlb", {}).get("associativity") or {}
    found: dict[str, int] | None = raw.get("second_level_sets")
    return found


def capacity(measurement: Measurement, key: str, level: int) -> int | None:
    """Pages that a TLB level holds in one of the chains."""
    found = measurement.stepped("tlb", key)
    if (
        found is None
        or len(found.steps) < level
        or found.steps[level - 1].no_conclusion is not None
    ):
        return None
    return found.steps[level - 1].nominal


def coalescing(measurement: Measurement) -> float | None:
    """Number of physically contiguous pages that an entry of the first level holds."""
    contiguous = capacity(measurement, "contiguous", 1)
    apart = capacity(measurement, "small", 1)
    return contiguous / apart if contiguous and apart else None


def effective_page(measurement: Measurement) -> int | None:
    """Bytes that an entry of the first level covers inside a huge page.

    2 MiB, or less where a hypervisor breaks large pages up.
    """
    pieces = measurement.stepped("tlb", "pieces_of_huge_pages")
    apart = capacity(measurement, "small", 1)
    if pieces is None or not apart:
        return None
    step = pieces.steps[0] if pieces.steps else None
    if step is None:
        # No step as far as the sweep went: entries cover at least that much.
        return min(2 << 20, pieces.curve.x[-1] * PAGE // apart)
    if step.no_conclusion is not None or step.nominal is None:
        # Wherever in the step the capacity is: too near to that of small pages for larger ones.
        return PAGE if step.after < 1.5 * apart else None
    pages = step.nominal / apart
    return min(2 << 20, PAGE * max(1, 1 << round(pages).bit_length() - 1))


def walk(measurement: Measurement, pages: str, **keys: Any) -> Estimate | None:
    """Nanoseconds an access of one of the walks of the part huge, if it was made."""
    rows = (measurement.parts.get("huge", {}).get("walks") or {}).get("rows", [])
    wanted = {"pages": pages} | keys
    for row in rows:
        if all(row[key] == value for key, value in wanted.items()):
            return Estimate.model_validate(row["ns"])
    return None


def _faults(measurement: Measurement) -> Iterator[Finding]:
    raw = measurement.parts.get("faults")
    if raw is None:
        return
    life = raw["per_page_ns"]
    rows = [
        ("written", "first_touch", "first touch (write), a page"),
        ("read", "first_touch", "first touch (read), a page"),
        ("written_huge", "first_touch", "first touch in a 2 MiB page, a 4 KiB"),
        ("present_file", "first_touch", "first touch, page is there, a page"),
        ("written", "later_touch", "later touch, a page"),
        ("written", "unmap", "unmap written, a page"),
        ("read", "unmap", "unmap only read, a page"),
    ]
    for case, phase, what in rows:
        yield _time("faults", what, life[case][phase])
    yield _time("faults", "zeroing 4 KiB in user mode", life["zeroing_in_user_mode"])
    limit = raw["under_limit"]
    if limit:
        yield _time("faults", "first touch, memory to spare", limit["plenty_ns"])
        yield _time("faults", "first touch, reclaim first", limit["scarce_ns"])
    for kind, counted in raw["pages_per_fault"].items():
        ratio = counted["ratio"]
        yield Finding("faults", f"pages a fault: {kind}", f"{ratio:.1f}", ratio)


def folio_label(row: dict[str, Any]) -> str:
    """The size of a row of the folio part, and whether huge pages were mapped by PTEs."""
    return units.size(row["bytes"]) + (" by PTEs" if row["split"] else "")


FOLIO_FIGURES = {
    "populate": "populate",
    "fork": "fork",
    "write_after_fork_child_gone": "write, child gone",
    "write_after_fork_child_alive": "write, child alive",
    "munmap": "munmap",
    "dontneed": "MADV_DONTNEED",
    "mprotect_read": "mprotect",
    "mremap": "mremap",
}


def _folios(measurement: Measurement) -> Iterator[Finding]:
    for row in measurement.parts.get("folios", {}).get("sizes", []):
        label = folio_label(row)
        share = row["backed_share"]
        if share is not None and share < 0.9:
            why = f"only {share:.0%} of the memory was backed so"
            yield Finding("folios", label, "no conclusion", None, why)
            continue
        for key, what in FOLIO_FIGURES.items():
            yield _time("folios", f"{label}: {what}, a page", row["per_page_ns"][key])
        for child in ("gone", "alive"):
            copied = row[f"copied_share_child_{child}"]
            if copied is not None:
                text = f"{copied:.0%}"
                yield Finding("folios", f"{label}: copied, child {child}", text, copied)


def _huge(measurement: Measurement) -> Iterator[Finding]:
    raw = measurement.parts.get("huge")
    if raw is None:
        return
    preparing = raw["preparing"]
    if preparing:
        for state in ("fresh", "fragmented"):
            got = preparing[state]
            finding = _time("huge", f"reserve a 2 MiB page, {state}", got["ns_per_page"])
            yield Finding(
                "huge",
                finding.what,
                finding.value,
                finding.number,
                f"{got['pages_got']} of {preparing['wanted']} pages got",
            )
    asked = raw["unprivileged"]
    if asked:
        for call in ("mmap", "shmget", "memfd_create"):
            yield Finding("huge", f"unprivileged {call}", asked[call], None)


def _idle(measurement: Measurement) -> Iterator[Finding]:
    """First touches of memory that lay idle, beside those of memory in use just before."""
    raw = measurement.parts.get("idle")
    if raw is None:
        return
    for key, pages in (("base", 1), ("huge", 512)):
        touches = raw["sizes"][key]
        what = f"first touch of {'2 MiB' if pages > 1 else '4 KiB'}"
        share = touches["huge_share"]
        if pages > 1 and share is not None and share < 0.9:
            why = f"only {share:.0%} of the memory was backed so"
            yield Finding("idle", what, "no conclusion", None, why)
            continue

        def scaled(of: dict[str, Any], pages: int = pages) -> dict[str, Any]:
            return of | {name: of[name] * pages for name in ("median", "low", "high")}

        yield _time("idle", f"{what}, in use just before", scaled(touches["reused_ns"]))
        yield _time("idle", f"{what}, idle before", scaled(touches["idle_ns"]))
        if not touches["seen"]:
            yield Finding("idle", f"{what}, given by the host first", "not seen", None)
            continue
        yield _time("idle", f"{what}, given by the host first", scaled(touches["given_ns"]))
        given = touches["given_share"]
        yield Finding("idle", f"{what}: share given first", f"{given:.0%}", given)


def _syscalls(measurement: Measurement) -> Iterator[Finding]:
    for row in measurement.parts.get("syscalls", {}).get("by_size", []):
        label = f"{row['pages']} pages" + (", populated" if row["populate"] else "")
        yield _time("syscalls", f"mmap of {label}", row["mmap_ns"])
        yield _time("syscalls", f"munmap of {label}", row["munmap_ns"])
    for row in measurement.parts.get("syscalls", {}).get("by_threads", []):
        label = f"1 page, {row['threads']} threads"
        yield _time("syscalls", f"mmap of {label}", row["mmap_ns"])
        yield _time("syscalls", f"munmap of {label}", row["munmap_ns"])


def _shared(measurement: Measurement) -> Iterator[Finding]:
    raw = measurement.parts.get("shared-code")
    if raw is None:
        return
    count = raw["processes"]
    for row in [*(raw.get("pair") or []), *raw["started_apart"]]:
        memory = row["all"]
        saved = 1 - memory["pss"] / memory["rss"]
        name = program_label(row)
        size = units.size(row["file_bytes"])
        yield Finding("shared-code", f"{name}: file", size, float(row["file_bytes"]))
        note = f"{units.size(memory['page_tables'])} of page tables"
        value = units.size(memory["pss"])
        yield Finding("shared-code", f"{count} x {name}: PSS", value, float(memory["pss"]), note)
        yield Finding("shared-code", f"{count} x {name}: saved", f"{saved:.0%}", saved)
    if raw["forked"]:
        memory = raw["forked"]["all"]
        note = f"{units.size(memory['page_tables'])} of page tables"
        value = units.size(memory["pss"])
        yield Finding("shared-code", f"{count} forked: PSS", value, float(memory["pss"]), note)


def program_label(row: dict[str, Any]) -> str:
    """The name of a program of the part shared-code, and how it is linked."""
    name = str(row["program"]).rsplit("/", 1)[-1]
    if name in ("shared", "static"):
        return f"built {name}"
    return f"{name}, static" if row["static"] else name


def _calls(measurement: Measurement) -> Iterator[Finding]:
    raw = measurement.parts.get("calls")
    if raw is None:
        return
    name = raw["program"]
    yield Finding("calls", f"{name}: mmap", f"{raw['mmap']:,}", float(raw["mmap"]))
    yield Finding("calls", f"{name}: brk", f"{raw['brk']:,}", float(raw["brk"]))
    pages = raw["mean_pages"]
    yield Finding("calls", f"{name}: mean size", f"{pages:,.0f} pages", pages)
    rate = raw["per_second"]
    yield Finding("calls", f"{name}: allocations", f"{rate:.3g} Hz", rate)
