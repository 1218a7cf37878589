"""Results of runs, and the directory that keeps them.

The models mirror the JSON of a run (its parts are in `counts`) and of a comparison; the site's
reference (`make docs`) says what each field means. Results of the versions `RUN` and `COMPARISON`
are read and no others: a field that results do not always have is one that there is nothing of.
"""

import html
import json
import os
import re
import signal
import sys
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, ValidationError, computed_field, model_validator

from pagelab import sampling
from pagelab.answer import Answer
from pagelab.counts import (
    AllocationCosts,
    Caches,
    CoreCounts,
    Cycles,
    Dram,
    Fetch,
    HeatMap,
    Line,
    MappingCosts,
    MemoryCell,
    Model,
    Natural,
    Node,
    Os,
    SampleWindow,
    TimelinePoint,
    Tlb,
    Walks,
)
from pagelab.errors import PagelabError, UsageError, cannot, fault
from pagelab.pages import largest, of_policy
from pagelab.sources import Trace

if TYPE_CHECKING:
    import polars
    import pyarrow


# Versions: both rise where a field of a run is another one, the second alone where one of a
# comparison is.
RUN = "pagelab.run/2"
COMPARISON: Literal["pagelab.comparison/2"] = "pagelab.comparison/2"


class Table(Model):
    """A table, of a row a run, for Arrow, polars and notebooks."""

    @property
    def rows(self) -> "list[Model]":
        """Models that there is a row of."""
        return [self]

    def to_arrow(self) -> "pyarrow.Table":
        """A row a run; nested fields are columns with dotted names (`cycles.total`)."""
        from pagelab import frames

        return frames.arrow([row.model_dump(by_alias=True, mode="json") for row in self.rows])

    def to_polars(self) -> "polars.DataFrame":
        """As `to_arrow`, in polars. Raises PagelabError where polars is not installed."""
        from pagelab import frames

        return frames.polars_frame(self.to_arrow())


