"""Progress is said the way its reader can use."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import termios

import pytest
from rich.console import Console

from pagelab import progress
from processes import until


def test_the_time_left_follows_from_the_rate() -> None:
    assert progress.status(25_000_000, 100_000_000, 5.0) == "25 %, 5.00 M acc/s, 15 s left"
    assert progress.status(25_000_000, None, 5.0) == "25.0 M accesses, 5.00 M acc/s"
    assert progress.status(0, 100, 0.0) == "0 %, 0 acc/s"


def test_a_limit_is_no_forecast() -> None:
    text = progress.up_to(63_100_000, 500_000_000, 10.0, "accesses")
    assert text == "63.1 M accesses of 500 M at most, 6.31 M/s"
    assert progress.up_to(0, None, 0.0, "instructions") == "0 instructions, 0/s"


def test_without_a_terminal_there_are_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.display(Console(stderr=True), quiet=False) as display:
        meter = display.meter("radix", "simulating")
        meter.update(5, 10)
        meter.finish()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(
        r"pagelab: simulating radix: 5 accesses in \d+\.\d s \(.* acc/s\)\n", captured.err
    )


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.display(Console(stderr=True), quiet=True) as display:
        meter = display.meter("radix", "simulating")
        meter.update(5, 10)
        meter.finish()
    assert capsys.readouterr() == ("", "")


def _read_all(terminal: int) -> str:
    """Everything that was written to a pseudo-terminal whose other end is closed; closes it."""
    read = b""
    # A read returns what has arrived; the end is an error (pty(7), EIO).
    with os.fdopen(terminal, "rb", buffering=0) as stream, contextlib.suppress(OSError):
        while piece := stream.read(10_000):
            read += piece
    return read.decode()


def test_a_shared_terminal_gets_its_last_line_back() -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 60, 0, 0))
    with os.fdopen(theirs, "w") as terminal:
        console = Console(file=terminal, force_terminal=True)
        with progress.display(console, quiet=False, shared=True) as display:
            meter = display.meter("sqlite3", "recording")
            meter.update(5_000_000, None)
            meter.finish()
    written = _read_all(ours)
    # Scrolling is confined to all lines but the last, the text goes there, and all is undone.
    assert written.index("\033[1;9r") < written.index("\033[10;1H")
    assert "recording sqlite3: 5.00 M accesses" in written
    assert written.endswith("\0337\033[r\033[10;1H\033[2K\0338")


@pytest.mark.parametrize("size", [(0, 0), (24, 1)])
def test_a_terminal_without_a_size_gets_lines(
    size: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    with os.fdopen(theirs, "w") as terminal:
        console = Console(file=terminal, force_terminal=True)
        with progress.display(console, quiet=False, shared=True) as display:
            meter = display.meter("sqlite3", "recording")
            meter.update(5_000_000, None)
            meter.answer("2M +9 %", "each design has a line")
            meter.finish()
    assert _read_all(ours) == ""
    assert "pagelab: recording sqlite3: 2M +9 %" in capsys.readouterr().err


def test_what_is_known_is_below_the_line() -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 60, 0, 0))
    with os.fdopen(theirs, "w") as terminal:
        console = Console(file=terminal, force_terminal=True)
        with progress.display(console, quiet=False, shared=True) as display:
            meter = display.meter("sqlite3", "recording")
            meter.update(5_000_000, None)
            meter.answer("short", "each design has a line, and this one has more of them: 2M +9 %")
            meter.finish()
    written = _read_all(ours)
    # Two lines more are taken when they are needed, and given back.
    assert written.index("\033[1;9r") < written.index("\033[1;7r")
    assert "\033[8;1H\033[2K\033[7mpagelab: recording sqlite3: 5.00 M accesses" in written
    assert "\033[9;1H\033[2K\033[7meach design has a line, and this one has more" in written
    cleared = "".join(f"\033[{row};1H\033[2K" for row in (8, 9, 10))
    assert written.endswith(f"\0337\033[r{cleared}\0338")


def test_the_seconds_that_are_left_are_said_anew() -> None:
    said: list[str] = []

    class Meter(progress._QuietMeter):
        def update(self, done: int, total: int | None, instead: str = "") -> None:
            said.append(instead)

    with progress.counting_down(Meter(), 100) as say:
        say("first run")
        until(lambda: len(said) > 2)
        say("round 1")
    assert said[0] == "first run, at most 100 s left"
    doing, left = zip(*(text.split(", at most ") for text in said), strict=True)
    assert doing == ("first run",) * (len(said) - 1) + ("round 1",)
    assert [int(text.split()[0]) for text in left] == sorted(
        (int(text.split()[0]) for text in left), reverse=True
    )
    assert left[-1] != left[0]
