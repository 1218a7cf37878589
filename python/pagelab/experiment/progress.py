"""Progress of a run, told while it runs."""

from typing import Protocol


class Progress(Protocol):
    """Told by a backend; `False` asks it to stop and raise InterruptedRunError."""

    def __call__(self, done: int, total: int | None, text: str = "") -> bool:
        """`done` of `total`, if that is known; or a text."""


def silent(done: int, total: int | None, text: str = "") -> bool:
    """Shows nothing and never stops."""
    return True
