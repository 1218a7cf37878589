"""Published figures about the kernel, measured again in guests: experiments/*.toml with a suite."""

import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pydantic import BaseModel, ConfigDict, ValidationError

from pagelab.errors import PagelabError
from pagelab.linux import guest, markdown, suite
from pagelab.linux.layout import Layout
from pagelab.linux.process import capture


class Table(BaseModel):
    """One table: a benchmark of the suite, a row a folio size.

    `paper` has the speedups the paper states, by folio size in KB; `unit` is what a benchmark's
    time is divided by. `suite` is where the benchmark is, if not in the experiment's own. With
    `at_most`, the paper's bound on how many times longer it takes, boots are compared in pairs.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    suite: str | None = None
    bench: str
    unit: str
    paper: dict[int, float] = {}
    paper_says: str
    at_most: float | None = None


class Experiment(BaseModel):
    """What to run, and what the paper says about it.

    `without` is a suite on a kernel with the design compiled out: what the hooks cost when off.
    `memory` asks for the table of what tracking takes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    suite: str
    without: str | None = None
    memory: bool = False
    table: list[Table]

    @property
    def suites(self) -> list[str]:
        """The suites of its tables, each once."""
        return list(dict.fromkeys(table.suite for table in self.table if table.suite))


class Sample(BaseModel):
    """One line a benchmark prints, and what was counted between its marks if anything was.

    `icount` says that the guest's clock counted instructions: `ns` is their number, with those
    of interrupts and of reading the clock. `boot` numbers the boots of a side.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    bench: str
    folio_kb: int
    pages: int
    ns: int
    copies: int
    suite: str | None = None
    boot: int = 0
    icount: bool = False
    instructions: int | None = None
    atomics: int | None = None

    @property
    def time(self) -> int:
        """Instructions if they were counted, else ns of the guest's clock."""
        return self.ns if self.instructions is None else self.instructions


# What was found without (False) and with (True) the patch.
Samples = dict[bool, list[Sample]]


@dataclass(frozen=True)
class Cost:
    """Medians a unit for one folio size on one kernel; no atomics if none were counted."""

    time: float
    counted: bool
    copies: float
    atomics: float | None


@dataclass(frozen=True)
class Row:
    """One folio size, without and with the patch, and the paper's speedup if it states one."""

    folio_kb: int
    off: Cost
    on: Cost
    paper: float | None

    @property
    def speedup(self) -> float:
        """How many times less it takes with the patch."""
        return self.off.time / self.on.time


def read(path: Path) -> Experiment:
    """An experiment's file.

    Raises:
        PagelabError: it is malformed; names the key.

    """
    try:
        plan = Experiment.model_validate(tomllib.loads(path.read_text()))
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise PagelabError(f"{path}: {error}") from error
    tables = [table.model_copy(update={"suite": table.suite or plan.suite}) for table in plan.table]
    return plan.model_copy(update={"table": tables})


def measure(
    jobs: Iterable[suite.Job],
    take: Callable[[suite.Job], list[Sample]],
    say: Callable[[str], None] = lambda _: None,
) -> Samples:
    """Run the boots of one suite, whose samples `take` gets. `say` is told of each before it."""
    samples: Samples = {False: [], True: []}
    for job in jobs:
        say(job.name)
        side = samples["foliomap=on" in job.append.split()]
        boot = 1 + max((sample.boot for sample in side), default=0)
        side += [sample.model_copy(update={"boot": boot}) for sample in take(job)]
    return samples


def take(layout: Layout, job: suite.Job) -> list[Sample]:
    """The samples of one boot.

    Raises:
        PagelabError: the benchmark failed; says how.

    """
    verdict, result = suite.run(layout, job)
    if verdict is not suite.Verdict.PASS:
        said = result.stderr.decode(errors="replace")
        raise PagelabError(f"{job.name} failed: {result.describe()}\n{said}")
    about = {"suite": f"{job.folder.name}/{job.entry.name}", "icount": job.entry.icount}
    samples = [sample.model_copy(update=about) for sample in parse(result.stdout)]
    if job.entry.count:
        samples = add_counts(samples, result.files.get(guest.COUNTS, b""))
    return samples


def add_counts(samples: list[Sample], counts: bytes) -> list[Sample]:
    """Give every sample its line of counts, "INSTRUCTIONS ATOMICS"; there must be one for each."""
    lines = [[int(word) for word in line.split()] for line in counts.decode().splitlines()]
    if len(lines) != len(samples):
        raise PagelabError(f"{len(samples)} samples, but {len(lines)} pairs of marks were passed")
    return [
        sample.model_copy(update={"instructions": instructions, "atomics": atomics})
        for sample, (instructions, atomics) in zip(samples, lines, strict=True)
    ]


