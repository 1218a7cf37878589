"""The sentence on top of the report says what the numbers say."""

import copy
import re
from typing import Any

import pytest

import canned
from pagelab.counts import CYCLE_PARTS
from pagelab.results import Comparison, Run


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
        "mispredictions": 0,
        "faults": 0,
        "zeroing": 0,
        "migrations": 0,
    } | others


def _headline(comparison: Comparison) -> str:
    return comparison.answer.headline


def test_a_page_table_that_helps_is_said_to_and_why() -> None:
    answer = _with_cycles(radix=_parts(300), dpt=_parts(100), ideal=_parts(0)).answer
    # 1200 cycles against 1000 and against 900.
    assert answer.headline == "Yes: dpt would run this program 20.0 % faster."
    assert "Address translation would take 8.3 % of radix's time instead of 25.0 %." in answer.text
    assert "would gain 33.3 %" in answer.text
    assert answer.advice == []


def test_of_operating_systems_what_differs_most_is_said_first() -> None:
    comparison = _with_cycles(
        radix=_parts(0, faults=100), dpt=_parts(0), radix5=_parts(0, faults=600)
    )
    linux, _, older = comparison.runs
    alike = linux.model_copy(update={"design": "radix:os=foliomap"})
    older = older.model_copy(update={"design": "radix:os=linux-6.12", "os": linux.os})
    answer = comparison.model_copy(update={"runs": [linux, alike, older]}).answer
    # 1000 cycles against 1500.
    assert answer.headline == (
        "Under linux-6.12 this program would run 33.3 % slower than under linux and take as much "
        "memory (3.01 GiB). Under foliomap it would take as long."
    )
    assert answer.reason == (
        "Page faults and unmapping would take 60.0 % of linux's time instead of 10.0 %."
    )
    assert answer.advice == []
    both = comparison.model_copy(
        update={"runs": [linux, linux.model_copy(update={"design": "radix:os=foliomap"})]}
    )
    assert _headline(both) == "Under foliomap this program would take as long as under linux."


def test_another_operating_system_is_not_spoken_of_for_less_than_anybody_notices() -> None:
    comparison = _with_cycles(
        radix=_parts(200), radix_2M=_parts(100), dpt_2M=_parts(97), ideal_2M=_parts(0)
    )
    linux, large, other, _ = comparison.runs
    other = other.model_copy(update={"design": "radix:os=linux-6.12"})
    alike = comparison.model_copy(update={"runs": [linux, large, other]}).answer
    # 1100 cycles against 1000 and 997.
    assert alike.headline.startswith("Yes: 2 MB pages would run this program 10.0 % faster")
    assert alike.advice != []
    cycles = large.cycles.model_copy(update={"elapsed": 1010, "total": 1010})
    slower = large.model_copy(update={"cycles": cycles})
    told = comparison.model_copy(update={"runs": [linux, slower, other]}).answer
    assert told.headline.startswith("Yes: radix:os=linux-6.12 with 2 MB pages would run")


def test_page_sizes_are_said_to_help_with_memory_and_what_to_type() -> None:
    comparison = _with_cycles(
        radix=_parts(24, faults=80, zeroing=30),
        radix_2M=_parts(5, faults=5, zeroing=15),
        ideal=_parts(0, faults=80, zeroing=30),
        ideal_2M=_parts(0, faults=5, zeroing=15),
    )
    radix, large = comparison.runs[:2]
    os = large.os.model_copy(
        update={"peak_resident_bytes": radix.memory + (256 << 20), "peak_table_bytes": 0}
    )
    runs = [radix, large.model_copy(update={"os": os}), *comparison.runs[2:]]
    answer = comparison.model_copy(update={"runs": runs}).answer
    # 1034 cycles against 925.
    assert answer.headline == (
        "Yes: 2 MB pages would run this program 11.8 % faster and take 256 MiB more memory "
        "(3.26 GiB instead of 3.01 GiB)."
    )
    assert answer.reason == (
        "Page faults and unmapping would take 0.5 % of the time with 4K pages instead of 7.7 %, "
        "address translation 0.5 % instead of 2.3 %, zeroing pages 1.5 % instead of 2.9 %."
    )
    [advice] = answer.advice
    assert advice.command == "echo always > /sys/kernel/mm/transparent_hugepage/enabled"


