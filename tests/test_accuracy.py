"""The data of docs/accuracy.md, and what `pagelab validate --json` becomes there."""

import csv
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from pagelab.measuring import suite

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
accuracy = pytest.importorskip("accuracy_table")


def program(name: str, off: float, measured: float, predicted: float, near: bool) -> dict[str, Any]:
    """What --json has of a program; NaN stands for what was not measured."""
    known = measured == measured
    return {
        "name": name,
        "ns_per_access": {"measured": 2.0, "predicted": 2.0 * (1 + off)},
        "changes": {
            "2M": {
                "measured": {"median": measured, "low": 0, "high": 0} if known else None,
                "predicted": predicted,
                "direction_right": (measured > 0) == (predicted > 0) if known else None,
                "verdict": ("near" if near else "far") if known else "no verdict: too few rounds",
            }
        },
    }


def test_a_run_becomes_rows_and_their_summary() -> None:
    result = {
        "programs": [
            program("sort", 0.104, 0.2, 0.19, near=True),
            program("stream", -0.3, 0.5, -0.01, near=False),
            program("gcc", -0.004, float("nan"), 0.1, near=False),
        ]
    }
    rows = accuracy.rows_of("Zen 6", result)
    assert [tuple(row.values()) for row in rows] == [
        ("Zen 6", "sort", "+10", "+20", "+19"),
        ("Zen 6", "stream", "-30", "+50", "-1"),
        ("Zen 6", "gcc", "0", "", ""),
        ("Zen 6", "all", "+10", "1 of 2", "1 of 2"),
    ]
    others = [{**row, "machine": name} for name in ("A", "B") for row in rows]
    assert accuracy.put(others, rows) == others + rows
    newer = [{**row, "machine": "A", "off": "+1"} for row in rows]
    assert accuracy.put(others, newer) == newer + others[len(rows) :]
    assert accuracy.table("summary", rows)[1][2] == ("time of an access off, median", "10 %")
    assert accuracy.table("times", rows)[1][2] == ("gcc", "0 %")
    assert accuracy.table("changes", rows)[1] == [
        ("sort", "+20, +19 %"),
        ("stream", "+50, -1 %"),
        ("gcc", ""),
    ]


def test_the_data_are_of_the_suite_and_add_up() -> None:
    rows = accuracy.read()
    assert {row["program"] for row in rows} == {*suite.names(), "all"}
    for machine in {row["machine"] for row in rows}:
        mine = [row for row in rows if row["machine"] == machine]
        offs = [abs(int(row["off"])) for row in mine if row["program"] != "all"]
        [all_] = [row for row in mine if row["program"] == "all"]
        # Of rounded values it may be one off.
        assert abs(median(offs) - int(all_["off"])) <= 1, machine


def test_a_result_is_put_into_the_file(tmp_path: Path) -> None:
    script = tmp_path / "scripts" / "accuracy_table.py"
    script.parent.mkdir()
    script.write_text((ROOT / "scripts" / "accuracy_table.py").read_text(encoding="utf-8"))
    (tmp_path / "docs").mkdir()
    data = tmp_path / "docs" / "accuracy.csv"
    data.write_text((ROOT / "docs" / "accuracy.csv").read_text(encoding="utf-8"))
    before = data.read_text(encoding="utf-8")
    (tmp_path / "new.json").write_text('{"programs": []}')
    command = [sys.executable, str(script), "Zen 6", str(tmp_path / "new.json")]
    subprocess.run(command, check=True, capture_output=True)
    with data.open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file))[-1] == ["Zen 6", "all", "", "0 of 0", "0 of 0"]
    assert data.read_text(encoding="utf-8").startswith(before)
