"""Board of cases done, running, failed and left: bars on a terminal, elsewhere a line at times."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pagelab import units
from pagelab.experiment.case import Case

_SECONDS_BETWEEN_LINES = 5.0
# Lines for running cases on a terminal; the rest are counted.
_MOST_LINES = 8


class Board:
    """Counts cases, and shows the counts unless it is told to be quiet."""

    def __init__(self, total: int, kept: int, console: Console, *, quiet: bool = True) -> None:
        self._console = console
        self.total = total
        self.kept = kept
        self.done = 0
        self.failed = 0
        self.deaths = 0
        # Word for "running" where cases wait in a queue of their own.
        self.under_way = "running"
        self._quiet = quiet
        self._running: dict[str, tuple[Case, float]] = {}
        self._at: dict[str, tuple[int, int | None, str]] = {}
        self._seconds = 0.0
        self._most = 1
        self._line_at = time.monotonic()
        self._lock = Lock()

    def started(self, case: Case) -> None:
        """A case was handed to a worker."""
        with self._lock:
            self._running[case.key] = case, time.monotonic()
            self._most = max(self._most, len(self._running))

    def at(self, case: Case, done: int, total: int | None, text: str = "") -> None:
        """Takes the progress of a running case."""
        with self._lock:
            self._at[case.key] = done, total, text
        self._line()

    def lost(self, case: Case) -> None:
        """A case's worker died: it will be started again."""
        self.stopped(case)
        self.deaths += 1

    def stopped(self, case: Case) -> None:
        """A case was told to stop."""
        with self._lock:
            self._ended(case)

    def ended(self, case: Case, *, failed: bool) -> None:
        """A case came to its end."""
        with self._lock:
            self._seconds += self._ended(case)
            self.done += not failed
            self.failed += failed
        self._line()

    @property
    def left(self) -> int:
        """Cases that were not started."""
        return self.total - self.kept - self.done - self.failed - len(self._running)

    def say(self, text: str) -> None:
        """Tells the user something, above the bars."""
        self._console.print(f"pagelab: {text}", highlight=False, markup=False, soft_wrap=True)

    def summary(self) -> str:
        """`12 of 396 done, 2 running, 1 failed, 381 left, about 3 min`."""
        parts = [f"{self.kept + self.done} of {self.total} done"]
        parts += [f"{len(self._running)} {self.under_way}"] if self._running else []
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"{self.deaths} started again"] if self.deaths else []
        parts += [f"{self.left} left"] if self.left else []
        ended = self.done + self.failed
        if ended and self.left + len(self._running):
            each = self._seconds / ended
            seconds = each * (self.left + len(self._running) / 2) / self._most
            parts.append(f"about {units.duration(seconds)}")
        return ", ".join(parts)

    def __rich__(self) -> RenderableType:
        with self._lock:
            whole = Table.grid(padding=(0, 1))
            finished = self.kept + self.done + self.failed
            whole.add_row(ProgressBar(self.total or 1, finished, width=20), self.summary())
            table = Table.grid(padding=(0, 1))
            table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
            table.add_column(no_wrap=True, justify="right")
            for case, since in list(self._running.values())[:_MOST_LINES]:
                table.add_row(Text(f"  {case.label}"), Text(self._state(case, since), style="dim"))
            hidden = len(self._running) - _MOST_LINES
            rows: list[RenderableType] = [whole, table]
            if hidden > 0:
                rows.append(Text(f"  and {hidden} more", style="dim"))
            return Group(*rows)

    def _ended(self, case: Case) -> float:
        self._at.pop(case.key, None)
        _, since = self._running.pop(case.key, (case, time.monotonic()))
        return time.monotonic() - since

    def _state(self, case: Case, since: float) -> str:
        done, total, text = self._at.get(case.key, (0, None, ""))
        elapsed = time.monotonic() - since
        if text or not done:
            return " ".join(filter(None, (text, units.duration(elapsed))))
        share = f"{units.percent(done / total, 0)}, " if total else ""
        return f"{share}{units.count(done / max(elapsed, 0.1))} acc/s, {units.duration(elapsed)}"

    def _line(self) -> None:
        now = time.monotonic()
        if self._quiet or now - self._line_at < _SECONDS_BETWEEN_LINES:
            return
        self._line_at = now
        print(f"pagelab: {self.summary()}", file=sys.stderr, flush=True)


@contextmanager
def board(total: int, kept: int, console: Console, *, quiet: bool) -> Iterator[Board]:
    """A board that is shown as suits the console."""
    live = console.is_terminal and not quiet
    made = Board(total, kept, console, quiet=quiet or live)
    if live:
        with Live(made, console=console, refresh_per_second=4, transient=True):
            yield made
    else:
        yield made
