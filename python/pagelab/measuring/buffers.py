"""How much of its buffers a core has while programs run on it.

In a guest it may be half of them for a part of the time, which moves within minutes: what was
measured hours ago does not say what a program had (docs/fidelity.md, "64 KB pages on a Zen 3").
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import mean
from typing import Any, NamedTuple

from pagelab.measuring import cores, probe
from pagelab.measuring.result import Measurement

# A look takes a second or two.
_SECONDS_BETWEEN_LOOKS = 10.0

# Shares of the reorder buffer: from the first to the second it is half, from there to the last all.
_LEAST, _BETWEEN, _MOST = 0.4, 0.7, 1.1

# What there was in a smaller share of the looks than this is not told from disturbances.
_LEAST_SHARE = 0.05


class Buffers(NamedTuple):
    """Instructions and stores that a core holds."""

    reorder: int
    stores: int

    @property
    def overrides(self) -> list[str]:
        """As keys of a machine."""
        return [f"core.reorder_buffer={self.reorder}", f"core.store_buffer={self.stores}"]


@dataclass
class Had:
    """What a core had while a program ran. `whole` is all it has.

    `halved` is the share of the time with half of that, of each look that told.
    """

    whole: Buffers
    halved: list[float] = field(default_factory=list)

    @property
    def half(self) -> float | None:
        """The share of the time with half of the buffers; None where no look told."""
        if not self.halved:
            return None
        half = mean(self.halved)
        if half < _LEAST_SHARE:
            return 0.0
        return half if half <= 1 - _LEAST_SHARE else 1.0

    @property
    def shares(self) -> dict[Buffers, float]:
        """What there was, and for what share of the time; empty where no look told."""
        half = self.half
        if half is None:
            return {}
        halves = Buffers(self.whole.reorder // 2, self.whole.stores // 2)
        each = {self.whole: 1 - half, halves: half}
        return {buffers: share for buffers, share in each.items() if share}

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        shares = [
            {"reorder_buffer": had.reorder, "store_buffer": had.stores, "share": share}
            for had, share in self.shares.items()
        ]
        return {"shares": shares, "looks": self.halved}


class Watch:
    """Looks at the buffers beside the runs of a program.

    `measure` makes a quick measurement, and returns its part `window`.
    """

    def __init__(self, whole: Buffers, measure: Callable[[], dict[str, Any]]) -> None:
        self.had = Had(whole)
        self._measure = measure
        self._next = 0.0

    def look(self) -> None:
        """Looks, unless it has done so seconds ago."""
        if time.monotonic() < self._next:
            return
        share = share_of_half(self._measure(), self.had.whole)
        if share is not None:
            self.had.halved.append(share)
        self._next = time.monotonic() + _SECONDS_BETWEEN_LOOKS


def watch(measurement: Measurement) -> Watch | None:
    """A watch of this machine's core, or none where nothing could be told."""
    core = cores.documented(measurement.environment)
    if core is None or "window" not in measurement.parts:
        return None

    def measure() -> dict[str, Any]:
        return probe.run("window", lambda _: None, quick=True).parts["window"]

    return Watch(Buffers(core.reorder_buffer, core.store_buffer), measure)


def share_of_half(window: dict[str, Any], whole: Buffers) -> float | None:
    """The share of the samples in which there was half of the reorder buffer rather than all.

    None where that cannot be told. What waits together between two loads may be less than a buffer
    holds, since registers run out before (on a Zen 3 with 234 of 256).
    """
    steps: dict[str, Any] | None = window["additions"]["together_and_apart"]
    if steps is None:
        return None
    smaller, larger = (steps[of][1] / whole.reorder for of in ("smaller", "larger"))
    if smaller < _LEAST or larger > _MOST:
        return None
    halves = [smaller < _BETWEEN, larger < _BETWEEN]
    if halves == [True, False]:
        return float(steps["share_of_smaller"])
    return float(halves[0])
