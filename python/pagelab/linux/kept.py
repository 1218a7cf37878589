"""Results of long measurements, kept between runs with the state they were found in."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def fingerprint(asked: Any, files: Iterable[Path]) -> str:
    """Of what was asked for and of the files that results depend on, where they exist."""
    digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode())
    for path in files:
        if path.is_file():
            digest.update(path.name.encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def recall(out: Path, name: str, state: str) -> Any | None:
    """What an earlier run found in the same state, if it came to its end."""
    try:
        kept = json.loads((out / f"{name}.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return kept["data"] if kept.get("state") == state else None


def keep(out: Path, name: str, state: str, data: Any) -> None:
    """Keep what was found; a run that is broken off leaves nothing half written."""
    out.mkdir(parents=True, exist_ok=True)
    new = out / f"{name}.json.new"
    new.write_text(json.dumps({"state": state, "data": data}, indent=1))
    new.rename(out / f"{name}.json")
