"""The sentence on top of the report says what the numbers say."""

import copy
import re
from typing import Any

import canned
from pagelab.counts import CYCLE_PARTS
from pagelab.results import Comparison
from pagelab.verdict import verdict


def _with_cycles(**parts_by_design: dict[str, int]) -> Comparison:
    """A comparison whose designs took these cycles; `radix_2M` is radix with 2 MB pages."""
    designs = [name.partition("_")[0] for name in parts_by_design]
    raw = canned.comparison(*designs)
    for run, (name, parts) in zip(raw["runs"], parts_by_design.items(), strict=True):
        run["pages"] = name.partition("_")[2] or "4K"
        total = sum(cycles for part, cycles in parts.items() if part != "recoverable")
        run["cycles"] = {"frequency_hz": 1e9, "elapsed": total, "total": total, **parts}
    return Comparison.model_validate(raw)


def _parts(translation: int, **others: int) -> dict[str, int]:
    return {
        "compute": 600,
        "data": 300,
        "translation": translation,
        "faults": 0,
        "zeroing": 0,
        "migrations": 0,
    } | others


def test_what_a_page_table_saves_is_a_share_of_the_time() -> None:
    text = str(verdict(_with_cycles(radix=_parts(300), dpt=_parts(100), ideal=_parts(0))))
    # 1200 cycles against 1000 and against 900.
    assert "Translation costs this program 25 %; dpt would save 17 %." in text
    assert "Time in address translation falls from 25.0 % to 8.3 % of radix's time" in text
    assert "would gain 33.3 %" in text


def test_page_sizes_are_said_to_save_translation_and_faults_and_to_take_memory() -> None:
    comparison = _with_cycles(
        radix=_parts(24, faults=80, zeroing=30),
        radix_2M=_parts(5, faults=5, zeroing=15),
        ideal=_parts(0, faults=80, zeroing=30),
        ideal_2M=_parts(0, faults=5, zeroing=15),
    )
    radix, large = comparison.runs[:2]
    more = radix.memory * 12 // 100
    os = large.os.model_copy(
        update={"peak_resident_bytes": radix.memory + more, "peak_table_bytes": 0}
    )
    runs = [radix, large.model_copy(update={"os": os}), *comparison.runs[2:]]
    comparison = comparison.model_copy(update={"runs": runs})
    # 1034 cycles against 925; ideal takes 1010 and 920.
    assert verdict(comparison).headline == (
        "Translation costs this program 2.3 %; 2 MB pages would save 1.8 % and take 12 % more "
        "memory; page faults fall from 11 % to 1.9 %; in all it would run 12 % faster."
    )


def test_faults_that_read_the_same_are_not_said_to_fall() -> None:
    # 78.4 % and 77.6 %.
    fewer = _with_cycles(
        radix=_parts(100, faults=3630),
        radix_2M=_parts(5, faults=3595),
        ideal=_parts(0, faults=3630),
        ideal_2M=_parts(0, faults=3595),
    )
    headline = verdict(fewer).headline
    assert "2 MB pages would save 2.1 %" in headline
    assert "page faults" not in headline
    # 80.1 % and 79.5 %, and as much more for walks.
    other = _with_cycles(radix=_parts(2, faults=3640), radix_2M=_parts(30, faults=3612))
    headline = verdict(other).headline
    assert "80 % of the time is page faults and unmapping, as many with every" in headline


def test_a_design_with_other_pages_is_named_with_them() -> None:
    comparison = _with_cycles(radix=_parts(300), dpt=_parts(250), dpt_64K=_parts(100))
    assert "; dpt with 64 KB pages would save 17 %" in verdict(comparison).headline


def test_where_nothing_helps_the_bound_is_said_and_what_takes_the_time() -> None:
    comparison = _with_cycles(
        radix=_parts(29, faults=100, zeroing=30),
        dpt=_parts(29, faults=100, zeroing=30),
        ideal=_parts(0, faults=100, zeroing=30),
    )
    assert verdict(comparison).headline == (
        "No page table would help: even free translation would gain only 2.8 %. 12 % of the "
        "time is page faults and unmapping: --pages 4K,2M shows what larger pages would do about "
        "them."
    )


def test_no_difference_is_said_to_be_none() -> None:
    text = str(verdict(_with_cycles(radix=_parts(2), dpt=_parts(1), ideal=_parts(0))))
    assert text.startswith("No page table would help: even free translation would gain only 0.2 %.")
    assert "page faults" not in text


def test_a_large_bound_is_not_said_to_be_none() -> None:
    headline = verdict(
        _with_cycles(radix=_parts(500), radix_2M=_parts(499), ideal=_parts(0))
    ).headline
    assert "No page size of these would help: 2 MB pages, the best, differs" in headline
    assert "Free translation, the bound for any design, would gain 56 %" in headline


def test_a_worse_design_is_said_to_be_worse_and_why() -> None:
    text = str(verdict(_with_cycles(radix=_parts(100), dpt=_parts(100, migrations=250))))
    assert "radix serves this program best" in text
    # 1000 cycles against 1250: the program runs at 80 % of its speed.
    assert "20 % slower" in text
    assert "Time moving pages rises from 0.0 % to 25.0 %" in text


