"""Part of a stream of events that is taken."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """Part to take, in accesses or, with `in_instructions`, in instructions.

    The first `skip` are left out; then of every `period` the first `taken` are taken, where
    `sample` is (taken, period); the end comes when `limit` were taken. With `thinning` n,
    periods grow: each is at least an nth of the way so far. Of what follows each gap, `warm_up`
    accesses are simulated and not measured.

    >>> bool(Window(skip=1_000_000, sample=(100_000, 2_000_000)))
    True
    """

    skip: int = 0
    limit: int | None = None
    sample: tuple[int, int] | None = None
    thinning: int = 0
    in_instructions: bool = False
    warm_up: int = 0

    def __bool__(self) -> bool:
        """True if it can leave anything out."""
        return bool(self.skip or self.limit or self.sample)

    @property
    def of_what_was_recorded(self) -> "Window":
        """The rest of it for a trace: the recorder left out the rest, but warms nothing up."""
        return Window(in_instructions=self.in_instructions, warm_up=self.warm_up)


OF_PROGRAMS = Window(sample=(250_000, 250_000), thinning=40)
"""Taken of a program whose length nobody knows: its first ten million accesses, and forty pieces
for each time that it becomes e times as long."""
