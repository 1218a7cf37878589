"""Counts of a run: the parts of its JSON (`results.RUN`) as models.

Rust's types say what they are (`_core.run_schema`), which the tests compare these with;
the site's reference (`make docs`) says what each field means. Cycles, bytes and frames are whole
numbers throughout. A field with a default is absent where there is nothing of the kind.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

# Reason for which a run is not complete when the user ended it.
INTERRUPTED = "interrupted"

Natural = Annotated[int, Field(ge=0)]


class Model(BaseModel):
    """A model of JSON that was written whole: a field that is not known is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Cycles(Model):
    """Time by cause.

    `elapsed` is the time of the core that took longest. The parts add up to `total`, the sum
    over all cores.
    """

    elapsed: Natural
    total: Natural
    compute: Natural
    data: Natural
    translation: Natural
    mispredictions: Natural
    # Absent where instructions are not fetched.
    fetch: Natural = 0
    faults: Natural
    zeroing: Natural
    migrations: Natural
    # Saving of `total` by free translation, by a second clock; part of no sum. Absent where
    # the machine has none.
    recoverable: Natural | None = None
    frequency_hz: Annotated[float, Field(gt=0)]


CYCLE_PARTS = (
    *("compute", "data", "translation", "mispredictions", "fetch", "faults"),
    *("zeroing", "migrations"),
)


class Tlb(Model):
    """The data TLBs; MPKI is misses per thousand instructions."""

    lookups: Natural
    l1_misses: Natural
    l2_misses: Natural
    l1_mpki: float
    l2_mpki: float


class Latency(Model):
    """A distribution of latencies, in cycles.

    `histogram` holds (upper bound, count) in ascending order; the bounds are inclusive.
    """

    mean: float
    p50: Natural
    p90: Natural
    p99: Natural
    max: Natural
    histogram: list[tuple[Natural, Natural]]


class ServedBy(Model):
    """Number of references that each level answered."""

    l1: Natural
    l2: Natural
    llc: Natural
    dram: Natural
    # Absent where no other core's private caches did.
    other_cores: Natural = 0


class Walks(Model):
    """Page-table walks: how many, how long, and what they read."""

    count: Natural
    latency: Latency
    mean_with_wait: Annotated[float, Field(ge=0)]
    walker_wait: Natural
    reads: Natural
    served_by: ServedBy
    metadata_served_by: ServedBy
    cache_lookups: Natural
    cache_hits: Natural


class Coherence(Model):
    """Counts of keeping the private caches of several cores coherent."""

    transfers: Natural
    upgrades: Natural
    invalidations: Natural


class Caches(Model):
    """The three cache levels; their misses include those of walks."""

    data: ServedBy
    # Absent where the machine has no prefetchers.
    prefetches: ServedBy | None = None
    # Absent where the machine does not.
    coherence: Coherence | None = None
    l1_mpki: float
    l2_mpki: float
    llc_mpki: float


class Fetch(Model):
    """The instruction side; the first level of `served_by` is the instruction cache.

    `tlb` is the instructions' first level, and the second as far as it was asked for them.
    """

    fetches: Natural
    served_by: ServedBy
    prefetches: ServedBy
    l1_mpki: float
    tlb: Tlb
    walks: Natural


class CoreCounts(Model):
    """Figures of one core, up to the end of its program. Times are in cycles."""

    instructions: Natural
    accesses: Natural
    cycles: Natural
    data: Natural
    translation: Natural
    mispredictions: Natural
    fetch: Natural | None = None
    faults: Natural
    zeroing: Natural
    migrations: Natural
    recoverable: Natural | None = None
    l1_tlb_misses: Natural
    l2_tlb_misses: Natural


class Dram(Model):
    """Lines read and written back, and cycles that reads waited for bandwidth.

    The last three are absent where banks are never busy.
    """

    reads: Natural
    writes: Natural
    queue_cycles: Natural
    row_hits: Natural | None = None
    row_conflicts: Natural | None = None
    busy_cycles: Natural | None = None


