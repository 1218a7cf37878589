"""The commands `annotate`, `sweep`, `diff` and `validate` as functions; `api` has the others.

What each of them needs is imported when it is called.
"""

import os
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from pagelab.results import Comparison, Run

if TYPE_CHECKING:
    from pagelab.annotating import Annotation
    from pagelab.measuring.validation import Validation
    from pagelab.sweeping.diff import Difference
    from pagelab.sweeping.outcome import Outcome

Path_ = str | os.PathLike[str]


def _tell(line: str) -> None:
    Console(stderr=True).print(f"pagelab: {line}", highlight=False, markup=False)


def validate(
    program: Sequence[Path_],
    *,
    machine: str | None = None,
    pages: str | Sequence[str] = "2M",
    budget: float = 60,
    limit: int = 2_000_000_000,
    quick: bool = False,
    progress: bool = False,
) -> "Validation":
    """Runs a program on this machine and on its preset, with small and with larger pages.

    `machine` is another one than this machine as it was measured, which takes minutes the first
    time, less with `quick`. `budget` is seconds of native runs, `limit` the most accesses.

    Returns what was predicted beside what was measured: `programs[0]`. Raises PagelabError where
    the program cannot be run or validated.
    """
    from pagelab.measuring import validation

    asked = validation.Asked(
        program=[os.fspath(word) for word in program],
        preset=machine,
        page_sizes=pages if isinstance(pages, str) else ",".join(pages),
        budget=budget,
        limit=limit,
        quick=quick,
    )
    say = _tell if progress else (lambda _: None)
    return validation.agree(asked, say, Console(stderr=True), not progress)


def annotate(
    result: Comparison | Run | Path_, design: str | None = None, *, by: str = "walks"
) -> "Annotation":
    """Says which functions, lines and kinds of memory miss the TLB, walk and fault.

    `result` is a comparison, a run, or where one was saved, of a program whose code was recorded.
    `design` is the baseline unless given; `by` is the order: walks, l2, l1 (TLB misses) or faults.

    Returns the rows, the most expensive first; those of each kind add up to the run's totals.
    Raises PagelabError for a result that says nothing of code, and UsageError for other orders.
    """
    from pagelab import annotating, results

    order = annotating.order(by)
    if isinstance(result, Run):
        result = results.of_run(result)
    elif not isinstance(result, Comparison):
        result = results.load(result)
    return annotating.annotation(result, annotating.chosen(result, design), order)


def sweep(
    file: Path_,
    *,
    out: Path_ | None = None,
    store: Path_ | None = None,
    again: bool = False,
    jobs: int | None = None,
    progress: bool = False,
) -> "Outcome":
    """Simulates every point of a sweep's TOML file on this machine (docs/sweep.md).

    What `store` has of earlier runs is not run again unless `again` is set; `jobs` runs are
    simulated at once, one a processor unless given. They are processes that import the main module:
    a script calls this below `if __name__ == "__main__":`. `out` is a directory to write
    sweep.parquet and report.html into.

    Returns a row a point, failed ones among them, and summaries over the seeds. Raises PagelabError
    for a file that is no sweep, and InterruptedRunError on Ctrl-C: what was done is kept.
    """
    from pagelab.experiment import local
    from pagelab.experiment.run import How, run_all
    from pagelab.experiment.store import DEFAULT
    from pagelab.store import check as check_place
    from pagelab.sweeping import file as files
    from pagelab.sweeping import plan
    from pagelab.sweeping.outcome import facts, outcome

    if out is not None:
        check_place(Path(out))
    path, started = Path(file), time.monotonic()
    swept = files.load(path)
    points = plan.plan(swept, path.parent)
    how = How(
        DEFAULT if store is None else Path(store),
        partial(local.run, workers=jobs),
        again="all" if again else "",
        quiet=not progress,
    )
    found = outcome(swept, path, points, run_all([case for _, case in points], how))
    if out is not None:
        took = time.monotonic() - started
        found.save(Path(out), path.stem, facts(path, len(points), took))
    return found


def diff(first: Path_, second: Path_, measures: Iterable[str] = ()) -> "Difference":
    """Compares the tables of two sweeps: points, failures and numbers.

    `first` and `second` are sweeps' folders or Parquet files; `measures` are columns, all numbers
    unless given. The result's `same` says whether nothing differs. Raises PagelabError where there
    is no table or the two cannot be compared.
    """
    from pagelab.sweeping import diff as diffs
    from pagelab.sweeping import table

    ours, theirs = table.load(Path(first)), table.load(Path(second))
    return diffs.difference(ours, theirs, list(measures))
