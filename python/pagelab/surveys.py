"""Folder of what a first pass saw of a program, for pieces (docs/scale.md).

It is the same for all designs and machines. A file is named by what determines it: of a trace the
checksums of its blocks, of a built-in program its parameters and the simulator's code.
"""

import hashlib
import json
import os
import time
from functools import cache
from pathlib import Path
from typing import Any

from pagelab import _core, files

_UNUSED_SECONDS = 30 * 24 * 3600.0


def folder() -> Path:
    """Folder of all: in $PAGELAB_CACHE, else where everything is."""
    base = os.environ.get("PAGELAB_CACHE")
    return (Path(base) if base else files.cache()) / "surveys"


def file(source: dict[str, Any]) -> Path | None:
    """The file for a source, there or not; None for one that has none."""
    described = _content(source)
    if described is None:
        return None
    found = folder() / f"{hashlib.sha256(described).hexdigest()}.survey"
    _tidy(found)
    return found


def _content(source: dict[str, Any]) -> bytes | None:
    if source.get("kind") == "trace":
        try:
            return _core.trace_headers(source["path"])
        except _core.Error:
            # Whoever simulates it says why.
            return None
    if source.get("kind") == "workload":
        program = [simulator_version(), source["name"], source["parameters"]]
        return json.dumps(program, sort_keys=True).encode()
    return None


@cache
def simulator_version() -> str:
    """Version of the simulator: a change of any model is another one."""
    assert _core.__file__ is not None
    # Not read whole: each worker would take that much memory for it.
    with Path(_core.__file__).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


def _tidy(used: Path) -> None:
    """Deletes what nobody has used for a month."""
    try:
        if used.exists():
            os.utime(used)
            return
        for one in used.parent.glob("*.survey*"):
            if one.stat().st_mtime < time.time() - _UNUSED_SECONDS:
                one.unlink(missing_ok=True)
    except OSError:
        pass  # another process was faster, or may not write there: nothing hangs on it