@pytest.mark.parametrize(
    ("pages", "setting", "said", "not_said"),
    [
        ("2M", "madvise", "(it is madvise now)", "already"),
        ("2M", "madvise", "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 sqlite3", "already"),
        ("2M", "never", "(it is never now)", "GLIBC"),
        ("2M", "always", "gives them already", "echo"),
        ("64K", "always", "hugepages-64kB/enabled", "already"),
        ("1G", "always", "MAP_HUGE_1GB", "echo"),
        ("madvise", "always", "gives them already", "echo"),
        ("madvise", "never", "echo madvise", "always"),
    ],
)
def test_what_to_type_is_what_linux_takes(
    pages: str, setting: str, said: str, not_said: str
) -> None:
    comparison = _with_cycles(**{"radix": _parts(300), f"radix_{pages}": _parts(100)})
    answer = comparison.model_copy(update={"host": {"transparent_hugepage": setting}}).answer
    advice = " ".join(map(str, answer.advice))
    assert said in advice
    assert not_said not in advice


def test_a_design_with_other_pages_is_named_with_them_and_cannot_be_typed() -> None:
    comparison = _with_cycles(radix=_parts(300), dpt=_parts(250), dpt_64K=_parts(100))
    assert _headline(comparison).startswith("Yes: dpt with 64 KB pages would run")
    assert comparison.answer.advice == []


def test_where_nothing_helps_the_bound_is_said_and_what_takes_the_time() -> None:
    answer = _with_cycles(
        radix=_parts(29, faults=100, zeroing=30),
        dpt=_parts(29, faults=100, zeroing=30),
        ideal=_parts(0, faults=100, zeroing=30),
    ).answer
    assert answer.headline == "No: dpt would make no difference (0.0 %)."
    assert "Free translation, the bound for any page table with 4K pages, would gain 2.8 %" in (
        answer.reason
    )
    assert "zeroing take 12.3 % of the time: --pages 4K,2M says" in answer.reason


def test_no_difference_is_said_to_be_none() -> None:
    text = _with_cycles(radix=_parts(2), dpt=_parts(1), ideal=_parts(0)).answer.text
    assert text.startswith("No: dpt would make no difference (+0.1 %). Even free translation would")
    assert "page faults" not in text.lower()


def test_what_falls_and_rises_as_much_makes_no_difference() -> None:
    answer = _with_cycles(radix=_parts(2, faults=3640), radix_2M=_parts(30, faults=3612)).answer
    assert answer.headline.startswith("No: 2 MB pages would make no difference (0.0 %)")
    assert "would take 79.5 % of the time with 4K pages instead of 80.1 %" in answer.reason
    assert "address translation 0.7 % instead of 0.0 %" in answer.reason


def test_a_worse_design_is_said_to_be_worse_and_why() -> None:
    answer = _with_cycles(radix=_parts(100), dpt=_parts(100, migrations=250)).answer
    # 1000 cycles against 1250: the program runs at 80 % of its speed.
    assert answer.headline == "No: dpt would run this program 20.0 % slower."
    assert "Moving pages would take 25.0 % of radix's time instead of 0.0 %." in answer.reason


def test_more_than_all_of_the_time_is_no_percentage() -> None:
    answer = _with_cycles(radix=_parts(100), radix_2M=_parts(100, zeroing=23_000)).answer
    assert "Zeroing pages would take 23.0 times all of the time with 4K pages" in answer.reason


def test_of_several_the_best_is_named() -> None:
    comparison = _with_cycles(
        radix=_parts(100), radix_64K=_parts(100, faults=90), radix_2M=_parts(100, faults=200)
    )
    assert _headline(comparison).startswith("No: 64 KB pages, the best of these, would run")


def test_what_has_not_changed_is_not_called_a_change() -> None:
    raw = _with_cycles(radix=_parts(300), dpt=_parts(100)).model_dump(by_alias=True)
    for run in raw["runs"]:
        run["walks"]["latency"]["mean"] = 47.2
        run["walks"] |= {"count": 1000, "reads": 1710}
    assert "page walk" not in Comparison.model_validate(raw).answer.text
    raw["runs"][1]["walks"]["reads"] = 1000
    assert (
        "A page walk takes 47 cycles as before and makes 1.00 memory references instead of 1.71."
    ) in Comparison.model_validate(raw).answer.text


def test_ideal_is_a_bound_and_never_the_recommendation() -> None:
    answer = _with_cycles(radix=_parts(300), ideal=_parts(0)).answer
    assert "ideal" not in answer.text
    assert answer.headline == "Translation costs this program 25.0 % of its time."
    assert answer.decisions[0].effect == "not asked"


