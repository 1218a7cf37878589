"""Part of a stream of events that is taken."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """Part to take, in accesses or, with `in_instructions`, in instructions.

    The first `skip` are left out; then of every `period` the first `taken` are taken, where
    `sample` is (taken, period); the end comes when `limit` were taken. Of what follows each gap,
    `warm_up` accesses are simulated and not measured.

    >>> Window(skip=1_000_000, sample=(100_000, 2_000_000))
    Window(skip=1000000, limit=None, sample=(100000, 2000000), in_instructions=False, warm_up=0)
    """

    skip: int = 0
    limit: int | None = None
    sample: tuple[int, int] | None = None
    in_instructions: bool = False
    warm_up: int = 0

    def __bool__(self) -> bool:
        """True if it can leave anything out."""
        return bool(self.skip or self.limit or self.sample)

    @property
    def of_what_was_recorded(self) -> "Window":
        """The rest of it for a trace: the recorder left out the rest, but warms nothing up."""
        return Window(in_instructions=self.in_instructions, warm_up=self.warm_up)
