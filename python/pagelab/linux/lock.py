"""One at a time in a folder that compilers write to."""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

# Locks of this process, and how often: a step of a build may be one by itself, too.
_mine: dict[Path, int] = {}
_files: dict[Path, int] = {}


def held() -> tuple[int, ...]:
    """The open files of the locks, for programs that build: a lock is there while its file is."""
    return tuple(_files.values())


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Wait until nobody else builds in the folder, saying who does; others wait until the end.

    The lock goes with the process, however it ends, and with what it has started to build.
    """
    folder = folder.resolve()
    if folder in _mine:
        _mine[folder] += 1
        try:
            yield
        finally:
            _mine[folder] -= 1
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting: {_holder(file)} builds in {folder}", file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
        file.write(f"process {os.getpid()} ({command})")
        file.flush()
        _mine[folder] = 1
        _files[folder] = file.fileno()
        try:
            yield
        finally:
            del _mine[folder], _files[folder]
            file.truncate(0)


def _holder(file: TextIO) -> str:
    file.seek(0)
    return file.read().strip() or "another process"
