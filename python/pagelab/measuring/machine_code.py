"""Caches and TLBs of instructions for a preset: what the system claims; nothing measures them."""

from collections.abc import Iterator

from pagelab.measuring.entry import Entry, split
from pagelab.measuring.result import Measurement

# Fetched behind a line that was missing: front ends prefetch, and how far is not published.
_NEXT_LINES = 1


def entries(measurement: Measurement) -> Iterator[Entry]:
    """Keys of the table `fetch`; none where a claim is missing, for it needs both."""
    caches = measurement.parts.get("caches", {}).get("claimed_code", [])
    tlbs = measurement.parts.get("tlb", {}).get("claimed_code", [])
    cache = next((c for c in caches if c["level"] == 1), None)
    tlb = next((c for c in tlbs if "4K" in c["pages"].split("/")), None)
    if not cache or not tlb:
        return
    ways = split(tlb["entries"], tlb["ways"])
    yield Entry("tlb", f"{{ entries = {tlb['entries']}, ways = {ways} }}", "claimed", "by CPUID")
    value = f"{{ kib = {cache['size'] // 1024}, ways = {cache['ways']} }}"
    yield Entry("l1", value, "claimed", "by the system")
    yield Entry("next_lines", str(_NEXT_LINES), "open", "not measured; a guess")
