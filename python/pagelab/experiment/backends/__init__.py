"""Backends that run cases: a module each, and the contract they share."""

from collections.abc import Callable
from typing import Any

from pagelab.experiment.backends import (
    checkout,
    collisions,
    guest,
    native,
    probe,
    simulate,
)
from pagelab.experiment.progress import Progress

# A backend's work on a case's task: JSON comes out. It raises RunError when the task has no
# result, and InterruptedRunError when `progress` asked it to stop.
Backend = Callable[[dict[str, Any], Progress], dict[str, Any]]

BACKENDS: dict[str, Backend] = {
    "simulate": simulate.run,
    "guest": guest.run,
    "probe": probe.run,
    "native": native.run,
    "collisions": collisions.run,
    "checkout": checkout.run,
}
