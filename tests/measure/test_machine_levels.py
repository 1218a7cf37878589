"""The cache levels of a machine of a measurement."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from measurements import KIB, RECORDED
from pagelab import _core
from pagelab.measuring import machine, result
from pagelab.measuring.findings import findings
from pagelab.measuring.result import Measurement


def shared(lines: tuple[int, int, int], others: tuple[float, float, float], why: str | None) -> Any:
    """A last level as loads at random find it: least, most likely and most of both."""
    level = {"lines": lines[1], "lines_low": lines[0], "lines_high": lines[2], "misfit": 0.04}
    level |= {"others": others[1], "others_low": others[0], "others_high": others[2]}
    return {"walkers": {}, "level": level | {"no_conclusion": why}}


MIB = 1024 * KIB


@pytest.mark.parametrize(
    ("at_random", "mib", "others", "noted"),
    [
        # Laps of a chain found 3 MiB; what others bring in is outside of what is nothing.
        (shared((15 * MIB, 20 * MIB, 26 * MIB), (0.8, 1.2, 1.5), None), 20, 1.2, False),
        (shared((15 * MIB, 20 * MIB, 26 * MIB), (0.0, 0.1, 0.2), None), 20, None, False),
        # The interval holds what the chain found, which was no conclusion.
        (shared((2 * MIB, 4 * MIB, 6 * MIB), (0.8, 1.2, 1.5), None), 4, 1.2, False),
        (shared((2 * MIB, 9 * MIB, 90 * MIB), (0.0, 1.2, 9.5), "2 to 90 MiB"), 3, None, True),
        (None, 3, None, True),
    ],
)
def test_a_last_level_that_others_use_is_what_loads_at_random_find(
    at_random: Any,
    mib: int,
    others: float | None,
    noted: bool,
    zen4_guest: Measurement,
    tmp_path: Path,
) -> None:
    zen4_guest.parts["caches"]["at_random"] = at_random
    file = tmp_path / "here.toml"
    made = machine.write(zen4_guest, "here", file)
    caches = json.loads(_core.machine(str(file), []))["caches"]
    assert caches["llc"]["kib"] == pytest.approx(mib * 1024, rel=0.1)
    assert (caches.get("others") or {}).get("gigabytes_per_second") == others
    assert any(note.startswith("caches.llc") for note in made.notes) == noted
    assert any(note.startswith("caches.others") for note in made.notes) == noted
    rows = {row.what: row for row in findings(zen4_guest)}
    row = rows.get("last level, by loads at random")
    assert (row is None) == (at_random is None)
    if row and noted:
        assert (row.value, row.note) == ("no conclusion", "2 to 90 MiB")
    elif row:
        assert row.number == mib << 20


def longer(low: float, high: float) -> Any:
    """An estimate as the probe writes it."""
    return {"low": low, "median": (low + high) / 2, "high": high, "samples": 15}


@pytest.mark.parametrize(
    ("longer_than_l1", "level", "status"),
    [
        # Of the guest's levels, the second takes some 3.5 ns and the last some 13.
        (longer(2.2, 3.4), "l2", "measured"),
        (longer(10.0, 14.0), "llc", "measured"),
        (longer(80.0, 120.0), "memory", "measured"),
        (longer(2.0, 90.0), "l2", "open"),
        (None, "l2", "open"),
    ],
)
def test_a_filled_page_is_in_the_level_that_takes_as_long(
    longer_than_l1: Any, level: str, status: str, zen4_guest: Measurement, tmp_path: Path
) -> None:
    zen4_guest.parts["faults"]["filled_page"] = {"longer_than_l1_ns": longer_than_l1}
    file = tmp_path / "here.toml"
    made = machine.write(zen4_guest, "here", file)
    caches = json.loads(_core.machine(str(file), []))["caches"]
    assert caches.get("filled_pages", "memory") == level
    [value] = [v for v in made.as_json()["values"] if v["key"] == "caches.filled_pages"]
    assert value["status"] == status


def test_a_measurement_from_before_pages_were_looked_at_has_the_presets_level(
    zen4_guest: Measurement,
) -> None:
    zen4_guest.parts["faults"].pop("filled_page", None)
    made = machine.preset(zen4_guest, "here")
    assert "filled_pages" not in tomllib.loads(made.toml())["caches"]
    assert any(note.startswith("caches.filled_pages") for note in made.notes)


@pytest.mark.parametrize(("last", "ways"), [(6, 12), (12, 12), (16, 16)])
def test_the_first_level_has_no_fewer_ways_for_want_of_tlb_ways(
    last: int, ways: int, zen4_guest: Measurement
) -> None:
    """Small pieces of huge pages fall into one set of the TLB, whose ways are fewer."""
    caches = zen4_guest.parts["caches"]
    caches["claimed"][0] |= {"ways": 12, "size": 48 << 10}
    found = {"level": 1, "ways": {"last_below": last, "confidence": 1.0}}
    caches["associativity"] = {"levels": [found]}
    table = tomllib.loads(machine.preset(zen4_guest, "here").toml())
    assert table["caches"]["l1"]["ways"] == ways


def test_a_level_that_explains_loads_at_random_is_taken_where_nothing_is_concluded(
    zen4_guest: Measurement,
) -> None:
    hide_last_level(zen4_guest)
    raw = zen4_guest.parts["caches"]
    level = {
        "lines": 98_304,
        "lines_low": 70_000,
        "lines_high": 200_000,
        "others": 1.0,
        "others_low": 0.5,
        "others_high": 3.0,
        "misfit": 0.05,
        "no_conclusion": "4.3 to 12.2 MiB explain the curves",
    }
    raw["at_random"] = {"walkers": {}, "level": level}
    without = tomllib.loads(machine.preset(zen4_guest, "here").toml())["caches"]
    level["explains"] = True
    made = machine.preset(zen4_guest, "here")
    found = tomllib.loads(made.toml())["caches"]
    assert found["llc"]["kib"] == 6144 != without["llc"]["kib"]
    # Only with those who use it, too; both are said to be open.
    assert found["others"] == {"gigabytes_per_second": 1.0}
    for key in ("caches.llc", "caches.others"):
        assert any(note.startswith(key) for note in made.notes)


def hide_last_level(here: Measurement) -> None:
    """A step from the second level to memory."""
    lines = here.parts["caches"]["lines"]
    del lines["plateaus"][2]
    above = lines["plateaus"][2]
    step = lines["steps"][1] | {"after": above["first"], "high": above["level"], "nominal": None}
    lines["steps"] = [lines["steps"][0], step | {"fit": None, "no_conclusion": "two shapes"}]


def test_a_last_level_without_a_plateau_makes_the_one_before_no_larger(
    zen4_guest: Measurement,
) -> None:
    second, last, _ = zen4_guest.parts["caches"]["lines"]["plateaus"][1:]
    hide_last_level(zen4_guest)
    caches = tomllib.loads(machine.preset(zen4_guest, "here").toml())["caches"]
    assert second["last"] * 64 <= caches["l2"]["kib"] << 10 <= last["first"] * 64
    assert caches["llc"]["cycles"] == pytest.approx(caches["l1"]["cycles"] / 0.9 * 13, rel=0.2)


def test_memory_in_two_pieces_is_no_level(zen4_guest: Measurement) -> None:
    caches = zen4_guest.parts["caches"]
    caches["flushed_ns"] = {"median": 163.0, "low": 162.0, "high": 165.5, "samples": 200}
    hide_last_level(zen4_guest)
    whole = tomllib.loads(machine.preset(zen4_guest, "here").toml())["caches"]
    memory = caches["lines"]["plateaus"].pop()
    between = next(x for x in caches["lines"]["curve"]["x"] if x > 2 * memory["first"])
    before = memory | {"last": between, "level": 0.85 * memory["level"]}
    after = memory | {"first": between + 1, "last": memory["last"] * 3 // 4}
    caches["lines"]["plateaus"] += [before, after]
    assert tomllib.loads(machine.preset(zen4_guest, "here").toml())["caches"] == whole


def test_a_last_level_with_an_edge_is_as_large_as_that(zen4_guest: Measurement) -> None:
    """A chain tells the size of a level that is one's own more exactly."""
    claims = zen4_guest.parts["caches"]["claimed"]
    claims[-1]["size"] = 3 << 20
    level = shared((2 * MIB, 5 * MIB, 6 * MIB), (0.0, 0.01, 0.2), None)
    zen4_guest.parts["caches"]["at_random"] = level
    table = tomllib.loads(machine.preset(zen4_guest, "here").toml())
    assert table["caches"]["llc"]["kib"] == pytest.approx(3072, rel=0.1)


