"""The content of files that a result depends on."""

import hashlib
from collections.abc import Iterable
from pathlib import Path


def of(paths: Iterable[Path]) -> str:
    """Hash of the files among these, in order, with their names; a folder stands for all in it."""
    digest = hashlib.sha256()
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                digest.update(file.name.encode())
                digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
