"""Collisions of keys in a hashed table: no machine, only its hash function."""

from typing import Any

from pagelab import _core
from pagelab.experiment.case import Case
from pagelab.experiment.content import simulator_version
from pagelab.experiment.progress import Progress


def case(label: str, entries: int, addresses: int) -> Case:
    """So many random addresses entered in a table of so many 8-byte entries."""
    task = {"entries": entries, "addresses": addresses, "seed": 1}
    return Case("collisions", label, task, [simulator_version(), task], memory=9 * entries)


def run(task: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """`collisions`: keys that found their place taken."""
    return {"collisions": _core.hash_collisions(task["entries"], task["addresses"], task["seed"])}
