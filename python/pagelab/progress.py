"""Progress of long work: bars on a terminal, a plain line every few seconds elsewhere."""

import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Lock, Thread
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column
from rich.text import Text

from pagelab import units

SECONDS_BETWEEN_LINES = 5.0
# Columns of a terminal that anything can be said in.
_NARROWEST = 20


class Meter(Protocol):
    """Shows how far one piece of work is. Called from any thread."""

    def update(self, done: int, total: int | None, instead: str = "") -> None:
        """`done` accesses of `total`, if that is known; or a text to show instead."""

    def answer(self, short: str, table: str) -> None:
        """Shows what is known so far, in a line or as a table."""

    def finish(self) -> None:
        """The work has ended."""


class Display(Protocol):
    """Display of meters."""

    def meter(self, name: str, verb: str) -> Meter:
        """A meter for `name` (a design, a program) while it is being `verb` (simulating, ...)."""


@contextmanager
def metered(display: Display, name: str, verb: str) -> Iterator[Meter]:
    """A meter of the display while the block runs, however that ends."""
    meter = display.meter(name, verb)
    try:
        yield meter
    finally:
        meter.finish()


@contextmanager
def counting_down(meter: Meter, seconds: float) -> Iterator[Callable[[str], None]]:
    """A function that says on the meter what is done now, with what is left of so many seconds.

    That is shown anew each second, until the block ends.
    """
    until = time.monotonic() + seconds
    now, ended = "", Event()

    def say(doing: str) -> None:
        nonlocal now
        now = doing
        left = max(0.0, until - time.monotonic())
        meter.update(0, None, f"{doing}, at most {left:.0f} s left")

    def tick() -> None:
        while not ended.wait(1.0):
            if now:
                say(now)

    thread = Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield say
    finally:
        ended.set()
        thread.join()


class _QuietMeter:
    def update(self, done: int, total: int | None, instead: str = "") -> None:
        pass

    def answer(self, short: str, table: str) -> None:
        pass

    def finish(self) -> None:
        pass


class Quiet:
    """Shows nothing."""

    def meter(self, name: str, verb: str) -> Meter:
        """See Display."""
        return _QuietMeter()


@dataclass
class _LineMeter:
    name: str
    verb: str
    last_word: bool
    started: float = field(default_factory=time.monotonic)
    last_line: float = field(default_factory=time.monotonic)
    last_answer: float = 0.0
    done: int = 0
    lock: Lock = field(default_factory=Lock)

    def update(self, done: int, total: int | None, instead: str = "") -> None:
        now = time.monotonic()
        with self.lock:
            self.done = done
            if now - self.last_line < SECONDS_BETWEEN_LINES:
                return
            self.last_line = now
        self._print(instead or status(done, total, now - self.started))

    def answer(self, short: str, table: str) -> None:
        now = time.monotonic()
        if now - self.last_answer >= SECONDS_BETWEEN_LINES:
            self.last_answer = now
            self._print(short)

    def finish(self) -> None:
        # The error of something that failed at once says all.
        if not self.last_word or not self.done:
            return
        elapsed = time.monotonic() - self.started
        rate = self.done / elapsed if elapsed > 0 else 0.0
        self._print(
            f"{units.count(self.done)} accesses in {units.duration(elapsed)} "
            f"({units.count(rate)} acc/s)"
        )

    def _print(self, text: str) -> None:
        # In one piece: others are at work beside it.
        sys.stderr.write(f"pagelab: {self.verb} {self.name}: {text}\n")
        sys.stderr.flush()


@dataclass
class Lines:
    """Plain lines on standard error; `last_word` says how each piece of work ended."""

    last_word: bool

    def meter(self, name: str, verb: str) -> Meter:
        """See Display."""
        return _LineMeter(name, verb, self.last_word)


@dataclass
class _BarMeter:
    progress: Progress
    task: TaskID

    def update(self, done: int, total: int | None, instead: str = "") -> None:
        self.progress.update(self.task, completed=done, total=total, instead=instead)

    def answer(self, short: str, table: str) -> None:
        pass

    def finish(self) -> None:
        done = self.progress.tasks[self.task].completed
        self.progress.update(self.task, total=max(done, 1), completed=max(done, 1))
        self.progress.stop_task(self.task)


class _Status(ProgressColumn):
    def __init__(self) -> None:
        super().__init__(Column(no_wrap=True))

    def render(self, task: Task) -> Text:
        if task.finished or task.stop_time is not None:
            rate = task.completed / task.elapsed if task.elapsed else 0.0
            return Text(f"{units.count(task.completed)} at {units.count(rate)} acc/s", style="dim")
        if instead := task.fields.get("instead"):
            return Text(instead)
        total = None if task.total is None else int(task.total)
        return Text(status(int(task.completed), total, task.elapsed or 0.0))


