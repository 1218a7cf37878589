"""Results on disk: a file a case, named by the case's key, whole or not there.

A store may be shared by any number of sweeps, reproductions and machines at once. Deleting it, or
files in it, costs no more than the time to compute them again.
"""

import gzip
import time
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic_core import from_json, to_json

from pagelab.errors import PagelabError
from pagelab.experiment.case import Case, Ended, Failed, Result

DEFAULT = Path("pagelab-results/store")
SCHEMA = "pagelab.result/1"
_ABANDONED_SECONDS = 3600


class Store:
    """A folder of results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # A file that a killed process was writing; a younger one may still be written.
            for part in folder.glob("*/.*.part"):
                if part.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                    part.unlink(missing_ok=True)
        except FileNotFoundError:
            pass  # another process was faster
        except OSError as error:
            raise PagelabError(f"cannot write {folder}: {error.strerror}") from error

    def get(self, key: str) -> Ended | None:
        """Result kept under a key; `None` when there is none, or none that can be read."""
        try:
            kept = from_json(gzip.decompress(self._file(key).read_bytes()))
        except (OSError, EOFError, ValueError, zlib.error):
            return None
        if not isinstance(kept, dict) or kept.get("schema") != SCHEMA or kept.get("key") != key:
            return None
        if "error" in kept:
            return Failed(kept["error"], kept["host"])
        return Result(kept["result"], kept["host"])

    def put(self, case: Case, one: Ended) -> None:
        """Keeps how a case ended; raises PagelabError when it cannot, as when the disk is full."""
        found: dict[str, Any] = (
            {"error": one.error} if isinstance(one, Failed) else {"result": one.data}
        )
        kept = {"schema": SCHEMA, "key": case.key, "label": case.label, "host": one.host} | found
        text = to_json(kept, inf_nan_mode="constants")
        write(self._file(case.key), gzip.compress(text, compresslevel=1, mtime=0))

    def _file(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json.gz"


def write(file: Path, content: bytes) -> None:
    """Writes a file whole or not at all; another process may write it at the same time."""
    part = file.with_name(f".{file.name}-{uuid4().hex}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        part.replace(file)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise PagelabError(
            f"cannot write {file}: {error.strerror}; what was finished before is kept, and the "
            "same command goes on from there"
        ) from error