class BySize(Model):
    """Pages of each size."""

    base: Annotated[Natural, Field(alias="4K")]
    large: Annotated[Natural, Field(alias="2M")]
    huge: Annotated[Natural, Field(alias="1G")]


class Blocks(Model):
    """Aligned blocks of the page size, by what their first touch got: that size, or why not.

    `not_advised` is for pages that go to those who ask (MADV_HUGEPAGE), `unwanted` for
    MADV_NOHUGEPAGE, `forbidden` for PR_SET_THP_DISABLE; `read_first` got the 4 KiB page of zeros.
    """

    given: Natural
    no_free_block: Natural
    not_covered: Natural
    not_advised: Natural
    unwanted: Natural
    forbidden: Natural
    file: Natural
    shared: Natural
    read_first: Natural


class Hashed(Model):
    """Placement of pages whose frames are hashed."""

    front: Natural
    back: Natural
    conflicts: Natural
    used_at_first_conflict: float | None


class Segments(Model):
    """Contents of restrictive segments (`utopia`)."""

    places: BySize
    used: BySize
    placed: BySize
    full: BySize
    moved_in: BySize
    refused: BySize
    evicted: BySize
    metadata_bytes: Natural


class Khugepaged(Model):
    """Work of khugepaged; pages are of 4 KiB but for those collapsed."""

    scans: Natural
    full_scans: Natural
    collapsed: Natural
    folios: Natural = 0
    too_empty: Natural
    too_shared: Natural
    no_free_block: Natural
    pages_copied: Natural
    pages_zeroed: Natural


class Kcompactd(Model):
    """Work of kcompactd; pages are of 4 KiB."""

    wakes: Natural
    made: Natural
    pages_moved: Natural


class Compaction(Model):
    """Pages of 4 KiB moved together so that blocks of 2 MiB are free."""

    stalls: Natural
    made: Natural
    pages_moved: Natural
    kcompactd: Kcompactd | None = None


class Grouping(Model):
    """2 MiB blocks of frames by the kind of pages that they are for."""

    unmovable_blocks: Natural
    claimed: Natural
    stolen: Natural
    pages_moved: Natural


class Kswapd(Model):
    """Work of kswapd; pages are of 4 KiB."""

    wakes: Natural
    scanned: Natural
    taken: Natural
    written: Natural


class Reclaim(Model):
    """Pages of 4 KiB that left memory when it was short, and came back."""

    reclaims: Natural
    scanned: Natural
    taken: Natural
    activated: Natural
    deactivated: Natural
    swapped_out: Natural
    swapped_in: Natural
    files_dropped: Natural
    files_written: Natural
    files_read: Natural
    reactivated: Natural
    underused_splits: Natural = 0
    zeros_freed: Natural = 0
    kswapd: Kswapd | None = None
    in_swap: Natural
    device_ns: Natural


class AccountingWork(Model):
    """Accounting of one kind of operation.

    Pages are of 4 KiB; lines are of page structures, each once for entries accounted together.
    """

    pages: Natural
    atomics: Natural
    lines: Natural


class Accounting(Model):
    """Accounting of who maps which page, by kind of operation."""

    fault: AccountingWork
    fork: AccountingWork
    unmap: AccountingWork
    split: AccountingWork


class Fork(Model):
    """Work of one fork: entries of pages that it copied, and pages of the page table it made."""

    entries: Natural
    table_pages: Natural


class Tiers(Model):
    """Counts of the `tiered` manager; `hot` and `cold` are pages of each of two nodes."""

    ticks: Natural
    demoted: Natural
    promoted: Natural
    hot: list[Natural]
    cold: list[Natural]


class Files(Model):
    """Mappings of files, private or shared, which get no page larger than 4 KiB."""

    faults: Natural
    pages: Natural


class Outside(Model):
    """Faults of no access here: of accesses left out, and of pages that loading a program zeroes.

    They are a part of what `Os` says by the same names.
    """

    faults: Natural
    anonymous: BySize
    zero_pages: Natural
    file: BySize


