"""What mapping and unmapping memory costs under several memory managers, beside a paper's table.

The tables `costs` and `threads` of an experiments/*.toml: one suite a configuration of the kernel,
each running the same benchmark in one guest whose instructions are counted.
"""

import json
from collections import defaultdict
from collections.abc import Callable
from statistics import median
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from pagelab.errors import PagelabError
from pagelab.linux import guest, markdown, suite
from pagelab.linux.layout import Layout

# Configuration, benchmark, pages a call: instructions and atomic ones a call
Costs = dict[tuple[str, str, int], tuple[float, float]]


class Cost(BaseModel):
    """One table: a benchmark, and by pages a call the microseconds the paper states."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    bench: str
    linux: dict[int, float]
    fbmm: dict[int, float]


class Plan(BaseModel):
    """What to run: `suites` has the benchmark's name under linux/bench by configuration.

    `by` is what the benchmark's `pages` are, where they are something else.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    by: str = "pages"
    suites: dict[str, str]
    cost: list[Cost]


class Sample(BaseModel):
    """One line the benchmark prints: a round of so many calls, each of so many pages."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bench: str
    pages: int
    calls: int


def plan(table: dict[str, Any]) -> Plan:
    """A table of an experiment's file.

    Raises:
        PagelabError: it is malformed; names the key.

    """
    try:
        return Plan.model_validate(table)
    except ValidationError as error:
        raise PagelabError(f"a table of costs in experiments/: {error}") from error


def measure(layout: Layout, plan: Plan, say: Callable[[str], None]) -> Costs:
    """Run every configuration whose kernel is built; `say` is told of each."""
    costs: Costs = {}
    for configuration, name in plan.suites.items():
        for job in suite.load(layout.linux / "bench", [name]):
            if not layout.image(tuple(job.entry.debug)).exists():
                say(f"left out, its kernel is not built: {job.name}")
                continue
            say(f"running {job.name}")
            verdict, result = suite.run(layout, job)
            if verdict is not suite.Verdict.PASS:
                said = result.stderr.decode(errors="replace")
                raise PagelabError(f"{job.name} failed: {result.describe()}\n{said}")
            found = parse(result.stdout, result.files[guest.COUNTS])
            costs |= {(configuration, *what): cost for what, cost in found.items()}
    return costs


def parse(output: bytes, counts: bytes) -> dict[tuple[str, int], tuple[float, float]]:
    """By benchmark and pages a call: instructions and atomic ones a call.

    They are the medians of the rounds, most of which are over before the timer interrupts.

    Raises:
        PagelabError: there is not one pair of counts for each sample.

    """
    lines = [line for line in output.decode().splitlines() if line.startswith("{")]
    samples = [Sample.model_validate(json.loads(line)) for line in lines]
    counted = [[int(word) for word in line.split()] for line in counts.decode().splitlines()]
    if len(samples) != len(counted):
        raise PagelabError(f"{len(samples)} samples, but {len(counted)} pairs of marks were passed")
    rounds: dict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    for sample, (instructions, atomics) in zip(samples, counted, strict=True):
        a_call = (instructions / sample.calls, atomics / sample.calls)
        rounds[sample.bench, sample.pages].append(a_call)
    return {
        what: (median(i for i, _ in found), median(a for _, a in found))
        for what, found in rounds.items()
    }


def render(plan: Plan, costs: Costs) -> str:
    """The tables as Markdown: a row a number of pages, the last configuration against `off`."""
    configurations = [name for name in plan.suites if any(key[0] == name for key in costs)]
    last = configurations[-1]
    about = (
        "Instructions a call; an atomic operation counts as one, and clearing a page as 4096: it "
        f"is one instruction that repeats for every byte. Ratios, ours and the paper's, are of "
        f"{last} to off; the last two columns are the atomic operations of both."
    )
    head = [plan.by, *configurations, "ratio", "paper", "atomic", "off"]
    sections = [markdown.paragraph(about), ""]
    for cost in plan.cost:
        rows: dict[int, dict[str, tuple[float, float]]] = defaultdict(dict)
        for (configuration, bench, pages), value in costs.items():
            if bench == cost.bench:
                rows[pages][configuration] = value
        lines = [
            _cells(cost, pages, found, configurations) for pages, found in sorted(rows.items())
        ]
        sections += [f"### {cost.title}", "", markdown.table(head, lines)]
    return "\n".join(sections)


def _cells(
    cost: Cost, pages: int, found: dict[str, tuple[float, float]], configurations: list[str]
) -> list[str]:
    last = configurations[-1]
    known = pages in cost.linux and pages in cost.fbmm
    return [
        str(pages),
        *(f"{found[name][0]:.0f}" for name in configurations),
        f"{found[last][0] / found['off'][0]:.3f}",
        f"{cost.fbmm[pages] / cost.linux[pages]:.2f}" if known else "",
        *(f"{found[name][1]:.{0 if found[name][1] >= 100 else 1}f}" for name in (last, "off")),
    ]
