"""Options of commands that carry out many runs: where results are kept, and what runs them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pagelab.errors import UsageError
from pagelab.experiment import cluster, local, store
from pagelab.experiment.run import How
from pagelab.store import check as check_place
from pagelab.units import parse_size

_PANEL = "Where it runs"
STORE = store.DEFAULT

StoreFolder = Annotated[
    Path,
    typer.Option("--store", help="Where results are kept between runs.", rich_help_panel=_PANEL),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        min=1,
        help="Runs at once on this machine; all processors, as far as memory goes.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Memory that runs may take together (8GiB); what is available now.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
Dask = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        help="Run on this Dask scheduler's workers.",
        rich_help_panel=_PANEL,
    ),
]
Slurm = Annotated[
    int | None,
    typer.Option(
        "--slurm",
        min=1,
        metavar="JOBS",
        help="Run in so many Slurm jobs, through dask-jobqueue.",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True)
class Where:
    """Values of the options."""

    store: Path
    jobs: int | None = None
    memory: str | None = None
    dask: str | None = None
    slurm: int | None = None


@contextmanager
def how(where: Where, *, again: str, quiet: bool) -> Iterator[How]:
    """Way in which runs are carried out; a cluster that is made for them ends with the block."""
    if where.dask is not None and where.slurm is not None:
        raise UsageError("give one of --dask and --slurm")
    check_place(where.store)
    if where.dask is not None:
        found = cluster.at(where.dask)
        try:
            yield How(where.store, found.run, again=again, quiet=quiet)
        finally:
            found.close()
    elif where.slurm is not None:
        found, close = cluster.slurm(where.slurm)
        try:
            yield How(where.store, found.run, again=again, quiet=quiet)
        finally:
            close()
    else:
        memory = None if where.memory is None else parse_size(where.memory)
        run = partial(local.run, workers=where.jobs, memory=memory)
        yield How(where.store, run, again=again, quiet=quiet)
