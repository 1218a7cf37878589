"""Computes a paper's figures."""

from pathlib import Path

from rich.console import Console

from pagelab import _core, jobs
from pagelab.errors import PagelabError
from pagelab.progress import display
from pagelab.reproduce import outcome, plan, runs
from pagelab.reproduce.figure import Collisions, Paper
from pagelab.reproduce.outcome import Outcome
from pagelab.reproduce.plan import Ablation


def compute(
    paper: Paper,
    ablation: Ablation,
    parallel: int | None,
    out: Path,
    *,
    quiet: bool,
) -> list[Outcome]:
    """The numbers of all figures of a paper, in the order of their names.

    What was computed is kept under `out`. Raises PagelabError when it was interrupted.
    """
    console = Console(stderr=True)

    def say(text: str) -> None:
        if not quiet:
            console.print(f"pagelab: {text}", highlight=False)

    work = plan.plan(paper, ablation)
    kept = runs.Kept(out / "runs")
    # Figures share simulations.
    keys = {cell: kept.key(simulation) for cell, simulation in work.items()}
    wanted = {keys[cell]: simulation for cell, simulation in work.items()}
    with jobs.stoppable() as stop, display(console, quiet=quiet) as meters:
        ended = runs.run_all(wanted, kept, meters, stop, parallel, say)
    if stop.wanted:
        raise PagelabError(f"interrupted; what was computed is kept in {kept.directory}")
    results = {cell: ended[key] for cell, key in keys.items()}
    outcomes = []
    for name, one in paper.figures.items():
        if isinstance(one, Collisions):
            say(f"{name}: entering {one.addresses:,} pages in {len(one.table_kib)} tables")
            counts = [_core.hash_collisions(kib << 7, one.addresses, 1) for kib in one.table_kib]
            outcomes.append(outcome.of_collisions(name, one, counts))
        else:
            outcomes.append(outcome.of_runs(paper, name, one, results))
    return outcomes