def parse(output: bytes) -> list[Sample]:
    """The samples among a benchmark's lines."""
    lines = output.decode().splitlines()
    return [Sample.model_validate(json.loads(line)) for line in lines if line.startswith("{")]


def rows(table: Table, samples: Samples) -> list[Row]:
    """One row a folio size that was measured both ways."""
    off, on = (
        costs(table.bench, [sample for sample in samples[which] if sample.suite == table.suite])
        for which in (False, True)
    )
    return [
        Row(size, off[size], on[size], table.paper.get(size)) for size in sorted(off) if size in on
    ]


def costs(bench: str, samples: list[Sample]) -> dict[int, Cost]:
    """What a benchmark's unit costs, by folio size in KB."""
    grouped: dict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        if sample.bench == bench:
            grouped[sample.folio_kb].append(sample)
    return {size: _cost(taken) for size, taken in grouped.items()}


def _cost(samples: list[Sample]) -> Cost:
    atomics = [sample.atomics / sample.pages for sample in samples if sample.atomics is not None]
    return Cost(
        time=median(sample.time / sample.pages for sample in samples),
        counted=all(sample.icount for sample in samples),
        copies=median(sample.copies / sample.pages for sample in samples),
        atomics=median(atomics) if atomics else None,
    )


def render(table: Table, measured: list[Row]) -> str:
    """A table as Markdown."""
    counted = all(row.off.counted and row.on.counted for row in measured)
    counts_atomics = any(row.off.atomics is not None for row in measured)
    what = "instructions" if counted else "ns"
    below = f"{what} per {table.unit}, off and on, and pages copied"
    head = ["folio", "off", "on", "off/on", "paper", "copies", "on"]
    if counts_atomics:
        below += ", and atomic operations"
        head += ["atomics", "on"]
    lines = []
    for row in measured:
        cells = [
            f"{row.folio_kb} KB",
            *(_digits(cost.time) for cost in (row.off, row.on)),
            f"{row.speedup:.3f}",
            "" if row.paper is None else f"{row.paper:.2f}",
            *(_digits(cost.copies) for cost in (row.off, row.on)),
        ]
        if counts_atomics:
            cells += [_digits(cost.atomics or 0) for cost in (row.off, row.on)]
        lines.append(cells)
    return section(table.title, f"Paper: {table.paper_says}. Below: {below}; medians.", head, lines)


def section(title: str, about: str, head: list[str], lines: list[list[str]]) -> str:
    """A heading, a paragraph and a table."""
    return "\n".join(
        [f"### {title}", "", markdown.paragraph(about), "", markdown.table(head, lines)]
    )


def _digits(value: float) -> str:
    """Four digits, and at most three after the point."""
    return f"{value:.{0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 1 else 3}f}"


def render_hooks(plan: Experiment, samples: Samples) -> str:
    """What the hooks cost where they do nothing: compiled out, off and on, for small folios."""
    without = [sample for sample in samples[False] if sample.suite == plan.without]
    off, on = (
        [sample for sample in samples[which] if sample.suite == plan.suite]
        for which in (False, True)
    )
    lines = []
    for bench in dict.fromkeys(sample.bench for sample in without):
        found = [costs(bench, taken).get(4) for taken in (without, off, on)]
        times = ["" if cost is None else f"{cost.time:.1f}" for cost in found]
        atomics = ["" if cost is None else f"{cost.atomics or 0:.2f}" for cost in found]
        lines.append([bench, *times, *atomics])
    return section(
        "Folios of one page: the design compiled out, off, and on",
        "Below: instructions, then atomic operations, a page or fault; medians.",
        ["", "without", "off", "on", "atomics", "off", "on"],
        lines,
    )


def memory(layout: Layout) -> str:
    """How many bytes track a large folio's mappings, as the kernel's arithmetic has it."""
    folder = layout.tree / "tools" / "testing" / "foliomap"
    capture(["make", "-s", "-C", folder, "bench"])
    printed = capture([folder / "bench", "memory"])
    found = re.findall(
        r"^order (\d+): linux (\d+) foliomap (\d+) paper (\d+)$", printed, re.MULTILINE
    )
    return section(
        "Bytes that track a folio's mappings",
        "Paper: 40 bytes for 2 MB; the others follow from its Eq. 2.",
        ["folio", "Linux", "FolioMap", "paper"],
        [[f"{4 << int(order)} KB", *sizes] for order, *sizes in found],
    )
