#!/usr/bin/env python3
"""The tables of docs/accuracy.md, made from docs/accuracy.csv.

    pagelab validate --suite --json > zen4.json
    scripts/accuracy_table.py "Zen 4" zen4.json

puts that run in the place of the machine's last one. Values are percents, rounded: how far the time
of an access is off, and what 2 MB pages change, measured and predicted. The row of the program
`all` has how many directions and sizes of changes were right, and the median of what times are off.
"""

import csv
import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

FILE = Path(__file__).resolve().parents[1] / "docs" / "accuracy.csv"
HEAD = ["machine", "program", "off", "measured", "predicted"]
ALL = "all"
Row = dict[str, str]
Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


def read(file: Path = FILE) -> list[Row]:
    """The rows of the file."""
    with file.open(newline="", encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def percent(share: float | None) -> str:
    """A share as it stands in the file: "" for none."""
    if share is None:
        return ""
    text = f"{share:+.0%}".removesuffix("%")
    return "0" if text in ("+0", "-0") else text


def rows_of(machine: str, result: dict[str, Any]) -> list[Row]:
    """The rows of a run of `pagelab validate`: its programs, and what they come to."""
    rows, offs, signs, judged = [], [], [], []
    for program in result["programs"]:
        times = program["ns_per_access"]
        off = times["predicted"] / times["measured"] - 1 if times["measured"] else None
        change = program["changes"].get("2M")
        measured = change["measured"]["median"] if change and change["measured"] else None
        predicted = change["predicted"] if measured is not None else None
        values = [percent(share) for share in (off, measured, predicted)]
        rows.append(dict(zip(HEAD, [machine, program["name"], *values], strict=True)))
        offs += [abs(off)] if off is not None else []
        if change:
            signs += [change["direction_right"]] if change["direction_right"] is not None else []
            judged += [change["verdict"]] if change["verdict"] in ("near", "far") else []
    near = f"{judged.count('near')} of {len(judged)}"
    values = [percent(median(offs)) if offs else "", f"{sum(signs)} of {len(signs)}", near]
    return [*rows, dict(zip(HEAD, [machine, ALL, *values], strict=True))]


def put(rows: list[Row], new: list[Row]) -> list[Row]:
    """The rows with those of one machine in the place of its old ones, or at the end."""
    machine = new[0]["machine"]
    old = [place for place, row in enumerate(rows) if row["machine"] == machine]
    at = old[0] if old else len(rows)
    before = [row for row in rows[:at] if row["machine"] != machine]
    return [*before, *new, *(row for row in rows[at:] if row["machine"] != machine)]


def table(name: str, rows: list[Row]) -> Table:
    """A table of the page: `summary`, `times` or `changes`."""
    machines = list(dict.fromkeys(row["machine"] for row in rows))
    at = {(row["program"], row["machine"]): row for row in rows}
    if name == "summary":
        lines = [
            ("direction of the change by huge pages right", "measured", ""),
            ("change near, of those with a verdict", "predicted", ""),
            ("time of an access off, median", "off", " %"),
        ]
        alls = [at[ALL, machine] for machine in machines]
        said = [
            (text, *(all_[key].lstrip("+") + unit for all_ in alls)) for text, key, unit in lines
        ]
        return ("", *machines), said
    programs = [one for one in dict.fromkeys(row["program"] for row in rows) if one != ALL]
    keys = ("off",) if name == "times" else ("measured", "predicted")

    def cell(row: Row | None) -> str:
        values = [row[key] for key in keys] if row else [""]
        return ", ".join(values) + " %" if values[0] else ""

    lines_ = [(one, *(cell(at.get((one, machine))) for machine in machines)) for one in programs]
    return ("program", *machines), lines_


def main(arguments: list[str]) -> int:
    """The exit status."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    machine, result = arguments
    rows = put(read(), rows_of(machine, json.loads(Path(result).read_text(encoding="utf-8"))))
    with FILE.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, HEAD, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
