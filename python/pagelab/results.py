"""What runs return, and the directory that keeps it.

The models mirror the JSON of the simulator (`pagelab.run/1`) and of a comparison
(`pagelab.comparison/1`); docs/simulate.md says what each field means. Cycles, bytes and frames
are whole numbers throughout. Fields that these models do not name are kept as they are.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pagelab import intervals
from pagelab.errors import PagelabError

Natural = Annotated[int, Field(ge=0)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class Cycles(_Model):
    """Where the time went.

    `elapsed` is the time of the core that took longest. The parts add up to `total`, the sum
    over all cores.
    """

    elapsed: Natural
    total: Natural
    compute: Natural
    data: Natural
    translation: Natural
    faults: Natural
    migrations: Natural
    frequency_hz: Annotated[float, Field(gt=0)]


# Why a run is not complete when the user ended it.
INTERRUPTED = "interrupted"

CYCLE_PARTS = ("compute", "data", "translation", "faults", "migrations")


class Tlb(_Model):
    """The data TLBs; MPKI is misses per thousand instructions."""

    lookups: Natural
    l1_misses: Natural
    l2_misses: Natural
    l1_mpki: float
    l2_mpki: float


class Latency(_Model):
    """A distribution of latencies, in cycles.

    `histogram` holds (upper bound, count) in ascending order; the bounds are inclusive.
    """

    mean: float
    p50: Natural
    p90: Natural
    p99: Natural
    max: Natural
    histogram: list[tuple[Natural, Natural]]


class ServedBy(_Model):
    """How many references each level answered."""

    l1: Natural
    l2: Natural
    llc: Natural
    dram: Natural


class Walks(_Model):
    """Page-table walks: how many, how long, and what they read."""

    count: Natural
    latency: Latency
    walker_wait: Natural
    reads: Natural
    served_by: ServedBy
    # Absent from results of before it was counted.
    metadata_served_by: ServedBy | None = None
    cache_lookups: Natural
    cache_hits: Natural


class Caches(_Model):
    """The three cache levels; their misses include those of walks."""

    data: ServedBy
    l1_mpki: float
    l2_mpki: float
    llc_mpki: float


class Os(_Model):
    """The operating system's side; more counters than these are kept as they are."""

    faults: Natural
    resident_bytes: Natural
    peak_resident_bytes: Natural
    table_bytes: Natural
    peak_table_bytes: Natural
    pages_migrated: Natural


class TimelinePoint(_Model):
    """The state after so many instructions."""

    instructions: Natural
    cycles: Natural
    resident_bytes: Natural
    table_bytes: Natural


class SampleWindow(_Model):
    """The measured part of one window of a sampled stream; times in cycles.

    More counters than these are kept as they are.
    """

    instructions: Natural
    accesses: Natural
    cycles: Natural
    translation: Natural
    l2_tlb_misses: Natural
    walks: Natural
    walk_cycles: Natural


class MemoryCell(_Model):
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


class Node(_Model):
    """A node of memory: lines read from it, and their share of those read from all nodes."""

    bytes: Natural
    resident_bytes: Natural
    reads: Natural
    share: float
    queue_cycles: Natural


