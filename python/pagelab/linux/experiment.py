"""Published figures about the kernel, measured again in guests: experiments/*.toml with a suite."""

import json
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pydantic import BaseModel, ConfigDict, ValidationError

from pagelab.errors import PagelabError
from pagelab.linux import guest, suite
from pagelab.linux.layout import Layout


class Table(BaseModel):
    """One table: a benchmark of the suite, a row a folio size.

    `paper` has the speedups the paper states, by folio size in KB; `unit` is what a benchmark's
    time is divided by.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    bench: str
    unit: str
    paper: dict[int, float]
    paper_says: str


class Experiment(BaseModel):
    """What to run, and what the paper says about it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    suite: str
    table: list[Table]


class Sample(BaseModel):
    """One line a benchmark prints, and what was counted between its marks if anything was."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bench: str
    folio_kb: int
    pages: int
    ns: int
    copies: int
    instructions: int | None = None
    atomics: int | None = None


@dataclass(frozen=True)
class Cost:
    """Medians a unit for one folio size on one kernel; no atomics if none were counted."""

    time: float
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
        return Experiment.model_validate(tomllib.loads(path.read_text()))
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise PagelabError(f"{path}: {error}") from error


def measure(layout: Layout, experiment: Experiment) -> dict[bool, list[Sample]]:
    """Run the suite's boots; the samples without (False) and with (True) the patch."""
    samples: dict[bool, list[Sample]] = {False: [], True: []}
    for job in suite.load(layout.linux / "bench", [experiment.suite]):
        verdict, result = suite.run(layout, job)
        if verdict is not suite.Verdict.PASS:
            said = result.stderr.decode(errors="replace")
            raise PagelabError(f"{job.name} failed: {result.describe()}\n{said}")
        taken = parse(result.stdout)
        if job.entry.count:
            taken = add_counts(taken, result.files[guest.COUNTS])
        samples["foliomap=on" in job.append.split()] += taken
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


def rows(table: Table, samples: dict[bool, list[Sample]]) -> list[Row]:
    """One row a folio size that was measured both ways."""
    grouped: dict[tuple[int, bool], list[Sample]] = defaultdict(list)
    for on, taken in samples.items():
        for sample in taken:
            if sample.bench == table.bench:
                grouped[sample.folio_kb, on].append(sample)
    sizes = sorted({size for size, on in grouped if on and (size, False) in grouped})
    return [
        Row(size, _cost(grouped[size, False]), _cost(grouped[size, True]), table.paper.get(size))
        for size in sizes
    ]


def _cost(samples: list[Sample]) -> Cost:
    atomics = [sample.atomics / sample.pages for sample in samples if sample.atomics is not None]
    return Cost(
        time=median(sample.ns / sample.pages for sample in samples),
        copies=median(sample.copies / sample.pages for sample in samples),
        atomics=median(atomics) if atomics else None,
    )


def render(table: Table, measured: list[Row], counted: bool) -> str:
    """A table as Markdown; `counted` says that the guest's clock counted instructions."""
    what = "instructions" if counted else "ns"
    lines = [
        f"### {table.title}",
        "",
        f"Paper: {table.paper_says}. Below: median {what}, atomic operations and copies "
        f"a {table.unit}.",
        "",
        f"| folio | {what} off | on | off / on | paper | atomics off | on | copies off | on |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in measured:
        paper = f"{row.paper:.2f}" if row.paper is not None else ""
        cells = [
            f"{row.folio_kb} KB",
            *(f"{cost.time:.1f}" for cost in (row.off, row.on)),
            f"{row.speedup:.2f}",
            paper,
            *("" if cost.atomics is None else f"{cost.atomics:.2f}" for cost in (row.off, row.on)),
            *(f"{cost.copies:.2f}" for cost in (row.off, row.on)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])
