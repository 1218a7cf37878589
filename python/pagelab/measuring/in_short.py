"""A measurement in a few sentences: what a page, a huge page and a TLB miss cost here."""

from collections.abc import Iterator

from pagelab import units
from pagelab.measuring.findings import PAGE, Finding, findings
from pagelab.measuring.result import Measurement

HUGE = 2 << 20


def sentences(measurement: Measurement) -> list[str]:
    """One for each part that was measured and concluded; what a part left open has none."""
    rows = {(row.part, row.what): row for row in findings(measurement) if row.number is not None}
    return [*_first_touches(rows), *_translation(rows), *_hypervisor(rows)]


_Rows = dict[tuple[str, str], Finding]


def _first_touches(rows: _Rows) -> Iterator[str]:
    small = rows.get(("faults", "first touch (write), a page"))
    huge = rows.get(("faults", "first touch in a 2 MiB page, a 4 KiB"))
    if small:
        of_huge = f"; in a 2 MiB page {huge.value} for each 4 KiB" if huge else ""
        yield f"The first touch of a 4 KiB page takes {small.value}{of_huge}."


def _translation(rows: _Rows) -> Iterator[str]:
    entries = rows.get(("tlb", "4 KiB: L2 entries"))
    miss = rows.get(("tlb", "4 KiB: L2 miss"))
    if entries and entries.number and miss:
        reach = units.size(int(entries.number) * PAGE)
        more = miss.value.removeprefix("+")
        yield f"The TLB covers {reach} of 4 KiB pages; beyond, an access takes {more} more."


def _hypervisor(rows: _Rows) -> Iterator[str]:
    covered = rows.get(("tlb", "2 MiB page, effective"))
    if covered and covered.number and covered.number < HUGE:
        yield (
            f"An entry covers {covered.value} of a 2 MiB page, since a hypervisor maps it in "
            "pieces: huge pages save faults here, and hardly translation."
        )
    share = rows.get(("idle", "first touch of 2 MiB: share given first"))
    given = rows.get(("idle", "first touch of 2 MiB, given by the host first"))
    if share and share.number and given:
        yield (
            f"Of 2 MiB pages that lay idle {share.value} had to be given by the host first: "
            f"{given.value} each."
        )