class Os(Model):
    """The operating system's side. Pages mapped are counted by size."""

    faults: Natural
    anonymous: BySize
    zero_pages: Natural
    file: BySize
    shared_new: Natural
    shared_present: Natural
    populated: BySize
    cow_copies: Natural
    file_copies: Natural = 0
    cow_reuses: Natural
    permission_faults: Natural
    spurious_faults: Natural
    fallbacks_2m: Natural
    fallbacks_1g: Natural
    fallbacks_folio: Natural
    # Absent with 4 KiB pages.
    blocks: Blocks | None = None
    splits: BySize
    collapsed: Natural = 0
    promoted: Natural = 0
    # Absent where it is off.
    khugepaged: Khugepaged | None = None
    compaction: Compaction | None = None
    reclaim: Reclaim | None = None
    accounting: Accounting | None = None
    pages_migrated: Natural
    outside: Outside
    stray_touches: Natural
    ignored_events: Natural
    forks: Natural
    entries_forked: Natural
    largest_fork: Fork | None = None
    resident_bytes: Natural
    peak_resident_bytes: Natural
    partly_mapped_bytes: Natural = 0
    partly_mapped: Natural = 0
    table_bytes: Natural
    peak_table_bytes: Natural
    preallocated_bytes: Natural
    memory_bytes: Natural
    free_blocks: list[Natural]
    free_2m_blocks: Natural
    unusable_free_space_index: float
    grouping: Grouping | None = None
    files: Files | None = None
    hashed: Hashed | None = None
    segments: Segments | None = None
    # Pieces given by the `contiguous` manager, by order.
    pieces: list[Natural] = []
    # Pages of 4 KiB given by the `bandwidth` manager, by node.
    placed: list[Natural] = []
    tiers: Tiers | None = None


class TimelinePoint(Model):
    """The state after so many instructions."""

    instructions: Natural
    cycles: Natural
    resident_bytes: Natural
    table_bytes: Natural


class Gap(Model):
    """The part not measured between two windows; times, of the kernel, in cycles."""

    instructions: Natural
    faults: Natural
    zeroing: Natural
    migrations: Natural


class SampleWindow(Model):
    """The measured part of one window of a sampled stream; times in cycles."""

    instructions: Natural
    accesses: Natural
    cycles: Natural
    total: Natural | None = None
    data: Natural
    translation: Natural
    mispredictions: Natural
    fetch: Natural | None = None
    faults: Natural
    zeroing: Natural
    migrations: Natural
    recoverable: Natural | None = None
    l1_tlb_misses: Natural
    l2_tlb_misses: Natural
    coherence: Coherence | None = None
    walks: Natural
    walk_cycles: Natural
    walk_reads: Natural
    l2_misses: Natural
    llc_misses: Natural
    after: Gap
    # Part of `Run.tlb_counters` in the window, and by how much `Run.design_counters` have
    # changed in it.
    tlb_counters: dict[str, Natural] | None = None
    design_counters: dict[str, int] | None = None


class MemoryCell(Model):
    """An equal part of physical memory, by what its frames hold.

    `preallocated` is what was in use before the program started.
    """

    free: Natural
    data: Natural
    tables: Natural
    preallocated: Natural

    @property
    def frames(self) -> int:
        """All frames of the cell."""
        return self.free + self.data + self.tables + self.preallocated


class HeatRow(Model):
    """A block of addresses of one kind of memory, with what its accesses came to by time.

    Where there were no misses or faults at all, those lists are empty.
    """

    kind: str
    address: Natural
    accesses: list[Natural]
    l2_tlb_misses: list[Natural]
    faults: list[Natural]


