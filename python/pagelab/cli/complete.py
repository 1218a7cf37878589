"""Offers of a shell when an option's value is half typed."""

from collections.abc import Callable, Iterator

from pagelab import _core
from pagelab import systems as operating_systems

Known = Callable[[], list[tuple[str, str]]]
Complete = Callable[[str], Iterator[tuple[str, str]]]


def names(known: Known) -> Complete:
    """One of the names that are known, with what is said of each."""

    def complete(incomplete: str) -> Iterator[tuple[str, str]]:
        for name, said in known():
            if name.startswith(incomplete):
                yield name, said

    return complete


def listed(known: Known) -> Complete:
    """The last of several with commas between, none twice."""

    def complete(incomplete: str) -> Iterator[tuple[str, str]]:
        before, comma, last = incomplete.rpartition(",")
        for name, said in known():
            if name.startswith(last) and name not in before.split(","):
                yield f"{before}{comma}{name}", said

    return complete


def _machines() -> list[tuple[str, str]]:
    """The presets, and this machine; whether it has been measured takes too long to find out."""
    return [*_core.machines(), ("here", "this machine, measured on first use")]


machine = names(_machines)
machines = listed(_machines)
workload = names(_core.workloads)
manager = names(_core.managers)
systems = listed(operating_systems.listed)
design = names(_core.designs)
designs = listed(_core.designs)
