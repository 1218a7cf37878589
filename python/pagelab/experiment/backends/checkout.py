"""Counts in the sources under linux/, without running a kernel."""

import re
from pathlib import Path
from typing import Any

from pagelab.errors import PagelabError, RunError
from pagelab.experiment import content
from pagelab.experiment.case import Case
from pagelab.experiment.progress import Progress
from pagelab.linux import layout, manager, series
from pagelab.linux.layout import Layout
from pagelab.linux.process import capture

# Folder into which the series puts the arithmetic of FolioMap with its bench in user space.
_FOLIOMAP = Path("tools/testing/foliomap")


def lines(first_patch: str) -> Case:
    """Files and lines of each memory file system, and of the patches that let them be."""
    where = layout.find()
    found = content.of([where.linux / "modules", *_series(where)])
    task = {"count": "lines", "first_patch": first_patch}
    return Case("checkout", "lines of memory file systems", task, [task, found])


def folio_bytes() -> Case:
    """Bytes that track a large folio's mappings, as the kernel's arithmetic has it.

    Raises PagelabError when there is no kernel tree.
    """
    where = layout.find()
    folder = where.tree / _FOLIOMAP
    if not folder.is_dir():
        raise PagelabError(f"there is no {folder}: run `pagelab linux build` first")
    task = {"count": "folio bytes"}
    found = content.of(_series(where))
    return Case("checkout", "bytes a folio", task, [task, found], alone=True)


def _series(where: Layout) -> list[Path]:
    return [where.patches, where.linux / "source"]


def run(task: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Counts by name."""
    where = layout.find()
    try:
        if task["count"] == "lines":
            return _lines(where, task["first_patch"])
        return _folio_bytes(where)
    except PagelabError as error:
        raise RunError(str(error)) from error


def _lines(where: Layout, first_patch: str) -> dict[str, Any]:
    modules = where.linux / "modules"
    found = {name: count(modules / name) for name in [*manager.names(where), manager.LIBRARY]}
    ours = [
        patch
        for patch in series.read(where)
        if "fbmm" in patch.path.name or patch.path.name == first_patch
    ]
    hooks = changed("\n".join(patch.path.read_text() for patch in ours))
    new = [patch.file(name) for patch in ours for name in patch.adds]
    kernel = {"files": hooks["files"] + len(new), "lines": hooks["lines"] + sum(map(_length, new))}
    return found | {"kernel": kernel}


def count(folder: Path) -> dict[str, int]:
    """Files and lines of a module, without its tests."""
    sources = [
        path
        for path in folder.iterdir()
        # Tests are no part of what the paper counts.
        if path.suffix in (".c", ".h") and not path.stem.endswith("_kunit")
    ]
    return {"files": len(sources), "lines": sum(map(_length, sources))}


def _length(path: Path) -> int:
    return len(path.read_text().splitlines())


def changed(patches: str) -> dict[str, int]:
    """Files that patches touch, and the lines they add."""
    every = patches.splitlines()
    touched = {line.split()[1] for line in every if line.startswith("+++ b/")}
    added = [line for line in every if line.startswith("+") and not line.startswith("+++ ")]
    return {"files": len(touched), "lines": len(added)}


def _folio_bytes(where: Layout) -> dict[str, Any]:
    folder = where.tree / _FOLIOMAP
    capture(["make", "-s", "-C", folder, "bench"])
    printed = capture([folder / "bench", "memory"])
    found = re.findall(
        r"^order (\d+): linux (\d+) foliomap (\d+) paper (\d+)$", printed, re.MULTILINE
    )
    return {
        f"{4 << int(order)} KB": dict(
            zip(("Linux", "FolioMap", "paper"), map(int, sizes), strict=True)
        )
        for order, *sizes in found
    }