class Run(_Model):
    """One design on one machine over one stream of events."""

    schema_: Literal["pagelab.run/1"] = Field(alias="schema")
    complete: bool
    stopped: str | None
    design: str
    machine: dict[str, Any]
    source: dict[str, Any]
    instructions: Natural
    accesses: Natural
    loads: Natural
    stores: Natural
    skipped_instructions: Natural
    warm_up_accesses: Natural = 0
    initialisation_cycles: Natural = 0
    cycles: Cycles
    tlb: Tlb
    walks: Walks
    caches: Caches
    dram: dict[str, Natural]
    os: Os
    design_counters: dict[str, Any] | None
    windows: list[SampleWindow] = []
    timeline: list[TimelinePoint]
    # Absent from results of before it was kept.
    free_2m_blocks: Natural | None = None
    memory_map: list[MemoryCell]
    nodes: list[Node] = []
    host: dict[str, Any]

    @property
    def seconds(self) -> float:
        """Simulated time."""
        return self.cycles.elapsed / self.cycles.frequency_hz

    def share(self, part: str) -> float:
        """The share of all cycles that went to one of `CYCLE_PARTS`."""
        value: int = getattr(self.cycles, part)
        return value / self.cycles.total if self.cycles.total else 0.0

    def sampled(self, above: str, below: str) -> tuple[float, float]:
        """The ratio of two counters of the windows, and half its confidence interval's width."""
        return intervals.ratio(
            [getattr(window, above) for window in self.windows],
            [getattr(window, below) for window in self.windows],
        )

    def cycles_at(self, instructions: int) -> float:
        """Elapsed cycles after so many instructions, interpolated in the timeline."""
        if instructions >= self.instructions:
            return self.cycles.elapsed
        before = (0, 0)
        ends = [(p.instructions, p.cycles) for p in self.timeline]
        for after in [*ends, (self.instructions, self.cycles.elapsed)]:
            if after[0] >= instructions and after[0] > before[0]:
                share = (instructions - before[0]) / (after[0] - before[0])
                return before[1] + share * (after[1] - before[1])
            before = after
        return self.cycles.elapsed


class Failure(_Model):
    """A design that could not be run to the end, and why (simulated memory ran out, ...)."""

    design: str
    error: str


class Recording(_Model):
    """What the recorder says of the program that was run."""

    accesses: Natural
    instructions: Natural
    bytes: Natural
    exit_status: int
    signal: int | None
    seconds: float
    limited: bool
    incomplete: str | None
    notes: list[str]


class Comparison(_Model):
    """Several designs over the same stream of events."""

    schema_: Literal["pagelab.comparison/1"] = Field(alias="schema", default="pagelab.comparison/1")
    pagelab: str
    created: str
    name: str
    command: list[str] | None
    recording: Recording | None
    window: dict[str, Any]
    host: dict[str, Any]
    runs: list[Run]
    failures: list[Failure] = []

    @property
    def complete(self) -> bool:
        """Whether every design saw the whole stream."""
        return all(run.complete for run in self.runs) and not self.failures

    @property
    def baseline(self) -> Run:
        """What the others are compared with: radix if it is there, else the first."""
        return next((run for run in self.runs if run.design == "radix"), self.runs[0])

    def relative_time(self, run: Run) -> float:
        """The time of a run as a multiple of the baseline's."""
        return 1 / self.speedup(run)

    def speedup(self, run: Run) -> float:
        """How many times as fast as the baseline, over the instructions that both have run.

        Runs that were stopped may have got to different places.
        """
        base = self.baseline
        common = min(run.instructions, base.instructions)
        ours = run.cycles_at(common)
        return base.cycles_at(common) / ours if ours else 1.0

    def speedup_interval(self, run: Run) -> float | None:
        """Half the width of the confidence interval of `speedup`, in the same unit.

        `None` when the two runs are not samples in the same windows.
        """
        ours, theirs = run.windows, self.baseline.windows
        if len(ours) < 2 or [w.accesses for w in ours] != [w.accesses for w in theirs]:
            return None
        return intervals.ratio([w.cycles for w in theirs], [w.cycles for w in ours])[1]


def of_run(run: Run) -> Comparison:
    """A single run as a comparison of one."""
    return Comparison(
        pagelab=str(run.host.get("pagelab", "unknown")),
        created=str(run.host.get("created", "unknown")),
        name=str(run.source.get("name", run.design)),
        command=None,
        recording=None,
        window={},
        host={},
        runs=[run],
    )


def load(path: Path) -> Comparison:
    """Reads a result: a comparison, a single run, or the directory that holds one.

    Raises PagelabError when it is neither, naming the field that is wrong.
    """
    file = path / "result.json" if path.is_dir() else path
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise PagelabError(f"cannot read {file}: {error.strerror}") from error
    except ValueError as error:
        raise PagelabError(f"{file} is not a result of pagelab: {error}") from error
    try:
        if isinstance(raw, dict) and raw.get("schema") == "pagelab.run/1":
            return of_run(Run.model_validate(raw))
        return Comparison.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "top level"
        raise PagelabError(
            f"{file} is not a result of pagelab: {place}: {first['msg']} "
            f"({error.error_count()} problems in all)"
        ) from error