def test_what_has_not_changed_is_not_called_a_change() -> None:
    raw = _with_cycles(radix=_parts(300), dpt=_parts(100)).model_dump(by_alias=True)
    for run in raw["runs"]:
        run["walks"]["latency"]["mean"] = 47.2
        run["walks"] |= {"count": 1000, "reads": 1710}
    text = str(verdict(Comparison.model_validate(raw)))
    assert (
        "a page walk takes 47 cycles as before and makes 1.71 memory references as before" in text
    )


def test_ideal_is_a_bound_and_never_the_recommendation() -> None:
    text = str(verdict(_with_cycles(radix=_parts(300), ideal=_parts(0))))
    assert "ideal" not in text
    assert "Translation costs this program 25 %." in text


def test_a_bound_that_is_slower_than_what_it_bounds_is_none() -> None:
    comparison = _with_cycles(radix=_parts(300), dpt=_parts(200), ideal=_parts(0, data=900))
    text = str(verdict(comparison))
    # The cycles charged to translation stand for what it costs.
    assert text.startswith("Translation costs this program 25 %; dpt would save 8.3 %.")
    assert "ree translation" not in text
    assert "ideal is slower than dpt, so it is no bound here" in text


def test_a_bound_that_misses_the_caches_more_often_is_none() -> None:
    comparison = _with_cycles(radix=_parts(300), dpt=_parts(200), ideal=_parts(0, data=450))
    assert "would gain 14.3 %" in str(verdict(comparison))
    runs = list(comparison.runs)
    caches = runs[2].caches
    served = caches.data.model_copy(update={"dram": caches.data.dram + runs[0].accesses // 50})
    caches = caches.model_copy(update={"data": served})
    runs[2] = runs[2].model_copy(update={"caches": caches})
    text = str(verdict(comparison.model_copy(update={"runs": runs})))
    assert text.startswith("Translation costs this program 25 %; dpt would save 8.3 %.")
    assert "ree translation" not in text
    assert "ideal has more cache misses than radix, so it is no bound here" in text


def test_what_translation_costs_is_said_also_where_there_is_no_bound() -> None:
    radix, dpt = _parts(300) | {"recoverable": 480}, _parts(400)
    ideal = _parts(0, data=900)
    text = str(verdict(_with_cycles(radix=radix, dpt=dpt, ideal=ideal)))
    # 1300 cycles for 1200.
    assert text.startswith("radix serves this program best: dpt, the next, would make it 7.7 %")
    assert " Translation costs this program 40 %." in text


def test_without_a_bound_the_second_clock_says_what_translation_costs() -> None:
    radix = _parts(300) | {"recoverable": 480}
    dpt = _parts(200) | {"recoverable": 220}
    text = str(verdict(_with_cycles(radix=radix, dpt=dpt)))
    # 480 of 1200 cycles; 220 of 1100, which is 11/12 of the time.
    assert text.startswith("Translation costs this program 40 %; dpt would save 22 %")


def test_each_machine_is_compared_with_its_own_baseline() -> None:
    raw = canned.comparison("radix", "dpt", "radix", "dpt")
    for run in raw["runs"][2:]:
        run["machine"] = {"name": "slow"}
        run["cycles"] = {key: 10 * value for key, value in run["cycles"].items()}
        for point in run["timeline"]:
            point["cycles"] *= 10
    comparison = Comparison.model_validate(raw)
    one, other = comparison.on("dpt-paper"), comparison.on("slow")
    assert one.speedup(one.runs[1]) == comparison.speedup(comparison.runs[1])
    assert comparison.speedup(comparison.runs[3]) == other.speedup(other.runs[1])
    assert abs(comparison.speedup(comparison.runs[3]) - one.speedup(one.runs[1])) < 1e-6
    headline = verdict(comparison).headline
    assert headline.startswith("On dpt-paper: Translation costs")
    assert " On slow: Translation costs" in headline
    labels = [comparison.label(run) for run in comparison.runs]
    assert labels[0] == "radix on dpt-paper"
    assert len(set(labels)) == 4


def test_what_chance_may_have_made_is_no_gain() -> None:
    raw = canned.comparison("radix", "dpt", "ideal")
    cycles = {"radix": (4000, 4400, 4200, 3900), "dpt": (3700, 4600, 4300, 3700)}
    for run in raw["runs"]:
        run["windows"] = [
            canned.window(instructions=1000, accesses=500, cycles=count)
            for count in cycles.get(run["design"], (3600, 3900, 3800, 3500))
        ]
        run["cycles"]["elapsed"] = run["cycles"]["total"] = sum(
            window["cycles"] for window in run["windows"]
        )
        run["cycles"] |= {"faults": 0, "zeroing": 0}
        run["timeline"] = []
    headline = verdict(Comparison.model_validate(raw)).headline
    # 16,500 against 16,300 cycles, which differ in one window as in another direction.
    assert headline.startswith("No page table of these would help: dpt, the best, differs")
    # By hand: residuals of 14, 52, 37 and 2 cycles; t = 3.18 with three degrees of freedom.
    assert headline.endswith("would gain 11 \N{PLUS-MINUS SIGN}2 %.")


def test_stopped_runs_are_compared_over_what_both_have_run() -> None:
    raw = canned.comparison("radix", "dpt")
    whole = Comparison.model_validate(raw)
    half: dict[str, Any] = copy.deepcopy(raw)
    run = half["runs"][1]
    run["complete"], run["stopped"] = False, "interrupted"
    for key in ("instructions", "accesses", "loads", "stores"):
        run[key] //= 2
    for key in ("elapsed", "total", *CYCLE_PARTS):
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
