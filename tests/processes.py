"""Processes that tests start: whether they live, and a sweep that is broken off in its middle."""

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

# Runs of the small sweep of experiment/conftest.py.
RUNS = 16
# Of these so many are kept when experiment/held.py holds the others; one more for every worker
# that was past the gate.
HELD_AT = 4

# So many seconds may anything take on a busy machine; what takes longer hangs.
PATIENCE = 900

Start = Callable[..., subprocess.Popen[str]]


def kept(folder: Path) -> int:
    """Results in a folder's store."""
    return len(list((folder / "store").glob("*/*.json.gz")))


def alive(pid: int) -> bool:
    """Whether there is a process of this number that has not ended."""
    try:
        # The name is in brackets and may have blanks in it.
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def busy(folder: Path) -> list[int]:
    """Living processes that have begun a run of a sweep that is held."""
    return sorted(pid for file in (folder / "busy").glob("*") if alive(pid := int(file.name)))


def kill_one(folder: Path, choose: random.Random) -> None:
    """Sends SIGKILL to a worker of a sweep that is held, at some moment of its work."""
    until(lambda: bool(busy(folder)))
    time.sleep(choose.uniform(0, 0.5))
    pid = choose.choice(busy(folder))
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid))


def until(done: Callable[[], bool]) -> None:
    """Waits until something is so."""
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


def free_port() -> int:
    """A port at which nobody listens, below those that the kernel gives to connections."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as found:
            try:
                found.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
