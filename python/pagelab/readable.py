"""Files that traces are read from, where that is not what the user named.

A comparison reads its trace once for each design, and what has gone through a pipe is gone: several
designs would share it, and each come to its end. So a pipe is copied into a temporary file first,
unless it is read only once. And the compiled part takes names that are text, so that a trace with
another one is read through a link.
"""

import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pagelab.errors import InterruptedRunError, PagelabError
from pagelab.jobs import Stop
from pagelab.results import Failure, Run
from pagelab.sources import each_trace

_BLOCK = 1 << 20
_POLL_SECONDS = 0.2


@dataclass
class Substitutes:
    """A folder with what is read instead of other files, by the names of those."""

    folder: Path
    paths: dict[str, str] = field(default_factory=dict)

    def of(self, source: dict[str, Any]) -> dict[str, Any]:
        """A source's description with them in it."""
        paths = self.paths
        return each_trace(
            source, lambda trace: trace | {"path": paths.get(trace["path"], trace["path"])}
        )

    def as_named(self, outcome: Run | Failure, source: dict[str, Any]) -> Run | Failure:
        """Outcome in which files are called what the user called them."""
        if isinstance(outcome, Failure):
            return outcome.model_copy(update={"error": self._said(outcome.error)})
        told = each_trace(source, lambda trace: trace | {"path": as_text(trace["path"])})
        stopped = outcome.stopped and self._said(outcome.stopped)
        return outcome.model_copy(update={"source": told, "stopped": stopped})

    def _said(self, message: str) -> str:
        for named, read in self.paths.items():
            message = message.replace(read, as_text(named))
        return message


def as_text(name: str | os.PathLike[str]) -> str:
    """A file's name as it can be printed and kept: it need not be text."""
    return os.fsencode(name).decode(errors="replace")


def is_pipe(path: str) -> bool:
    """True if what is read there is gone then."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and _is_terminal(path))


def has_pipe(source: dict[str, Any]) -> bool:
    """True if a source can be read only once."""
    return any(is_pipe(trace["path"]) for trace in _traces(source))


@contextmanager
def substitutes(source: dict[str, Any], *, times: int, stop: Stop) -> Iterator[Substitutes]:
    """Files that can be read `times` times, each by a name that is text.

    They are gone at the end, however that comes. Raises PagelabError when a pipe cannot be copied,
    and InterruptedRunError when the user does not wait for its end.
    """
    paths = [trace["path"] for trace in _traces(source)]
    copied = [path for path in dict.fromkeys(paths) if times * paths.count(path) > 1]
    copied = [path for path in copied if is_pipe(path)]
    linked = [path for path in dict.fromkeys(paths) if path not in copied and not _is_text(path)]
    if not copied and not linked:
        yield Substitutes(Path())
        return
    with tempfile.TemporaryDirectory(prefix="pagelab-", ignore_cleanup_errors=True) as folder:
        found = Substitutes(Path(folder))
        for number, path in enumerate([*copied, *linked]):
            # Kept, as the layout of a ChampSim trace is told by its name, too.
            instead = found.folder / str(number) / (as_text(Path(path).name) or "trace")
            instead.parent.mkdir()
            found.paths[path] = str(instead)
            if path in copied:
                _copy(path, instead, stop)
            else:
                instead.symlink_to(Path(path).absolute())
        yield found


def _copy(path: str, to: Path, stop: Stop) -> None:
    """Copies all that comes out of a pipe, in a thread: nothing else ends the wait for it."""
    failed: list[OSError] = []

    def work() -> None:
        try:
            with open(path, "rb", buffering=0) as pipe, to.open("wb") as copy:  # noqa: PTH123
                while not stop.wanted and (block := pipe.read(_BLOCK)):
                    copy.write(block)
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_POLL_SECONDS)
        if stop.wanted:
            raise InterruptedRunError(f"interrupted while {as_text(path)} was read")
    if failed:
        free = shutil.disk_usage(to.parent).free
        raise PagelabError(
            f"cannot copy {as_text(path)}, a pipe, so that each design sees all of it: "
            f"{failed[0].strerror} ({to.parent.parent} has {free >> 20} MiB; TMPDIR names "
            "another folder)"
        ) from failed[0]


def _traces(source: dict[str, Any]) -> list[dict[str, Any]]:
    programs = source.get("programs", [source])
    return [program for program in programs if program.get("kind") == "trace"]


def _is_text(path: str) -> bool:
    return as_text(path) == path


def _is_terminal(path: str) -> bool:
    try:
        with open(path, "rb", buffering=0) as device:  # noqa: PTH123
            return device.isatty()
    except OSError:
        return False
