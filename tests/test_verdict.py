"""The sentence on top of the report says what the numbers say."""

import copy
import re
from typing import Any

import canned
from pagelab.results import Comparison
from pagelab.verdict import verdict


def _with_cycles(**parts_by_design: dict[str, int]) -> Comparison:
    """A comparison whose designs took these cycles."""
    raw = canned.comparison(*parts_by_design)
    for run in raw["runs"]:
        parts = parts_by_design[run["design"]]
        total = sum(parts.values())
        run["cycles"] = {"frequency_hz": 1e9, "elapsed": total, "total": total, **parts}
    return Comparison.model_validate(raw)


def _parts(translation: int, **others: int) -> dict[str, int]:
    return {
        "compute": 600,
        "data": 300,
        "translation": translation,
        "faults": 0,
        "migrations": 0,
    } | others


def test_the_gain_is_the_ratio_of_the_times() -> None:
    text = str(verdict(_with_cycles(radix=_parts(300), dpt=_parts(100), ideal=_parts(0))))
    # 1200 cycles against 1000 and against 900.
    assert "dpt would make this program 20 % faster than radix" in text
    assert "Time in address translation falls from 25.0 % to 8.3 % of radix's time" in text
    assert "would gain 33.3 %" in text


def test_no_difference_is_said_to_be_none() -> None:
    text = str(verdict(_with_cycles(radix=_parts(2), dpt=_parts(1), ideal=_parts(0))))
    assert "dpt would run this program as fast as radix does, within 0.5 %" in text
    assert "Even free translation would gain only 0.2 %" in text
    assert "faster than" not in text


def test_a_worse_design_is_said_to_be_worse_and_why() -> None:
    text = str(verdict(_with_cycles(radix=_parts(100), dpt=_parts(100, migrations=250))))
    assert "radix serves this program best" in text
    # 1000 cycles against 1250: the program runs at 80 % of its speed.
    assert "20 % slower" in text
    assert "Time moving pages rises from 0.0 % to 25.0 %" in text


def test_ideal_is_a_bound_and_never_the_recommendation() -> None:
    text = str(verdict(_with_cycles(radix=_parts(300), ideal=_parts(0))))
    assert "ideal would make" not in text
    assert "25.0 % of its time on address translation" in text


def test_stopped_runs_are_compared_over_what_both_have_run() -> None:
    raw = canned.comparison("radix", "dpt")
    whole = Comparison.model_validate(raw)
    half: dict[str, Any] = copy.deepcopy(raw)
    run = half["runs"][1]
    run["complete"], run["stopped"] = False, "interrupted"
    for key in ("instructions", "accesses", "loads", "stores"):
        run[key] //= 2
    for key in ("elapsed", "total", "compute", "data", "translation", "faults", "migrations"):
        run["cycles"][key] //= 2
    run["timeline"] = [p for p in run["timeline"] if p["instructions"] <= run["instructions"]]
    stopped = Comparison.model_validate(half)
    assert abs(stopped.speedup(stopped.runs[1]) - whole.speedup(whole.runs[1])) < 1e-6
    assert "was stopped early; this speaks of the first 100 M accesses" in str(verdict(stopped))


def test_a_design_that_failed_is_not_recommended() -> None:
    raw = canned.comparison("radix", "radix5", "dpt")
    raw["runs"][2] |= {"complete": False, "stopped": "the page table has no place"}
    result = verdict(Comparison.model_validate(raw))
    assert "dpt" not in result.headline
    assert "dpt ended after 200 M accesses: the page table has no place." in result.caveats


def test_a_partial_recording_and_a_failed_design_are_mentioned() -> None:
    raw = canned.comparison("radix", "dpt")
    raw["recording"]["limited"] = True
    raw["failures"] = [{"design": "radix5", "error": "memory ran out"}]
    caveats = verdict(Comparison.model_validate(raw)).caveats
    assert any("Only part of the program was recorded (200 M accesses)" in c for c in caveats)
    assert "radix5 has no result: memory ran out." in caveats
    assert not any(re.search("stopped early", c) for c in caveats)
