"""Processes that a program leaves behind when it ends, as one does that makes itself a daemon."""

import ctypes
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from pagelab.advising.resident import descendants
from pagelab.errors import PagelabError

# prctl(2): orphans among the descendants become children of this process.
_SET_CHILD_SUBREAPER = 36
# The parts of a pipe may end after the shell that started them.
_GRACE_SECONDS = 1.0
_BETWEEN_LOOKS = 0.02


# A variable that all have which are started here, also those in a session of their own.
_MARK = "PAGELAB_ADVISE"
# Ends the group of processes that it was told of last, and all with the mark, when who told it is
# gone.
_GUARD = """
import os, pathlib, signal, sys, time
mark = sys.argv[1].encode()
group = 0
for line in sys.stdin:
    group = int(line)
def end(kill, number):
    try:
        kill(number, signal.SIGKILL)
    except OSError:
        pass
def marked():
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(bytes(1)):
                yield int(process.name)
        except OSError:
            pass
if group:
    end(os.killpg, group)
    # One may start another meanwhile; one that the kernel holds cannot be waited for.
    for _ in range(100):
        left = list(marked())
        for process in left:
            end(os.kill, process)
        if not left:
            break
        time.sleep(0.01)
"""


class Guard:
    """Process that ends what runs here, with all that it has started, if this one is killed.

    What is run needs its `environment`.
    """

    def __init__(self) -> None:
        self.environment = {_MARK: f"{os.getpid()}-{secrets.token_hex(8)}"}

    def __enter__(self) -> Self:
        (mark,) = (f"{name}={value}" for name, value in self.environment.items())
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _GUARD, mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            # Ctrl-C is not for it.
            start_new_session=True,
        )
        return self

    @contextmanager
    def over(self, group: int) -> Iterator[None]:
        """Guards a group of processes meanwhile."""
        self._tell(group)
        try:
            yield
        finally:
            self._tell(0)

    def _tell(self, group: int) -> None:
        assert self._process.stdin is not None
        # It may have been killed itself.
        with suppress(BrokenPipeError):
            self._process.stdin.write(b"%d\n" % group)
            self._process.stdin.flush()

    def __exit__(self, *_: object) -> None:
        self._tell(0)
        with suppress(BrokenPipeError):
            self._process.communicate()


@contextmanager
def nothing_left_running(name: str) -> Iterator[None]:
    """Ends what was started here and still runs; raises PagelabError if that was anything."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = set(descendants(os.getpid()))
    try:
        yield
    except BaseException:
        _end(before, 0.0)
        raise
    if left := _end(before, _GRACE_SECONDS):
        raise PagelabError(
            f"{name} has ended and left processes running ({', '.join(left)}), which were ended: "
            "its time says nothing of theirs. Have it stay in the foreground; a server needs --load"
        )


def _end(before: set[int], grace: float) -> list[str]:
    """Waits for new descendants to end, then ends them; the names of those."""
    until = time.monotonic() + grace
    while left := _running(before):
        if time.monotonic() >= until:
            break
        time.sleep(_BETWEEN_LOOKS)
    names = [_name(pid) for pid in left]
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    while _running(before):
        time.sleep(_BETWEEN_LOOKS)
    return sorted({name for name in names if name})


def _running(before: set[int]) -> list[int]:
    """New descendants that run; those that have ended are waited for."""
    new = [pid for pid in descendants(os.getpid()) if pid not in before]
    for pid in new:
        # A child of another process is that one's to wait for.
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return [pid for pid in new if Path(f"/proc/{pid}").exists()]


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