def test_a_guest_that_shares_two_cores_with_twenty_programs_gets_what_is_left_to_it() -> None:
    """Measured at a load of 20: nothing of 260 MiB of last level, half of the second."""
    busy = result.load(RECORDED.parent / "golden-cove-guest-busy.json")
    made = machine.preset(busy, "here")
    table = tomllib.loads(made.toml())
    caches = [table["caches"][key] for key in ("l1", "l2", "llc")]
    assert [cache["kib"] for cache in caches] == [48, 1248, 2048]
    cycles = [cache["cycles"] for cache in caches]
    assert cycles == sorted(set(cycles))
    # What is beyond them takes what the curve says, 137 ns, less its share of walks.
    ghz = table["core"]["ghz"]
    assert 130 < cycles[2] / ghz + table["dram"]["latency_ns"] < 138
    # As Intel has them; the busy machine's chains side by side say 19 and 15.
    assert table["core"] | {"ghz": 0} == {
        "ghz": 0,
        "width": 6,
        "reorder_buffer": 512,
        "execution": {"arithmetic": {}},
        "store_buffer": 112,
        "miss_buffers": 16,
        "walkers": 4,
    }
    assert table["tlb"]["l2_4k"] == {"entries": 2048, "ways": 16}
    assert table["nested"]["host_thp"] is False
    assert any(note.startswith("caches.llc") for note in made.notes)


