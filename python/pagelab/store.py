"""The result directory: result.json, result.parquet and report.html."""

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from pagelab import report
from pagelab.errors import PagelabError
from pagelab.results import Comparison, Run


def directory(out: Path | None, name: str) -> Path:
    """Makes the directory: `out`, or a new one under pagelab-results/.

    Raises PagelabError when it cannot be made or written to.
    """
    if out is None:
        stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
        stem = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "result"
        base = Path("pagelab-results") / f"{stem}-{stamp}"
        out = base
        for number in range(2, 1000):
            if not out.exists():
                break
            out = base.with_name(f"{base.name}-{number}")
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / ".pagelab-probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise PagelabError(f"cannot write results to {out}: {error.strerror}") from error
    return out


def save(comparison: Comparison, out: Path) -> Path:
    """Writes the three files into `out` and returns the report's path.

    Raises PagelabError naming the file that could not be written.
    """
    text = comparison.model_dump_json(by_alias=True)
    page = out / "report.html"
    for file, write in (
        (out / "result.json", lambda path: path.write_text(text + "\n", encoding="utf-8")),
        (out / "result.parquet", lambda path: write_parquet(comparison.runs, path)),
        (page, lambda path: report.write(comparison, path)),
    ):
        try:
            write(file)
        except OSError as error:
            reason = error.strerror or str(error)
            raise PagelabError(f"cannot write {file}: {reason}") from error
    return page


def write_parquet(runs: list[Run], path: Path) -> None:
    """One row a run; nested fields become columns with dotted names, lists stay lists."""
    rows = [_flat(run.model_dump(by_alias=True, mode="json")) for run in runs]
    columns = dict.fromkeys(key for row in rows for key in row)
    table = pyarrow.table({key: _column([row.get(key) for row in rows]) for key in columns})
    pyarrow.parquet.write_table(table, path, compression="zstd")


def _column(values: list[Any]) -> pyarrow.Array:
    try:
        return pyarrow.array(values)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
        # Runs of different designs may give one name to values of different types.
        return pyarrow.array([None if value is None else str(value) for value in values])


def _flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, dict):
            flat |= _flat(item, f"{prefix}{key}.")
        else:
            flat[prefix + key] = item
    return flat
