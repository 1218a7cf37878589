"""Part of a stream of events that is taken."""

from dataclasses import dataclass

from pagelab import units
from pagelab.errors import UsageError


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


OF_PROGRAMS = Window(sample=(2_000_000, 2_000_000), thinning=80)
"""Taken of a program whose length nobody knows: its first 160 million accesses, and eighty pieces
for each time that it becomes e times as long."""


def parse(
    skip: str | None,
    limit: str | None,
    sample: str | None,
    in_instructions: bool = False,
    warm_up: str | None = None,
) -> Window:
    """Part that the options of the same names take."""
    pair, thinning = None, 0
    if sample == "auto" and limit is not None:
        raise UsageError("--sample auto takes pieces of all, and goes without --limit")
    if sample == "auto":
        pair, thinning = OF_PROGRAMS.sample, OF_PROGRAMS.thinning
    elif sample is not None:
        on, colon, period = sample.partition(":")
        if not colon:
            raise UsageError(
                f"--sample: '{sample}' is not a sample; write it as ON:PERIOD, like 5M:100M"
            )
        pair = _count("--sample", on), _count("--sample", period)
        if not 0 < pair[0] <= pair[1]:
            raise UsageError(f"--sample {sample}: ON must be above 0 and not above PERIOD")
    chosen = Window(
        skip=0 if skip is None else _count("--skip", skip),
        limit=None if limit is None else _count("--limit", limit),
        sample=pair,
        thinning=thinning,
        in_instructions=in_instructions,
        warm_up=0 if warm_up is None else _count("--warm-up", warm_up),
    )
    if chosen.limit == 0:
        raise UsageError("--limit 0 takes nothing; leave it out to take everything")
    for name, piece in (("--sample", pair and pair[0]), ("--limit", chosen.limit)):
        if piece is not None and 0 < piece <= chosen.warm_up:
            raise UsageError(f"--warm-up {warm_up} leaves nothing of {name} to measure")
    return chosen


def _count(option: str, text: str) -> int:
    """The count that an option gives."""
    try:
        return units.parse_count(text)
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from error
