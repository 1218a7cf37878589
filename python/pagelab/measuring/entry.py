"""A key of a machine preset, and where its value is from."""

from dataclasses import dataclass
from typing import Literal

# A value without a key of its own is as this preset has it.
BASE = "skylake-sp"

HUGE = 2 << 20

# Origin of a value. `open`: nothing was concluded; the base preset's value or a bound stands.
Status = Literal["measured", "claimed", "published", "open"]


@dataclass(frozen=True)
class Entry:
    """A key of the preset and where its value comes from; `value` is TOML, None for none at all."""

    key: str
    value: str | None
    status: Status
    source: str


def cycles(nanoseconds: float, ghz: float) -> int:
    """Cycles of so many nanoseconds, at least one."""
    return max(1, round(nanoseconds * ghz))


def split(entries: int, ways: int) -> int:
    """The largest number of ways up to `ways` that makes whole sets; all of them for 0."""
    if ways == 0:
        return entries
    return next(w for w in range(min(ways, entries), 0, -1) if entries % w == 0)