class Run(Table):
    """One design on one machine over one stream of events.

    `design` is a page table and a TLB with what was changed of them, as the command line takes
    it; `page_table` and `tlb_design` are its parts. `pages` is the page size that memory is backed
    with where it can be.
    """

    schema_: str = Field(alias="schema")
    complete: bool
    stopped: str | None
    # Simulated memory ran out.
    out_of_memory: bool
    design: str
    page_table: str
    tlb_design: str
    pages: str
    machine: dict[str, Any]
    source: dict[str, Any]
    instructions: Natural
    accesses: Natural
    loads: Natural
    stores: Natural
    # Accesses that are neither.
    prefetches: Natural
    mispredicted_branches: Natural
    skipped_instructions: Natural
    warm_up_accesses: Natural
    initialisation_cycles: Natural
    cycles: Cycles
    tlb: Tlb
    walks: Walks
    caches: Caches
    # Absent where instructions are not fetched.
    fetch: Fetch | None = None
    dram: Dram
    os: Os
    # Cores, where each has a program of its own.
    per_core: list[CoreCounts] = []
    design_counters: dict[str, Any] | None
    # Counters of the TLB design, where it has some.
    tlb_counters: dict[str, Natural] = {}
    windows: list[SampleWindow]
    timeline: list[TimelinePoint]
    free_2m_blocks: Natural
    memory_map: list[MemoryCell]
    # Heat map, where it was asked for (`heat_map`).
    heat_map: HeatMap | None = None
    nodes: list[Node] = []
    # Lines, where the source says which instructions make the accesses, the most expensive first.
    lines: list[Line] = []
    mappings: list[MappingCosts] = []
    # By the calls that allocated the memory, where the recording tells.
    allocation_sites: list[AllocationCosts] = []
    # Files whose code is not what was recorded: of it there is no function and no line.
    changed_files: list[str] = []
    host: dict[str, Any]

    @property
    def system(self) -> str:
        """Operating system: `linux` unless the design names another."""
        return self.design.partition(":os=")[2] or "linux"

    @property
    def without_system(self) -> str:
        """The design, without its operating system."""
        return self.design.partition(":os=")[0]

    @model_validator(mode="before")
    @classmethod
    def _pages(cls, raw: Any) -> Any:
        """Names the page size, which the machine has as a policy."""
        try:
            policy = raw["machine"]["memory"]["page_policy"]
        except (KeyError, TypeError):
            # The field that is missing, or no table, is told of by its name.
            return raw
        return {"pages": of_policy(policy)} | raw

    @property
    def machine_name(self) -> str:
        """Name in the machine's description."""
        return str(self.machine.get("name", ""))

    @property
    def memory(self) -> int:
        """The most memory that the program and its page tables took, in bytes."""
        return self.os.peak_resident_bytes + self.os.peak_table_bytes

    @property
    def longest_fork(self) -> float | None:
        """Nanoseconds that the largest fork took for memory; None where nothing forked.

        The child's entries and page tables, by the machine's costs (`cost`).
        """
        fork = self.os.largest_fork
        if fork is None:
            return None
        cost = self.machine["cost"]
        return float(fork.entries * cost["entry_ns"] + fork.table_pages * cost["table_page_ns"])

    @property
    def lacks_memory(self) -> bool:
        """True if it ended for want of memory, and more of it would help.

        It would if most of what there was is used. A design that wants contiguous memory may end
        with most of it free.
        """
        if not self.out_of_memory:
            return False
        memory = self.machine["memory"]
        free = int(memory["memory_bytes"]) * (1 - float(memory["utilisation"]))
        return self.os.resident_bytes + self.os.table_bytes > free / 2

    @cached_property
    def sample(self) -> sampling.Sample | None:
        """Estimate of the program by its windows; `None` where all was measured in one.

        A single window that is not all is a beginning that speaks for itself alone.
        """
        part = len(self.windows) == 1 and self.windows[0].instructions < self.instructions
        return sampling.Sample(self.windows) if len(self.windows) > 1 or part else None

    @property
    def of_beginning(self) -> bool:
        """True if it speaks of a beginning that was taken whole, and not of what followed."""
        return self.sample is not None and not self.sample.drawn

    @property
    def on_one_core(self) -> bool:
        """True if the parts of `cycles` add up to the time that passed."""
        return self.cycles.elapsed == self.cycles.total

    @property
    def elapsed(self) -> float:
        """Cycles that passed; of a sample those of the whole program, estimated."""
        return self.cycles.elapsed if self.sample is None else self._of_windows(self.sample)

    def _of_windows(self, sample: sampling.Sample) -> float:
        """Cycles for which windows stand."""
        if not self.on_one_core:
            return sample.total(sampling.of("cycles"))
        return sample.total(sampling.in_program) + sample.in_kernel

    @property
    def later_cycles(self) -> float:
        """Cycles of the second half of its instructions, as nearly as windows or the timeline tell.

        Of a sample whose first window is more than half, those of the rest.
        """
        if self.sample is None or self.of_beginning:
            length = self.sample.instructions if self.sample else self.instructions
            return self.elapsed - self.cycles_at(length // 2)
        ends = accumulate(one.instructions + one.after.instructions for one in self.windows)
        first = max(1, sum(end <= self.sample.instructions / 2 for end in ends))
        return self.elapsed - self._of_windows(sampling.Sample(self.windows[:first]))

    @property
    def seconds(self) -> float:
        """Simulated time of what was measured."""
        return self.cycles.elapsed / self.cycles.frequency_hz

    def __repr__(self) -> str:
        """A line; all fields are in `model_dump()`."""
        end = "" if self.complete else f", stopped: {self.stopped}"
        return (
            f"<Run of {self.source.get('name', '?')} with {self.design}, {self.pages} pages, on "
            f"{self.machine_name}: {self.accesses:,} accesses, {self.elapsed:,.0f} cycles{end}>"
        )

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return of_run(self)._repr_html_()

    def share(self, part: str) -> float:
        """The share of all cycles that went to one of `CYCLE_PARTS`, of a sample estimated."""
        if self.sample is not None and self.on_one_core:
            return self.sample.cycles(part) / self.elapsed if self.elapsed else 0.0
        value: int = getattr(self.cycles, part)
        return value / self.cycles.total if self.cycles.total else 0.0

    def per_kilo(self, counter: str) -> tuple[float, float]:
        """A counter of windows per thousand instructions, and half its confidence interval's width.

        The width is 0 for what was measured whole.
        """
        if self.sample is None:
            whole = {"l1_tlb_misses": self.tlb.l1_mpki, "l2_tlb_misses": self.tlb.l2_mpki}
            whole |= {"l2_misses": self.caches.l2_mpki, "llc_misses": self.caches.llc_mpki}
            return whole[counter], 0.0
        rate, half = self.sample.of_instructions(sampling.of(counter))
        return 1000 * rate, 1000 * half

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


class Failure(Model):
    """A design that could not be run to the end, and why (simulated memory ran out, ...)."""

    design: str
    error: str
    # As `Run.lacks_memory`, of one that ended before its first access.
    lacks_memory: bool = False


class Refused(Table):
    """A system call that was refused or not done: the error, or what became of it; how often."""

    call: str
    error: str
    times: Natural


class Recording(Table):
    """Statements of the recorder about the program that was run.

    `command`, `window` and `interrupted` (by the user) are of what it was asked for; `path` is the
    trace's, which results do not keep.
    """

    accesses: Natural
    instructions: Natural
    bytes: Natural
    exit_status: int
    signal: int | None
    ended_by: int | None
    """The signal to the recorder that ended the program, or that it obeyed by ending."""
    seconds: float
    running_seconds: float | None
    """Until the program had ended, where the trace was made afterwards."""
    # Recorded, in all.
    processes: Natural
    threads: Natural
    limited: bool
    ended_after: float | None = None
    """Seconds after which it was asked to be ended, and was."""
    incomplete: str | None
    programs: Natural
    """Programs recorded: the first, and those it started by execve that were followed."""
    unrecorded: dict[str, Natural]
    """Programs started by execve and not recorded, by path: how often."""
    refused: list[Refused]
    """System calls that the emulator refused, or granted and did not do, as a kernel may."""
    notes: list[str]
    command: list[str] | None = None
    window: dict[str, Any] = {}
    interrupted: bool = False
    path: Annotated[Path | None, Field(exclude=True)] = None
    words: str | None
    """What the trace was made of, where that was kept."""

    @property
    def signal_name(self) -> str | None:
        """The signal that ended the program; most real-time signals have a number only."""
        if self.signal is None:
            return None
        try:
            return signal.Signals(self.signal).name
        except ValueError:
            return f"signal {self.signal}"

    @property
    def trace(self) -> Trace:
        """The trace that was written. Raises PagelabError for a recording read from a result."""
        if self.path is None:
            raise PagelabError("results do not keep where the trace of a recording is")
        return Trace(self.path)

    def _repr_html_(self) -> str:
        from pagelab import recorded

        return f"<p>{html.escape(recorded.summary(self))}</p>"


class Comparison(Table):
    """Several designs over the same stream of events."""

    schema_: Literal["pagelab.comparison/2"] = Field(alias="schema", default=COMPARISON)
    pagelab: str
    created: str
    name: str
    command: list[str] | None
    recording: Recording | None
    window: dict[str, Any]
    host: dict[str, Any]
    runs: list[Run]
    failures: list[Failure] = []
    # Notes on what was done otherwise than asked: a machine given more memory, ...
    notes: list[str] = []
    # The user ended it early.
    interrupted: bool = False

    @property
    def rows(self) -> list[Model]:
        """The runs."""
        return list(self.runs)

    @model_validator(mode="before")
    @classmethod
    def _without_answer(cls, raw: Any) -> Any:
        """The fields of a result: its answer is made of them anew."""
        return {k: v for k, v in raw.items() if k != "answer"} if isinstance(raw, dict) else raw

    @computed_field  # type: ignore[prop-decorator]
    @property
    def answer(self) -> Answer:
        """Answer of the runs, decided for each machine, with the figures and the text of it."""
        from pagelab.verdict import verdict

        return verdict(self)

    def table(self, width: int = 80) -> str:
        """The table of the terminal as text."""
        from pagelab import table

        return table.text(self, width)

    def __getitem__(self, names: str | tuple[str, ...]) -> Run:
        """The run of a design; its page size and machine tell it from others with the same one.

        Raises UsageError, with the names that there are, where there is none or are several:
        `comparison["dpt"]`, `comparison["radix", "2M"]`, `comparison["radix", "zen4"]`.
        """
        wanted = (names,) if isinstance(names, str) else names
        keys = [(run.design, run.pages, run.machine_name) for run in self.runs]
        found = [at for at, key in enumerate(keys) if set(wanted) <= {*key, " ".join(key[:2])}]
        if len(found) == 1:
            return self.runs[found[0]]
        said = ", ".join(map(repr, wanted))
        if not found:
            there = "; ".join(", ".join(map(repr, key)) for key in keys)
            raise UsageError(f"there is no run [{said}]. There are: {there}")
        there = "; ".join(", ".join(map(repr, keys[at])) for at in found)
        raise UsageError(f"[{said}] are {len(found)} runs: {there}")

    def __repr__(self) -> str:
        """A line a run, at most eight, and the first sentence of the answer."""
        from pagelab.table import speed

        lines = [f"<Comparison of {self.name}: {self.answer.headline}"]
        lines += [f"  {self.label(run)}: {speed(self, run)}" for run in self.runs]
        if len(lines) > 9:
            lines[8:] = [f"  ... {len(lines) - 8} more"]
        return "\n".join(lines) + ">"

    __str__ = __repr__

    def lines_to_arrow(self) -> "pyarrow.Table":
        """A row a run and line of source, where the runs say which instructions missed."""
        from pagelab import frames

        return frames.arrow(
            [
                {"design": run.design, "pages": run.pages, "machine": run.machine_name}
                | line.model_dump()
                for run in self.runs
                for line in run.lines
            ]
        )

    def save(self, out: str | os.PathLike[str]) -> Path:
        """Writes result.json, result.parquet and report.html into a directory.

        With code, also lines.parquet, of `lines_to_arrow`.
        Returns the report's path. Raises PagelabError naming the file that could not be written.
        """
        from pagelab import store

        return store.save(self, Path(out))

    def _repr_html_(self) -> str:
        from pagelab import report

        return report.fragment(self)

    @property
    def complete(self) -> bool:
        """True if every design saw the whole stream."""
        return all(run.complete for run in self.runs) and not self.failures

    @property
    def machines(self) -> list[str]:
        """The names of the machines, in the order of the runs."""
        return list(dict.fromkeys(run.machine_name for run in self.runs))

    @property
    def page_sizes(self) -> list[str]:
        """The page sizes, in the order of the runs."""
        return list(dict.fromkeys(run.pages for run in self.runs))

    @property
    def baseline(self) -> Run:
        """Run that the others are compared with: radix with the smallest pages, else the first.

        Of several machines, that of the first; each run is compared with its own machine's.
        """
        return self.baseline_of(self.runs[0])

    def baseline_of(self, run: Run) -> Run:
        """The baseline of the machine of a run."""
        runs = [other for other in self.runs if other.machine_name == run.machine_name]
        radix = [other for other in runs if other.design == "radix"]
        return min(radix, key=lambda other: _bytes(other.pages)) if radix else runs[0]

    def on(self, machine: str) -> "Comparison":
        """The runs on one of the machines."""
        runs = [run for run in self.runs if run.machine_name == machine]
        return self.model_copy(update={"runs": runs})

    def label(self, run: Run) -> str:
        """A name that no other run has: the design, and what else differs between runs."""
        parts = [run.design]
        if len(self.page_sizes) > 1:
            parts.append(run.pages)
        if len(self.machines) > 1:
            parts.append(f"on {run.machine_name}")
        return " ".join(parts)

    def relative_time(self, run: Run) -> float:
        """The time of a run as a multiple of its baseline's."""
        return 1 / self.speedup(run)

    def speedup(self, run: Run) -> float:
        """Speed relative to its baseline, over the instructions that both have run.

        Runs that were stopped may have got to different places. Of a sample it is that of the
        whole program, estimated.
        """
        base = self.baseline_of(run)
        if same_windows(run, base):
            return base.elapsed / run.elapsed if run.elapsed else 1.0
        common = min(run.instructions, base.instructions)
        ours = run.cycles_at(common)
        return base.cycles_at(common) / ours if ours else 1.0

    def later_speedup(self, run: Run) -> float | None:
        """As `speedup`, over the second half of what both have run; `None` if that is not the same.

        It is where `speedup` goes if the program runs on as it did last.
        """
        base = self.baseline_of(run)
        alike = same_windows(run, base) or run.instructions == base.instructions
        return base.later_cycles / run.later_cycles if alike and run.later_cycles > 0 else None

    def speedup_interval(self, run: Run) -> float | None:
        """Half the width of the confidence interval of `speedup`, in the same unit.

        `None` when the two runs are not samples in the same windows.
        """
        base = self.baseline_of(run)
        if run.sample is None or base.sample is None or not same_windows(run, base):
            return None
        if run.of_beginning:
            return None
        return sampling.relative(base.sample, run.sample, kernel=base.on_one_core)[1]


def same_windows(*runs: Run) -> bool:
    """True if runs are samples in the same windows."""
    places = [[window.accesses for window in run.windows] for run in runs]
    sampled = all(run.sample is not None for run in runs)
    return sampled and all(place == places[0] for place in places)


def _bytes(pages: str) -> int:
    """A page size as a number; what is none comes after all that are."""
    match = re.fullmatch(r"(\d+)([KMG])", largest(pages))
    return int(match[1]) << {"K": 10, "M": 20, "G": 30}[match[2]] if match else sys.maxsize


def of_run(run: Run) -> Comparison:
    """A single run as a comparison of one."""
    return Comparison(
        pagelab="unknown",
        created="unknown",
        name=str(run.source.get("name", run.design)),
        command=None,
        recording=None,
        window={},
        host={},
        runs=[run],
    )


def load(path: str | os.PathLike[str]) -> Comparison:
    """Reads a result: a comparison, a single run, or the directory that holds one.

    Raises PagelabError when it is neither, naming the field that is wrong.
    """
    file = Path(path)
    if file.is_dir():
        file /= "result.json"
    try:
        with cannot("read", file):
            raw = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise PagelabError(f"{file} is not a result of pagelab: {error}") from error
    schema = raw.get("schema") if isinstance(raw, dict) else None
    for ours, command in ((COMPARISON, "compare"), (RUN, "simulate")):
        check_version(file, schema, ours, command)
    try:
        single = schema == RUN
        found = of_run(Run.model_validate(raw)) if single else Comparison.model_validate(raw)
    except ValidationError as error:
        raise PagelabError(
            f"{file} is not a result of pagelab: {fault(error)} "
            f"({error.error_count()} problems in all)"
        ) from error
    _check_runs(found, file)
    return found


def check_version(file: Path, schema: object, ours: str, command: str) -> None:
    """Raises PagelabError for a result of the same kind and another version.

    `command` is the one of pagelab's that makes it.
    """
    if schema != ours and str(schema).startswith(ours.partition("/")[0] + "/"):
        raise PagelabError(
            f"{file} is {schema}, and this pagelab reads {ours}: `pagelab {command}` makes it anew"
        )


def _check_runs(comparison: Comparison, file: Path) -> None:
    """Raises PagelabError for what pagelab never writes, and what cannot be divided by."""
    if not comparison.runs:
        raise PagelabError(f"{file} is not a result of pagelab: runs: there is none")
    for at, run in enumerate(comparison.runs):
        cycles = run.cycles
        counts = {
            "instructions": run.instructions,
            "cycles.elapsed": cycles.elapsed,
            "cycles.total": cycles.total,
        }
        for place, count in counts.items():
            if not count:
                raise PagelabError(f"{file} is not a result of pagelab: runs.{at}.{place} is 0")