class HeatMap(Model):
    """Addresses over time: a row is a block of `bytes_per_row` that was accessed."""

    accesses_per_column: Natural
    bytes_per_row: Natural
    rows: list[HeatRow]

    @property
    def columns(self) -> int:
        """Number of columns."""
        return max((len(row.accesses) for row in self.rows), default=0)

    def counts(self, of: Literal["accesses", "l2_tlb_misses", "faults"]) -> list[list[int]]:
        """One of the three as a matrix: a list for each row, a number for each column."""
        none = [0] * self.columns
        return [getattr(row, of) or none for row in self.rows]


class CodeCosts(Model):
    """Costs of accesses: misses, walks with their cycles, faults with theirs."""

    # Number among several programs at once.
    program: Natural
    accesses: Natural
    l1_tlb_misses: Natural
    l2_tlb_misses: Natural
    walks: Natural
    walk_cycles: Natural
    faults: Natural
    fault_cycles: Natural


class Line(CodeCosts):
    """A line of source, or as much as is known of where instructions are from.

    `row` is "unknown" for code that is in no file and accesses whose instruction is not known, and
    "others" for the sum of all lines that have no row of their own. A line without an object is of
    code that the program has made itself (a JIT), or an instruction of another tool's trace, whose
    address is its function.
    """

    row: Literal["line", "unknown", "others"]
    object: str | None
    function: str | None
    inlined_into: list[str]
    file: str | None
    line: Natural | None
    text: str | None

    @property
    def module(self) -> str:
        """The name of the file that its code is in, or what stands for it."""
        if self.object:
            return Path(self.object).name
        by_address = (self.function or "").startswith("0x")
        return "[JIT]" if self.row == "line" and not by_address else ""

    @property
    def place(self) -> str:
        """Place in a word: function, or file, and line."""
        if self.row != "line":
            return "(other lines)" if self.row == "others" else "(no file)"
        name = self.function or self.module
        return f"{name} {self.position}" if self.file else name

    @property
    def position(self) -> str:
        """The line in its file; without a line the file, without that the function."""
        if self.row != "line" or self.file is None:
            return self.place
        name = Path(self.file).name
        return f"{name}:{self.line}" if self.line else name


class MappingCosts(CodeCosts):
    """A kind of memory, and the file that it is; accesses are not counted."""

    kind: str
    name: str | None

    @property
    def place(self) -> str:
        """Kind of memory, in a word or two."""
        return f"{self.kind} {Path(self.name).name}" if self.name else self.kind


class Node(Model):
    """A node of memory: lines read from it, and their share of those read from all nodes."""

    bytes: Natural
    resident_bytes: Natural
    reads: Natural
    share: float
    queue_cycles: Natural


class CallFrame(Model):
    """A call on the stack.

    `offset` is its return address: in the object's file, or the address where there is none.
    """

    offset: Natural
    object: str | None
    function: str | None
    inlined_into: list[str]
    file: str | None
    line: Natural | None
    text: str | None

    @property
    def place(self) -> str:
        """Function and line, as much as is known."""
        name = self.function or (Path(self.object).name if self.object else hex(self.offset))
        return f"{name} {Path(self.file).name}:{self.line}" if self.file and self.line else name


class AllocationCosts(CodeCosts):
    """Memory by the calls that allocated it; accesses are not counted.

    `row` is "elsewhere" for memory that no allocator has given, and "others" for the sum of all
    sites that have no row of their own. `frames` begin with the allocator's caller.
    """

    row: Literal["site", "elsewhere", "others"]
    call: str | None
    frames: list[CallFrame]
    allocations: Natural
    # Asked for: over all calls, and the most that was not given back.
    bytes: Natural
    peak_bytes: Natural
    # The most that first touches of it brought in.
    peak_resident_bytes: Natural

    @property
    def place(self) -> str:
        """The function called and its caller."""
        if self.row != "site":
            return "(other sites)" if self.row == "others" else "(not allocated)"
        return f"{self.call} < {self.frames[0].place}" if self.frames else str(self.call)

    @property
    def key(self) -> tuple[object, ...]:
        """Name that it alone has, in every run of one recording."""
        return (self.program, self.row, self.call, *((f.object, f.offset) for f in self.frames))
