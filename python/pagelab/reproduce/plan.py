"""From figures to simulations: which machine, how much memory, over which workload."""

import json
from dataclasses import asdict, dataclass

from pagelab import _core
from pagelab.errors import PagelabError
from pagelab.jobs import Simulation
from pagelab.recording import Window
from pagelab.reproduce.figure import Collisions, Figure, Paper, Series, Workload
from pagelab.sources import together

# What is free must hold the program, its page tables, and what fragmentation costs.
SLACK = 1.15
# Physical lines are numbered in 31 bits.
LARGEST_GIB = 128


@dataclass(frozen=True)
class Cell:
    """One series over one workload."""

    figure: str
    series: str
    workload: str


@dataclass(frozen=True)
class Ablation:
    """What to do otherwise than the figures say, to see what a number hangs on.

    Whole programs, keys of all machines changed, another footprint for all workloads, several
    copies of each at once.
    """

    full: bool = False
    changes: tuple[str, ...] = ()
    footprint_gib: float | None = None
    copies: int = 1


def plan(paper: Paper, ablation: Ablation) -> dict[Cell, Simulation]:
    """Every simulation the figures need; cells that need the same one have equal values.

    Raises PagelabError when a footprint does not fit the largest memory.
    """
    work = {}
    for name, figure in paper.figures.items():
        if isinstance(figure, Collisions):
            continue
        for workload in workloads(paper, figure):
            for series in figure.series:
                cell = Cell(name, series.name, workload.label)
                work[cell] = _simulation(paper, figure, series, workload, ablation)
    return work


def workloads(paper: Paper, figure: Figure) -> list[Workload]:
    """The workloads of a figure, in the paper's order."""
    wanted = figure.workloads
    return [w for w in paper.system.workload if wanted is None or w.label in wanted]


def _simulation(
    paper: Paper,
    figure: Figure,
    series: Series,
    workload: Workload,
    ablation: Ablation,
) -> Simulation:
    footprint = ablation.footprint_gib or figure.footprint_gib or workload.footprint_gib
    keys = [*paper.system.set, *ablation.changes, *series.set]
    machine = json.loads(_core.machine(paper.system.machine, keys))
    utilisation = float(machine["memory"]["utilisation"])
    together_gib = footprint * ablation.copies
    memory = figure.memory_gib or memory_gib(together_gib, utilisation, machine["memory"])
    if memory * (1 - utilisation) < together_gib:
        raise PagelabError(
            f"{workload.label} takes {together_gib:g} GiB, but {memory} GiB of memory of which "
            f"{utilisation:.0%} are in use leave less"
        )
    sample = {"windows": 0} if ablation.full else figure.sample or paper.system.sample
    parameters = {"footprint": str(round(footprint * 2**30))} | {
        k: str(v) for k, v in sample.items()
    }
    program = {
        "kind": "workload",
        "name": workload.name,
        "parameters": parameters,
        "window": asdict(Window()),
    }
    return Simulation(
        label=f"{series.name} {workload.label}",
        design=series.design,
        machine=paper.system.machine,
        overrides=[f"memory.memory_bytes={memory << 30}", *keys],
        source=together([program], ablation.copies),
    )


def memory_gib(footprint: float, utilisation: float, least: dict[str, int]) -> int:
    """The least power of two, from the machine's own size on, of which enough is free.

    A paper that simulates a stretch of each program can do with less memory than its footprint.
    Here the whole footprint is in memory, so that page tables have their real size.
    """
    gib = least["memory_bytes"] >> 30
    while gib < LARGEST_GIB and gib * (1 - utilisation) < footprint * SLACK:
        gib *= 2
    return gib
