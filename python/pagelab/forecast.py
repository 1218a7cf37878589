"""Time that the simulation of a recording will take, said while the program still runs.

Its beginning is simulated beside the recording, under one design: a program misses at its own rate,
and machines differ by more than designs do.
"""

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pagelab import _core, jobs, units
from pagelab.progress import Meter
from pagelab.window import Window

# Recorded before that, less says nothing of the program.
_AFTER_SECONDS = 2.0
# For the simulation of the beginning.
_SPENT_SECONDS = 0.5
# A shorter one is tried again with more of the program.
_LEAST_SECONDS = 0.05

# The sample that is advised, and its share.
_SAMPLE, _SHARE = "5M:100M", 20


@dataclass
class Forecast:
    """The simulations that follow on a recording of `window`, `at_once` of them at a time."""

    simulations: Sequence[jobs.Simulation]
    window: Window
    at_once: int
    _thread: threading.Thread | None = None
    _seconds_each: float | None = None
    """Of a simulation, for each access or instruction recorded."""
    _tried: float = field(default=0.0)

    def look(self, trace: Path, done: int, elapsed: float, meter: Meter) -> bool:
        """Shows how long it will take, once it is known; nothing is enough."""
        if said := self.text(trace, done, elapsed):
            meter.expect(said)
        return False

    def close(self) -> None:
        """The recording has ended."""

    def text(self, trace: Path, done: int, elapsed: float) -> str | None:
        """A sentence, once it is known; `done` of the window are in `trace` after `elapsed` s."""
        if self._seconds_each is None:
            idle = self._thread is None or not self._thread.is_alive()
            if idle and elapsed - self._tried > _AFTER_SECONDS:
                self._tried = elapsed
                self._thread = threading.Thread(target=self._try, args=(trace,), daemon=True)
                self._thread.start()
            return None
        return self._said(self._seconds_each, done, elapsed)

    def _said(self, seconds_each: float, done: int, elapsed: float) -> str | None:
        if not done:
            return None
        count = len(self.simulations)
        each = seconds_each * count / min(count, self.at_once)
        designs = "1 design" if count == 1 else f"{count} designs"
        text = (
            f"each second of it takes {units.duration(done / elapsed * each)} to simulate "
            f"({designs})"
        )
        rest = done
        if limit := self.window.limit:
            rest = limit
            text += (
                f", all {units.count(limit)} take {units.duration(limit * elapsed / done)} and "
                f"{units.duration(limit * each)}"
            )
        if self.window.sample is None:
            part = units.duration(rest * each / _SHARE)
            text += f"; --sample {_SAMPLE} simulates a {_SHARE}th of that in {part}"
        return text

    def _try(self, trace: Path) -> None:
        """Simulates what there is; a failure is the real simulation's to say."""
        first = self.simulations[0]
        window = asdict(Window(in_instructions=self.window.in_instructions))
        source = {"kind": "trace", "name": first.label, "path": str(trace), "window": window}
        seen: list[tuple[int, float]] = []

        def progress(done: int, total: int | None, _: tuple[int, int] | None = None) -> bool:
            # The recording and whatever else goes on beside it is rather too much than too little.
            seen.append((done, time.monotonic()))
            return seen[-1][1] - seen[0][1] < _SPENT_SECONDS

        try:
            text = _core.simulate(
                first.design, first.machine, first.overrides, json.dumps(source), progress
            )
        except (_core.Error, UnicodeEncodeError):
            return
        if len(seen) < 2 or seen[-1][1] - seen[0][1] < _LEAST_SECONDS:
            return
        accesses = seen[-1][0] - seen[0][0]
        run = json.loads(text)
        unit = run["instructions"] / run["accesses"] if self.window.in_instructions else 1.0
        self._seconds_each = (seen[-1][1] - seen[0][1]) / (accesses * unit)