def test_a_bound_that_is_slower_than_what_it_bounds_is_none() -> None:
    comparison = _with_cycles(radix=_parts(300), dpt=_parts(200), ideal=_parts(0, data=900))
    text = comparison.answer.text
    assert text.startswith("Yes: dpt would run this program 9.1 % faster.")
    assert "ree translation" not in text
    assert "ideal is slower than dpt, so it is no bound here" in text


def test_a_bound_that_misses_the_caches_more_often_is_none() -> None:
    comparison = _with_cycles(radix=_parts(300), dpt=_parts(200), ideal=_parts(0, data=450))
    assert "would gain 14.3 %" in comparison.answer.text
    runs = list(comparison.runs)
    caches = runs[2].caches
    served = caches.data.model_copy(update={"dram": caches.data.dram + runs[0].accesses // 50})
    caches = caches.model_copy(update={"data": served})
    runs[2] = runs[2].model_copy(update={"caches": caches})
    text = comparison.model_copy(update={"runs": runs}).answer.text
    assert "ree translation" not in text
    assert "ideal has more cache misses than radix, so it is no bound here" in text


def test_without_a_bound_the_second_clock_says_what_translation_costs() -> None:
    radix, dpt = _parts(300) | {"recoverable": 480}, _parts(400)
    ideal = _parts(0, data=900)
    text = _with_cycles(radix=radix, dpt=dpt, ideal=ideal).answer.text
    # 1300 cycles for 1200.
    assert text.startswith("No: dpt would run this program 7.7 % slower.")
    assert " Translation costs 40.0 % of the time." in text


def test_each_machine_is_compared_with_its_own_baseline() -> None:
    raw = canned.comparison("radix", "dpt", "radix", "dpt")
    for run in raw["runs"][2:]:
        run["machine"]["name"] = "slow"
        run["cycles"] = {key: 10 * value for key, value in run["cycles"].items()}
        for point in run["timeline"]:
            point["cycles"] *= 10
    comparison = Comparison.model_validate(raw)
    one, other = comparison.on("dpt-paper"), comparison.on("slow")
    assert one.speedup(one.runs[1]) == comparison.speedup(comparison.runs[1])
    assert comparison.speedup(comparison.runs[3]) == other.speedup(other.runs[1])
    assert abs(comparison.speedup(comparison.runs[3]) - one.speedup(one.runs[1])) < 1e-6
    assert _headline(comparison).startswith("On dpt-paper: Yes: dpt would run")
    assert " On slow: Yes: dpt would run" in _headline(comparison)
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
        parts = dict.fromkeys(("data", "translation", "faults", "zeroing", "migrations"), 0)
        run["cycles"] |= parts | {"compute": run["cycles"]["total"]}
        run["timeline"] = []
    answer = Comparison.model_validate(raw).answer
    # 16,500 against 16,300 cycles, which differ in one window as in another direction.
    assert answer.headline.startswith("That cannot be told from this sample: dpt would change")
    assert answer.decisions[0].effect == "unknown"
    # By hand: residuals of 14, 52, 37 and 2 cycles; t = 3.18 with three degrees of freedom.
    assert "would gain 11.5 \N{PLUS-MINUS SIGN} 1.6 %" in answer.reason


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
    assert "was stopped early; this speaks of the first 100 M accesses" in stopped.answer.text


def test_a_design_that_failed_is_not_recommended() -> None:
    raw = canned.comparison("radix", "radix5", "dpt")
    raw["runs"][2] |= {"complete": False, "stopped": "the page table has no place"}
    result = Comparison.model_validate(raw).answer
    assert "dpt" not in result.headline
    assert "dpt ended after 200 M accesses: the page table has no place." in result.caveats


def test_a_partial_recording_and_a_failed_design_are_mentioned() -> None:
    raw = canned.comparison("radix", "dpt")
    raw["recording"]["limited"] = True
    raw["failures"] = [{"design": "radix5", "error": "memory ran out"}]
    caveats = Comparison.model_validate(raw).answer.caveats
    assert any("Only part of the program was recorded (200 M accesses)" in c for c in caveats)
    assert "radix5 has no result: memory ran out." in caveats
    assert not any(re.search("stopped early", c) for c in caveats)


def test_the_later_half_of_a_sample_is_what_follows_a_long_first_window() -> None:
    raw = canned.run("radix")
    lengths = (9000, 1000, 1000, 1000)
    raw["windows"] = [
        canned.window(instructions=length, accesses=1, cycles=length) for length in lengths
    ]
    assert Run.model_validate(raw).later_cycles == 3000
    raw["windows"][0]["instructions"] = 1000
    assert Run.model_validate(raw).later_cycles == 2000


def test_an_answer_of_simulations_that_were_stopped_is_of_the_beginning() -> None:
    raw = canned.comparison("radix", "radix")
    for run, pages in zip(raw["runs"], ("4K", "2M"), strict=True):
        run |= {"complete": False, "stopped": "interrupted", "pages": pages}
    assert "the beginning of this program" in _headline(Comparison.model_validate(raw))
    raw["runs"].pop()
    assert _headline(Comparison.model_validate(raw)).startswith("Translation costs the beginning")


def _later(first: tuple[int, int], second: tuple[int, int], **recorded: Any) -> Comparison:
    """Cycles with both page sizes in each half of a program's instructions."""
    raw = canned.comparison("radix", "radix")
    for place, run in enumerate(raw["runs"]):
        run["pages"] = ("4K", "2M")[place]
        parts = _parts(0) | {"compute": first[place] + second[place], "data": 0}
        total = first[place] + second[place]
        run["cycles"] = {"frequency_hz": 1e9, "elapsed": total, "total": total, **parts}
        half = {"instructions": run["instructions"] // 2, "cycles": first[place]}
        run["timeline"] = [half | {"resident_bytes": 0, "table_bytes": 0}]
    raw["recording"] = raw["recording"] | recorded
    return Comparison.model_validate(raw)


def test_of_a_program_that_was_ended_the_later_half_is_told_where_it_differs() -> None:
    # 1500 against 1250, of which the second half is 1000 against 950.
    ended = _later((500, 300), (1000, 950), ended_after=120.0)
    assert ended.later_speedup(ended.runs[1]) == pytest.approx(1000 / 950)
    assert ended.answer.headline.startswith(
        "Yes: 2 MB pages would run the beginning of this program 20.0 % faster"
    )
    told = "In the second half of that the change of speed is +5.3 %, which a longer run"
    assert told in ended.answer.reason
    by_itself = _later((500, 300), (1000, 950), limited=False)
    assert "would run this program 20.0 % faster" in by_itself.answer.headline
    assert "second half" not in by_itself.answer.text
    steady = _later((750, 625), (750, 625), ended_after=120.0)
    assert "second half" not in steady.answer.text


def _caveats(recorded: dict[str, Any], host: dict[str, Any], **run: Any) -> str:
    raw = canned.comparison("radix", "radix")
    for one, pages in zip(raw["runs"], ("4K", "2M"), strict=True):
        one |= {"pages": pages} | run
    raw["recording"] |= recorded
    raw["host"] |= host
    return " ".join(Comparison.model_validate(raw).answer.caveats)


def test_a_program_that_failed_is_told() -> None:
    assert "exited with status 3" in _caveats({"exit_status": 3}, {})
    assert "status" not in _caveats({"exit_status": 0}, {})
    # The status of a program that was ended is the signal's.
    assert "status" not in _caveats({"exit_status": 143, "ended_by": 15}, {})


def test_presets_know_no_hypervisor() -> None:
    assert "virtual machine" in _caveats({}, {"hypervisor": True})
    assert "virtual machine" not in _caveats({}, {"hypervisor": False})


def test_a_sample_that_leaves_nothing_out_is_no_pieces() -> None:
    window = {"limited": True, "window": {"sample": "auto"}}
    assert "Pieces" in _caveats(window, {}, skipped_instructions=5)
    assert "Pieces" not in _caveats(window, {}, skipped_instructions=0)


def test_a_heap_that_grows_in_steps_is_told_where_faults_cost() -> None:
    def reason(not_covered: int, faults: int) -> str:
        raw = canned.comparison("radix", "radix")
        blocks = dict.fromkeys(
            ("no_free_block", "not_advised", "unwanted", "forbidden", "file", "shared"), 0
        )
        for one, pages in zip(raw["runs"], ("4K", "2M"), strict=True):
            one["pages"] = pages
            parts = _parts(20, faults=faults)
            total = sum(parts.values())
            one["cycles"] = {"frequency_hz": 1e9, "elapsed": total, "total": total, **parts}
        of_large = raw["runs"][1]["os"]
        of_large["blocks"] = {"given": 3, "not_covered": not_covered, "read_first": 0, **blocks}
        return Comparison.model_validate(raw).answer.reason

    assert "30 blocks of 2 MiB were larger than the mapping" in reason(30, 300)
    assert "larger than the mapping" not in reason(3, 300)
    assert "larger than the mapping" not in reason(30, 10)
