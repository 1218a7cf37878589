"""The content of files that a result depends on."""

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from pagelab import _core


def of(paths: Iterable[Path]) -> str:
    """Hash of the files among these, in order, with their names; a folder stands for all in it."""
    digest = hashlib.sha256()
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                digest.update(file.name.encode())
                digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


@cache
def simulator_version() -> str:
    """Version of the simulator: a change of any model is another one."""
    assert _core.__file__ is not None
    # Not read whole: each worker would take that much memory for it.
    with Path(_core.__file__).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]
