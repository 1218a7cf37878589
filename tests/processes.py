"""Processes of the small sweep: the descendants of one that a test has started, and no other."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

# Runs of the small sweep of conftest.py.
RUNS = 16

Start = Callable[..., subprocess.Popen[str]]


def descendants(pid: int) -> list[int]:
    """Children, their children and so on, parents first."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name is in brackets and may have blanks in it.
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found = list(parents.get(pid, []))
    for child in found:
        found += parents.get(child, [])
    return found


def working(pid: int, name: str) -> list[int]:
    """Descendants that have this in their command line and no children: the workers."""
    found = []
    for child in descendants(pid):
        try:
            line = Path(f"/proc/{child}/cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if name in line and not descendants(child):
            found.append(child)
    return found


def kill(pid: int) -> bool:
    """SIGKILL; whether there was somebody to take it."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def until(done: Callable[[], bool], seconds: float = 300) -> None:
    """Waits until something is so; fails after so many seconds."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)