def test_a_guest_of_480_mib_of_last_level_that_others_use_has_what_the_curve_shows() -> None:
    """Plateaus of 1.39, 4.46, 36.6 and 143 ns, the last of which rises to 159 at 1 GiB."""
    shared = result.load(RECORDED.parent / "golden-cove-guest.json")
    table = tomllib.loads(machine.preset(shared, "here").toml())
    l1, l2, llc = (table["caches"][key] for key in ("l1", "l2", "llc"))
    assert (l1["kib"], l2["kib"]) == (48, 2048)
    # The probe's own fit: sets of 21 ways that evict at random, 246,919 to 296,285 lines.
    assert 246_919 // 16 <= llc["kib"] <= 296_285 // 16
    assert (llc["ways"], llc["replacement"]) == (21, "random")
    ghz = table["core"]["ghz"]
    for cache, ns in ((l1, 1.39), (l2, 4.46), (llc, 36.6)):
        assert abs(cache["cycles"] - ns * ghz) <= 1
    assert 130 < llc["cycles"] / ghz + table["dram"]["latency_ns"] < 144
    # 5.61 ns a mispredicted branch, at the clock of the multiplications.
    assert table["core"]["misprediction"] == round(5.61 * ghz)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_latencies_rise_whatever_plateau_is_missing(
    zen4_guest: Measurement, missing: int, tmp_path: Path
) -> None:
    del zen4_guest.parts["caches"]["lines"]["plateaus"][missing]
    file = tmp_path / "here.toml"
    machine.write(zen4_guest, "here", file)
    caches = json.loads(_core.machine(str(file), []))["caches"]
    cycles = [caches[key]["cycles"] for key in ("l1", "l2", "llc")]
    sizes = [caches[key]["kib"] for key in ("l1", "l2", "llc")]
    assert cycles == sorted(set(cycles))
    assert sizes == sorted(set(sizes))
