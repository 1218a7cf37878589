"""The result directory: result.json, result.parquet and report.html.

Arrow and the report are imported where they are used: no command needs them before its end.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from pagelab.errors import PagelabError, UsageError

if TYPE_CHECKING:
    import pyarrow

    from pagelab.results import Comparison


_RESULTS = Path("pagelab-results")

# The smallest result has more bytes.
_LEAST = 1 << 16


def check(out: Path | None) -> None:
    """Raises UsageError where no directory `out` can be made, or none written to; makes nothing.

    For what takes long before there is something to write. None is where results go by default.
    """
    out = out or _RESULTS
    there = next(place for place in (out, *out.absolute().parents) if os.path.lexists(place))
    if not there.is_dir():
        raise UsageError(f"cannot write results to {out}: {there} is no directory")
    try:
        # Permissions do not tell: of /proc, of a disk that is full.
        with tempfile.TemporaryFile(dir=there) as probe:
            probe.write(bytes(_LEAST))
    except OSError as error:
        raise UsageError(
            f"cannot write results to {out}: nothing can be written to {there} ({error.strerror})"
        ) from error


@contextmanager
def nothing_left_of(directory: Path) -> Iterator[None]:
    """Takes an empty directory away again when there is nothing to write into it."""
    try:
        yield
    except BaseException:
        # A second Ctrl-C, too.
        with suppress(OSError):
            directory.rmdir()
            if directory.parent == _RESULTS:
                _RESULTS.rmdir()
        raise


def directory(out: Path | None, name: str) -> Path:
    """Makes the directory: `out`, or a new one under pagelab-results/.

    Raises UsageError when it cannot be made or written to.
    """
    check(out)
    try:
        if out is None:
            out = _new(name)
        else:
            out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write results to {out or _RESULTS}: {error.strerror}") from error
    return out


def _new(name: str) -> Path:
    """A directory that nobody else has, though another command may start in the same second."""
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    stem = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "result"
    _RESULTS.mkdir(exist_ok=True)
    for number in count(1):
        out = _RESULTS / f"{stem}-{stamp}{f'-{number}' if number > 1 else ''}"
        with suppress(FileExistsError):
            out.mkdir()
            return out
    raise AssertionError("there is always another number")


def save(comparison: Comparison, out: Path) -> Path:
    """Writes the three files into `out` and returns the report's path.

    Raises PagelabError naming the file that could not be written.
    """
    from pagelab import report

    text = comparison.model_dump_json(by_alias=True)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PagelabError(f"cannot write results to {out}: {error.strerror}") from error
    page = out / "report.html"
    files: list[tuple[Path, Callable[[Path], object]]] = [
        (out / "result.json", lambda path: path.write_text(text + "\n", encoding="utf-8")),
        (out / "result.parquet", lambda path: write_parquet(comparison.to_arrow(), path)),
        (page, lambda path: report.write(comparison, path)),
    ]
    if any(run.lines for run in comparison.runs):
        lines = comparison.lines_to_arrow()
        files.append((out / "lines.parquet", lambda path: write_parquet(lines, path)))
    for file, write in files:
        _replace(file, write)
    return page


def _replace(file: Path, write: Callable[[Path], object]) -> None:
    """Writes a file whole or not at all: a full disk leaves nothing that looks like a result."""
    part = file.with_name(f".{file.name}.part")
    try:
        try:
            write(part)
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise PagelabError(f"cannot write {file}: {reason}") from error


def write_parquet(table: pyarrow.Table, path: Path) -> None:
    """Writes a table."""
    import pyarrow.parquet

    # Opened here: Arrow takes no names that are not text.
    with path.open("wb") as stream:
        pyarrow.parquet.write_table(table, stream, compression="zstd")
