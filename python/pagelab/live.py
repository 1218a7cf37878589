"""The answer so far of a sample that is still being recorded, until it is precise enough.

What is recorded is simulated again and again, from its beginning, each time after as long a pause
as the last time took: half of the time goes into looks at the most.
"""

import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pagelab
from pagelab import jobs, units
from pagelab.progress import Meter, Quiet
from pagelab.results import Comparison, Run
from pagelab.window import Window

# Less of a program says little of it.
_FIRST_SECONDS = 5.0
# With fewer, an interval may be narrow by chance.
_LEAST_WINDOWS = 10


@dataclass
class Looks:
    """Looks at a recording of `window`; enough is known when all speeds are within `precision`."""

    simulations: Sequence[jobs.Simulation]
    window: Window
    at_once: int
    precision: float
    _next: float = _FIRST_SECONDS
    _began: float = 0.0
    _thread: threading.Thread | None = None
    _found: Comparison | None = None
    _stop: jobs.Stop = field(default_factory=jobs.Stop)

    def look(self, trace: Path, done: int, elapsed: float, meter: Meter) -> bool:
        """Shows what the last look has found; True if that is enough."""
        if self._thread is not None and self._thread.is_alive():
            return False
        if self._thread is None:
            if elapsed < self._next:
                return False
            self._began = elapsed
            self._thread = threading.Thread(target=self._simulate, args=(trace,), daemon=True)
            self._thread.start()
            return False
        self._thread = None
        self._next = elapsed + max(_FIRST_SECONDS, elapsed - self._began)
        if self._found is None:
            return False
        meter.answer(short(self._found), table(self._found))
        return precise(self._found, self.precision)

    def close(self) -> None:
        """Ends a look that is under way: the recording has ended."""
        self._stop.event.set()
        if self._thread is not None:
            self._thread.join()

    def _simulate(self, trace: Path) -> None:
        window = asdict(self.window.of_what_was_recorded)
        source = {"kind": "trace", "name": trace.stem, "path": str(trace), "window": window}
        work = [replace(one, source=source) for one in self.simulations]
        ended = jobs.simulate_all(work, Quiet(), self._stop, self.at_once)
        runs = [run for run in ended if isinstance(run, Run)]
        # The real simulation says why something cannot be simulated.
        if self._stop.wanted or len(runs) < len(work):
            self._found = None
            return
        self._found = Comparison(
            pagelab=pagelab.__version__,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            name=trace.stem,
            command=None,
            recording=None,
            window={},
            host={},
            runs=runs,
        )


def _rivals(comparison: Comparison) -> list[Run]:
    return [run for run in comparison.runs if run is not comparison.baseline_of(run)]


def precise(comparison: Comparison, precision: float) -> bool:
    """True if the speeds of all runs are known to that share."""
    halves = [comparison.speedup_interval(run) for run in _rivals(comparison)]
    windows = min(len(run.windows) for run in comparison.runs)
    known = bool(halves) and all(half is not None and half <= precision for half in halves)
    return known and windows >= _LEAST_WINDOWS


def short(comparison: Comparison) -> str:
    """The speeds in a line: `so far: radix 2M +9.4 ± 1.2 %, of 31 windows`."""
    from pagelab.table import speed

    speeds = [f"{comparison.label(run)} {speed(comparison, run)}" for run in _rivals(comparison)]
    return f"so far: {', '.join(speeds)}, of {len(comparison.runs[0].windows)} windows"


def table(comparison: Comparison) -> str:
    """The table, with what it is of."""
    from pagelab.table import text

    accesses = units.count(comparison.runs[0].accesses)
    windows = len(comparison.runs[0].windows)
    return f"{text(comparison)}\nso far, of {windows} windows, {accesses} accesses (Ctrl-C ends it)"