class Bars:
    """Bars with rate and time left, for a terminal."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def meter(self, name: str, verb: str) -> Meter:
        """See Display."""
        return _BarMeter(self._progress, self._progress.add_task(f"{verb} {name}", total=None))


class BottomLine:
    """Lines at the bottom of the terminal, below what another program writes there.

    The program's output scrolls in the lines above (DECSTBM, "set top and bottom margins"), so
    neither disturbs the other.
    """

    def __init__(self, console: Console) -> None:
        self._file = console.file
        self._lock = Lock()
        self._rows = 0
        self._height = 0

    def meter(self, name: str, verb: str) -> Meter:
        """See Display."""
        return _BottomLineMeter(self, f"{verb} {name}")

    def show(self, text: str, more: str = "") -> None:
        """Replaces the lines: one of `text`, below it as many as `more` takes."""
        columns, rows = os.get_terminal_size(self._file.fileno())
        if columns < _NARROWEST:
            return
        lines = [text[: columns - 1]]
        for line in more.splitlines():
            lines += textwrap.wrap(line, columns - 1, drop_whitespace=False)
        with self._lock:
            self._write(self._drawn(lines, rows))

    def _drawn(self, lines: list[str], rows: int) -> str:
        """Text that shows lines in a terminal of so many rows; none in one that is too low."""
        height = max(len(lines), self._height)
        if rows < height + 2:
            return ""
        begin = ""
        if (rows, height) != (self._rows, self._height):
            # Line feeds first: the cursor may be on a line that is taken away.
            taken = height - (self._height if rows == self._rows else 0)
            begin = "\n" * taken + f"\0337\033[1;{rows - height}r\0338\033[{taken}A"
            self._rows, self._height = rows, height
        blank = [""] * (height - len(lines))
        shown = (
            f"\033[{rows - height + 1 + at};1H\033[2K\033[7m{line}\033[0m"
            for at, line in enumerate([*lines, *blank])
        )
        return f"{begin}\0337{''.join(shown)}\0338"

    def close(self) -> None:
        """Gives the lines back."""
        if self._rows:
            first = self._rows - self._height + 1
            cleared = (f"\033[{row};1H\033[2K" for row in range(first, self._rows + 1))
            self._write(f"\0337\033[r{''.join(cleared)}\0338")
            self._rows = self._height = 0

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()


@dataclass
class _BottomLineMeter:
    line: BottomLine
    label: str
    started: float = field(default_factory=time.monotonic)
    text: str = ""
    table: str = ""

    def update(self, done: int, total: int | None, instead: str = "") -> None:
        self.text = instead or status(done, total, time.monotonic() - self.started)
        self._show()

    def answer(self, short: str, table: str) -> None:
        self.table = table
        self._show()

    def _show(self) -> None:
        self.line.show(f"pagelab: {self.label}: {self.text}", self.table)

    def finish(self) -> None:
        self.line.close()


def dim(*, quiet: bool) -> Callable[[str], None]:
    """A function that says lines on standard error, faint; nothing if it is to be quiet."""
    console = Console(stderr=True, quiet=quiet)
    return partial(console.print, style="dim", highlight=False, markup=False)


def status(done: int, total: int | None, elapsed: float) -> str:
    """Progress, speed and time left: `34 %, 12.3 M acc/s, 40 s left`."""
    rate = done / elapsed if elapsed > 0 else 0.0
    parts = [units.percent(done / total, 0) if total else f"{units.count(done)} accesses"]
    parts.append(f"{units.count(rate)} acc/s")
    if total and rate and elapsed > 1:
        parts.append(f"{units.duration(max(total - done, 0) / rate)} left")
    return ", ".join(parts)


def up_to(done: int, most: int | None, elapsed: float, unit: str) -> str:
    """Progress of what may end before its limit: `63.1 M accesses of 500 M at most, 4.10 M/s`."""
    rate = done / elapsed if elapsed > 0 else 0.0
    ceiling = "" if most is None else f" of {units.count(most)} at most"
    return f"{units.count(done)} {unit}{ceiling}, {units.count(rate)}/s"


def _has_size(console: Console) -> bool:
    """True if a terminal says how large it is: one that programs make for others may say 0."""
    columns, rows = os.get_terminal_size(console.file.fileno())
    return columns >= _NARROWEST and rows > 0


@contextmanager
def display(console: Console, *, quiet: bool, shared: bool = False) -> Iterator[Display]:
    """The display that suits the console; `shared` when another program writes to it too."""
    if quiet:
        yield Quiet()
    elif not console.is_terminal or (shared and not _has_size(console)):
        yield Lines(last_word=not shared)
    elif shared:
        yield BottomLine(console)
    else:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            _Status(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=console, refresh_per_second=8) as progress:
            yield Bars(progress)
