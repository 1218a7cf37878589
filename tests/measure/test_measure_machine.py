"""Machine presets from measurements, and the chain in the simulator."""

import json
import math
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import pagelab
from pagelab import _core
from pagelab.errors import PagelabError
from pagelab.measuring import cores, levels, machine, result, validate
from pagelab.measuring.entry import BASE
from pagelab.measuring.findings import findings
from pagelab.measuring.result import Beside, Estimate, Measurement, SharedLevel

RECORDED = Path(__file__).parent / "data" / "zen5-guest.json"


@pytest.fixture(scope="module")
def measurement() -> Measurement:
    return result.load(RECORDED)


def test_the_preset_is_one_the_simulator_takes(measurement: Measurement, tmp_path: Path) -> None:
    file = tmp_path / "here.toml"
    machine.write(measurement, "here", file)
    loaded = json.loads(_core.machine(str(file), []))
    assert loaded["name"] == "here"
    assert loaded["tlb"]["l1_4k"]["entries"] == 96
    # As AMD documents Zen 5; the guest's CPUID says 128.
    assert loaded["tlb"]["l2_4k"] == {"entries": 4096, "ways": 16}
    assert loaded["caches"]["l1"]["kib"] == 48


def test_the_instruction_side_is_as_the_system_claims(
    measurement: Measurement, tmp_path: Path
) -> None:
    file = tmp_path / "here.toml"
    # Measured before the claims were kept: as the base preset has it.
    machine.write(measurement, "here", file)
    base = json.loads(_core.machine("skylake-sp", []))["fetch"]
    assert json.loads(_core.machine(str(file), []))["fetch"] == base
    parts = json.loads(json.dumps(measurement.parts))
    cache = {"level": 1, "kind": "Instruction", "size": 32 << 10, "ways": 8, "line": 64}
    parts["caches"]["claimed_code"] = [cache]
    parts["tlb"]["claimed_code"] = [{"level": 1, "pages": "4K", "entries": 64, "ways": 0}]
    machine.write(measurement.model_copy(update={"parts": parts}), "here", file)
    assert json.loads(_core.machine(str(file), []))["fetch"] == {
        "tlb": {"entries": 64, "ways": 64},
        "l1": {"kib": 32, "ways": 8},
        "next_lines": 1,
    }
    assert "fetch" not in json.loads(_core.machine(str(file), ["fetch=none"]))


@pytest.mark.parametrize(
    ("factors", "arrays"),
    [
        ((4, 4), ("coalesce = 4", "coalesce = 4")),
        ((8, 1), ("coalesce = 8", None)),
        # Between 1 and 4 there is none.
        ((2, 4), (None, "coalesce = 4")),
        ((1, None), (None, None)),
    ],
)
def test_entries_that_cover_several_pages_are_in_the_preset(
    factors: tuple[int, int | None],
    arrays: tuple[str | None, str | None],
    measurement: Measurement,
    tmp_path: Path,
) -> None:
    """The chain over contiguous pages as it is where an entry covers so many of them."""
    parts = json.loads(json.dumps(measurement.parts))
    steps = zip(parts["tlb"]["contiguous"]["steps"], parts["tlb"]["small"]["steps"], strict=True)
    for factor, (contiguous, small) in zip(factors, steps, strict=True):
        if factor is not None:
            contiguous |= {"nominal": factor * small["nominal"], "no_conclusion": None}
    changed = measurement.model_copy(update={"parts": parts})
    made = machine.preset(changed, "here")
    values = {value["key"]: value for value in made.as_json()["values"]}
    for factor, key, expected in zip(factors, ("tlb.l1_4k", "tlb.l2_4k"), arrays, strict=True):
        assert ("coalesce" in values[key]["value"]) == (expected is not None)
        assert expected is None or expected in values[key]["value"]
        assert ("not concluded" in values[key]["source"]) == (factor in (2, None))
    machine.write(changed, "here", tmp_path / "here.toml")
    tlb = json.loads(_core.machine(str(tmp_path / "here.toml"), []))["tlb"]
    assert tlb["l1_4k"].get("coalesce", 1) == (factors[0] if arrays[0] else 1)


def test_the_preset_says_where_each_value_is_from(measurement: Measurement) -> None:
    text = machine.preset(measurement, "here").toml()
    lines = [line for line in text.splitlines() if " = " in line and "#" not in line]
    assert [line.split(" = ")[0] for line in lines] == ["base", "name", "description"]
    assert tomllib.loads(text)["base"] == BASE


def test_a_guest_on_small_host_pages_has_the_nested_design(measurement: Measurement) -> None:
    made = machine.preset(measurement, "here")
    assert made.design == "nested-radix"
    assert tomllib.loads(made.toml())["nested"]["host_thp"] is False
    native = measurement.model_copy(
        update={"environment": measurement.environment.model_copy(update={"hypervisor": None})}
    )
    assert machine.preset(native, "here").design == "radix"
    assert "nested" not in tomllib.loads(machine.preset(native, "here").toml())


def test_memory_is_as_scattered_as_it_was_found(measurement: Measurement, tmp_path: Path) -> None:
    lists = [9514, 11213, 3493, 3037, 1863, 1173, 1092, 538, 151, 0, 2151]
    here = measurement.environment.model_copy(
        update={"memory": 25276502016, "available": 23940669440, "free_blocks": lists}
    )
    file = tmp_path / "here.toml"
    machine.write(measurement.model_copy(update={"environment": here}), "here", file)
    memory = json.loads(_core.machine(str(file), []))["memory"]
    assert memory["memory_bytes"] == 24 << 30
    assert memory["free_blocks"][:-1] == lists[:-1]
    bytes_free = sum(count * 4096 << order for order, count in enumerate(memory["free_blocks"]))
    # All that is available, to a block of the largest order.
    assert 0 <= 23940669440 - bytes_free < 4 << 20
    # The kernel tells nobody: the memory is as the base preset has it.
    assert "free_blocks" not in tomllib.loads(machine.preset(measurement, "here").toml())["memory"]


@pytest.mark.parametrize("lists", [[300_000, 0, 10, 0, 5], [50] * 9 + [700, 5]])
@pytest.mark.parametrize("available", [0, 24 << 30, 1 << 40])
def test_free_memory_is_no_more_than_there_is(
    measurement: Measurement, lists: list[int], available: int
) -> None:
    here = measurement.environment.model_copy(
        update={"memory": 8 << 30, "available": available, "free_blocks": lists}
    )
    free = machine.free_blocks(here)
    assert free[:-1] == lists[:-1]
    small = sum(count * 4096 << order for order, count in enumerate(free[:-1]))
    assert 2 * small + free[-1] * (4096 << len(free) - 1) <= machine.total(here)


@pytest.mark.parametrize(
    ("in_order", "model", "expected", "strides"),
    [
        # Sapphire Rapids.
        (6.9, 143, {"adjacent": True, "streams": 32, "ahead": 20, "busy": 0.5}, 1),
        # Not known: nine of 6.9 ns are under way while one takes 58.9, eight ahead of one.
        (6.9, 9999, {"adjacent": False, "streams": 32, "ahead": 8, "busy": 1.0}, 0),
        # A page's end.
        (0.5, 9999, {"adjacent": False, "streams": 32, "ahead": 63, "busy": 1.0}, 0),
        # Switched off.
        (55.0, 143, {"adjacent": False, "streams": 0, "ahead": 0, "busy": 0.5}, 0),
    ],
)
def test_what_is_fetched_ahead_is_the_manufacturers_if_it_is_seen(
    measurement: Measurement,
    in_order: float,
    model: int,
    expected: dict[str, Any],
    strides: int,
    tmp_path: Path,
) -> None:
    found = prefetch(measurement, model, {"x": [64], "ns": [in_order]}, [58.9], tmp_path)
    ahead = found.pop("strides")["ahead"]
    assert found == expected
    assert ahead == strides


# What single lines took on a Zen 3 guest whose memory others used, a sixteenth of them each.
DIFFERENT = [74.0, 87, 91, 97, 101, 103, 111, 116, 125, 136, 150, 170, 188, 210, 251, 366]


@pytest.mark.parametrize("in_order", [7.0, 11.0, 20.0])
@pytest.mark.parametrize("each", [DIFFERENT, [sum(DIFFERENT) / 16] * 16])
def test_lines_in_order_come_as_soon_in_the_simulator_as_they_did(
    in_order: float, each: list[float], zen4_guest: Measurement, tmp_path: Path
) -> None:
    """Also where latencies differ: then more are under way than in_order goes into the mean."""
    mean = sum(each) / 16
    caches = zen4_guest.parts["caches"]
    caches["flushed_ns"] = {"median": mean, "low": mean, "high": mean, "samples": 200}
    caches["flushed_sixteenths_ns"] = each
    bandwidth = {"one_core": {"median": 100.0, "low": 99.0, "high": 101.0, "samples": 9}}
    zen4_guest.parts["memory"] = {"bandwidth": bandwidth}
    curve = {"x": [64], "ns": [in_order]}
    pages: dict[str, list[float]] = {"x": [64], "ns": [30.0]}
    ahead = prefetch(zen4_guest, 9999, curve, [mean], tmp_path, pages_in_random_order=pages)[
        "ahead"
    ]
    alike = math.ceil(mean / in_order) - 1
    assert ahead > 1.3 * alike if each == DIFFERENT else ahead == alike
    lines, base = 400_000, 0x7F0000000000
    text = [f"map,{base:x},{lines * 64}"]
    text += [f"S,{base + at:x},8,0,0" for at in range(0, lines * 64, 4096)]
    text += [f"L,{base + line * 64:x},8,0,1" for line in range(lines)]
    trace = tmp_path / "in-order.csv"
    trace.write_text("\n".join(text) + "\n")
    run = pagelab.simulate(trace, "ideal", machine=str(tmp_path / "here.toml"))
    ns = run.cycles.data / run.cycles.frequency_hz * 1e9 / lines
    assert ns == pytest.approx(in_order, rel=0.1)


@pytest.mark.parametrize(
    ("in_order", "ahead", "longest", "crosses"),
    [
        # A Zen 4's chains in order, of which 17 are under way at strides of 512 to 2,048.
        ([2.8, 7.7, 8.1, 8.5, 9.2, 8.3, 14.2], 16, 4096, True),
        # Seen in pages only.
        ([2.8, 7.7, 8.1, 8.5, 9.2, 8.3, 150.0], 16, 2048, False),
        # By lines only.
        ([2.8, 7.7, 8.1, 140.0, 150.0, 150.0, 150.0], 0, 2048, False),
    ],
)
def test_what_is_fetched_by_stride_is_what_long_strides_show(
    measurement: Measurement,
    in_order: list[float],
    ahead: int,
    longest: int,
    crosses: bool,
    tmp_path: Path,
) -> None:
    curve = {"x": [64 << number for number in range(7)], "ns": in_order}
    random = [124.0, 142.0, 129.0, 144.0, 146.0, 154.0, 169.0]
    strides = prefetch(measurement, 9999, curve, random, tmp_path)["strides"]
    assert strides["ahead"] == ahead
    assert strides["longest"] == longest
    assert strides["crosses_pages"] is crosses


# How often a chain through the 64 lines of a page waits for memory, with so many lines fetched at
# once: what simulated ones do, too (crates/machine/tests/machine/streams.rs).
WAITS = {2: 7, 3: 6, 4: 5, 7: 4}


@pytest.mark.parametrize("at_once", WAITS)
@pytest.mark.parametrize(("in_order", "crosses"), [(2.2, True), (None, False)])
@pytest.mark.parametrize(
    ("strides", "within"),
    [
        # A Zen 4's, of which one at random takes 300 here.
        ([92.0, 221.0, 298.0], 2),
        ([290.0, 290.0, 290.0], 1),
        ([90.0, 100.0, 110.0], 4),
    ],
)
def test_how_a_stream_begins_is_what_pages_at_random_show(
    measurement: Measurement,
    at_once: int,
    in_order: float | None,
    crosses: bool,
    strides: list[float],
    within: int,
    tmp_path: Path,
) -> None:
    raw = measurement.parts["caches"]["lines"]["plateaus"]
    second, random = raw[1]["level"], 300.0
    page = second + WAITS[at_once] * random / 64
    curve = {"x": [64], "ns": [page if in_order is None else in_order]}
    pages = {"x": [64, 128, 192, 256], "ns": [page, *strides]}
    found = prefetch(measurement, 9999, curve, [random], tmp_path, pages_in_random_order=pages)
    assert found.get("within", 63) == within
    assert found.get("at_once", 2) == at_once
    assert found.get("crosses_pages", False) is crosses


def prefetch(
    measurement: Measurement,
    model: int,
    in_order: dict[str, Any],
    random: list[float],
    into: Path,
    **others: dict[str, list[float]],
) -> Any:
    """`caches.prefetch` of an Intel core with such chains."""
    intel = {"vendor": "GenuineIntel", "family": 6, "model": model}
    at_random = {"x": in_order["x"], "ns": random}
    prefetching = {"in_order": in_order, "random": at_random} | others
    memory = measurement.parts.get("memory", {}) | {"prefetching": prefetching}
    file = into / "here.toml"
    changed = measurement.model_copy(
        update={
            "parts": measurement.parts | {"memory": memory},
            "environment": measurement.environment.model_copy(update=intel),
        }
    )
    machine.write(changed, "here", file)
    return json.loads(_core.machine(str(file), []))["caches"]["prefetch"]


def test_a_core_that_a_hypervisor_gives_another_model_is_known_by_its_extensions(
    measurement: Measurement,
) -> None:
    unknown = {"vendor": "GenuineIntel", "family": 6, "model": 167}
    here = measurement.environment.model_copy(update=unknown)
    assert cores.documented(here) is None
    tiles = cores.documented(here.model_copy(update={"extensions": ["amx_tile"]}))
    assert tiles is not None
    assert tiles.name == "Golden Cove"


def test_a_preset_needs_the_chains(measurement: Measurement) -> None:
    without = measurement.model_copy(update={"parts": {}})
    with pytest.raises(PagelabError, match="needs the parts caches and tlb"):
        machine.preset(without, "here")


def curve(steps: list[tuple[int, float]], last: int) -> dict[str, Any]:
    """A curve that is flat at each level up to its size, as the probe writes it."""
    x = [round(16 * 2 ** (i / 8)) for i in range(400) if 16 * 2 ** (i / 8) <= last]

    def level(places: int) -> float:
        return next(ns for size, ns in steps if places <= size)

    ns = [level(places) for places in x]
    firsts = [next(p for p in x if level(p) == ns_of) for _, ns_of in steps]
    lasts = [max(p for p in x if level(p) == ns_of) for _, ns_of in steps]
    plateaus = [
        {"first": first, "last": end, "level": ns_of}
        for first, end, (_, ns_of) in zip(firsts, lasts, steps, strict=True)
    ]
    found = [
        {
            "before": low["last"],
            "after": high["first"],
            "low": low["level"],
            "high": high["level"],
            "confidence": 1.0,
            "fit": None,
            "nominal": None,
            "no_conclusion": "not fitted",
        }
        for low, high in pairwise(plateaus)
    ]
    return {
        "curve": {"x": x, "ns": ns, "low": ns, "high": ns},
        "plateaus": plateaus,
        "steps": found,
    }


KIB = 1024 // levels.LINE


@pytest.fixture
def zen4_guest(measurement: Measurement) -> Measurement:
    """3 MiB of a last level, of which 32 MiB are claimed; no conclusion on the second TLB level."""
    parts = json.loads(json.dumps(measurement.parts))
    shape = [(48 * KIB, 0.9), (1024 * KIB, 3.2), (3072 * KIB, 13.0), (1 << 62, 150.0)]
    parts["caches"]["lines"] = curve(shape, 128 * 1024 * KIB)
    tlb = curve([(72, 3.0), (2900, 4.6), (1 << 62, 25.0)], 50_000)
    fit = {"shape": "random_replacement", "misfit": 0.04, "capacity": 2900}
    tlb["steps"][0] |= {"nominal": 72, "no_conclusion": None}
    tlb["steps"][0]["fit"] = fit | {"capacity": 72, "capacity_low": 72, "capacity_high": 72}
    tlb["steps"][1] |= {"before": 2300, "after": 3900, "nominal": 3072}
    tlb["steps"][1]["fit"] = fit | {"capacity_low": 2648, "capacity_high": 3311}
    parts["tlb"] |= {"small": tlb, "associativity": None}
    parts["tlb"]["claimed"] = [
        {"level": 1, "pages": "4K", "entries": 72, "ways": 0},
        {"level": 2, "pages": "4K", "entries": 3072, "ways": 12},
    ]
    return measurement.model_copy(update={"parts": parts})


def test_a_preset_does_not_contradict_its_measurement(zen4_guest: Measurement) -> None:
    made = machine.preset(zen4_guest, "here")
    table = tomllib.loads(made.toml())
    ghz = table["core"]["ghz"]
    caches = [table["caches"][key] for key in ("l1", "l2", "llc")]
    # What the curve shows at each level, and where each ends, to a point of the sweep.
    for cache, ns in zip(caches, (0.9, 3.2, 13.0), strict=True):
        assert cache["cycles"] == round(ns * ghz)
    assert caches[2]["kib"] == pytest.approx(3072, rel=0.1)
    # Another core's caches are asked through the last level.
    assert table["caches"]["coherence"]["transfer_cycles"] == max(
        round(50.3 * ghz), caches[2]["cycles"] + 1
    )
    eighth_of_a_walk = (25.0 - 4.6) / 8
    assert table["dram"]["latency_ns"] == pytest.approx(150 - 13 - eighth_of_a_walk, abs=0.1)
    assert table["tlb"]["l2_4k"] == {"entries": 3072, "ways": 12}
    assert "32.0 MiB they take 150 ns" in made.toml()
    assert any(note.startswith("caches.llc") for note in made.notes)


def test_a_claim_of_entries_at_which_nearly_everything_misses_is_not_believed(
    zen4_guest: Measurement,
) -> None:
    small = zen4_guest.parts["tlb"]["small"]
    step, points = small["steps"][1], small["curve"]
    missing = 0.9 * step["high"] + 0.1 * step["low"]
    points["ns"] = [
        missing if 2600 < x <= 3072 else ns for x, ns in zip(points["x"], points["ns"], strict=True)
    ]
    table = tomllib.loads(machine.preset(zen4_guest, "here").toml())
    assert table["tlb"]["l2_4k"]["entries"] != 3072


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


@pytest.mark.parametrize(
    ("one", "all_cores", "buffers"),
    [
        # 61 lines of 64 bytes every 141.1 - 3.2 ns are 28.3 GB/s.
        ((28.3, 27.9, 28.8), 55.0, 61),
        # Memory may be what bounds it.
        ((28.3, 27.9, 28.8), 28.5, None),
        ((28.3, 27.9, 28.8), None, None),
        # 12 misses of the first level every 137.9 ns are 5.57 GB/s: nothing is fetched ahead.
        ((5.5, 5.4, 5.6), 11.0, None),
        # Others had the core for a part of the time.
        ((28.3, 15.0, 28.8), 55.0, None),
        (None, 55.0, None),
    ],
)
def test_one_core_reads_as_many_lines_at_a_time_as_its_second_level_has_buffers(
    zen4_guest: Measurement,
    one: tuple[float, float, float] | None,
    all_cores: float | None,
    buffers: int | None,
) -> None:
    flushed = {"median": 141.1, "low": 141.0, "high": 141.2, "samples": 200}
    zen4_guest.parts["caches"]["flushed_ns"] = flushed
    read = {
        of: values and dict(zip(("median", "low", "high"), values, strict=True)) | {"samples": 7}
        for of, values in (("one_core", one), ("all_cores", all_cores and (all_cores,) * 3))
    }
    twelve = {"median": 12.0, "low": 11.9, "high": 12.1, "samples": 11}
    misses = {"beyond_last_level": {"under_way": twelve}}
    zen4_guest.parts["memory"] = {"bandwidth": read, "misses": misses}
    made = machine.preset(zen4_guest, "here")
    assert tomllib.loads(made.toml())["core"].get("l2_miss_buffers") == buffers
    open_keys = [note for note in made.notes if note.startswith("core.l2_miss_buffers")]
    assert len(open_keys) == (buffers is None)


@pytest.mark.parametrize(
    ("instructions", "stores", "share", "buffers"),
    [
        # Zen 4 has 320 and 64: all of them, half of them, and what is neither.
        ([[312, 320]], [[62, 64]], 0, [320, 64]),
        ([[152, 160]], [[30, 32]], 0, [160, 32]),
        ([[200, 208]], [[44, 46]], 0, [202, 44]),
        # Half of them for a part of the time.
        ([[152, 160], [312, 320]], [[30, 32], [62, 64]], 0.3, [320, 64]),
        ([[152, 160], [312, 320]], [[30, 32], [62, 64]], 0.7, [160, 32]),
        (None, None, 0, [320, 64]),
    ],
)
def test_a_core_looks_as_far_ahead_as_its_other_thread_leaves_it(
    zen4_guest: Measurement,
    instructions: list[list[int]] | None,
    stores: list[list[int]] | None,
    share: float,
    buffers: list[int],
) -> None:
    zen4 = {"vendor": "AuthenticAMD", "family": 0x19, "model": 0x11}
    here = zen4_guest.environment.model_copy(update=zen4)
    measured = zen4_guest.model_copy(update={"environment": here})

    def found(steps: list[list[int]] | None) -> dict[str, Any]:
        step = steps and {"smaller": steps[0], "larger": steps[-1], "share_of_smaller": share}
        return {"together_and_apart": step, "x": [], "ns": [], "apart": []}

    measured.parts["window"] = {"additions": found(instructions), "stores": found(stores)}
    table = tomllib.loads(machine.preset(measured, "here").toml())["core"]
    assert [table["reorder_buffer"], table["store_buffer"]] == buffers


def test_memory_takes_what_flushed_lines_take(zen4_guest: Measurement) -> None:
    caches = zen4_guest.parts["caches"]
    caches["flushed_ns"] = {"median": 163.0, "low": 162.0, "high": 165.5, "samples": 200}
    made = machine.preset(zen4_guest, "here").toml()
    assert tomllib.loads(made)["dram"]["latency_ns"] == pytest.approx(163 - 13, abs=0.1)
    assert "flushed lines (162 to 165.5)" in made


def test_latencies_of_memory_differ_as_those_of_single_lines(zen4_guest: Measurement) -> None:
    """Timing each takes 20 ns here, which is in all of them."""
    caches = zen4_guest.parts["caches"]
    caches["flushed_ns"] = {"median": 163.0, "low": 162.0, "high": 165.5, "samples": 200}
    beyond = [100.0] * 8 + [150.0] * 4 + [200.0] * 2 + [300.0] * 2
    caches["flushed_sixteenths_ns"] = [ns + 13 + 20 for ns in beyond]
    table = tomllib.loads(machine.preset(zen4_guest, "here").toml())["dram"]
    mean = sum(beyond) / 16
    assert table["latency_ns"] == pytest.approx(mean, abs=0.1)
    assert table["spread"] == pytest.approx(beyond, abs=0.5)


def test_what_was_found_beside_a_program_is_so_in_the_preset(zen4_guest: Measurement) -> None:
    raw = zen4_guest.parts["caches"]
    raw["flushed_ns"] = {"median": 163.0, "low": 162.0, "high": 165.5, "samples": 200}
    level = SharedLevel(
        lines=131_072,
        lines_low=125_000,
        lines_high=140_000,
        others=0.7,
        others_low=0.5,
        others_high=0.9,
        misfit=0.05,
        no_conclusion=None,
    )
    # Nearer than three quarters of what memory takes in the curve, which is of another minute.
    found = Beside(
        memory_ns=Estimate(median=300.0, low=290.0, high=310.0, samples=9),
        reads=Estimate(median=21.0, low=20.0, high=22.0, samples=9),
        moves=Estimate(median=30.0, low=28.0, high=32.0, samples=9),
        life={
            "written": {
                "first_touch": Estimate(median=2000.0, low=1900.0, high=2100.0, samples=9),
                "unmap": Estimate(median=300.0, low=290.0, high=310.0, samples=9),
            },
            "written_huge": {
                "first_touch": Estimate(median=500.0, low=490.0, high=510.0, samples=9),
                "unmap": Estimate(median=20.0, low=19.0, high=21.0, samples=9),
            },
        },
        level=level,
    )
    then = tomllib.loads(machine.preset(zen4_guest, "here").toml())
    now = tomllib.loads(machine.preset(zen4_guest, "here", found).toml())
    assert now["dram"]["latency_ns"] == pytest.approx(300 - 13, abs=0.2)
    assert now["dram"]["gigabytes_per_second"] == 30.0
    # A fault and a page of zeros, or 512 of these; and the same of an entry and what it gives back.
    cost = now["cost"]
    assert cost["fault_ns"] + cost["zero_4k_ns"] == pytest.approx(2000.0, abs=0.2)
    assert cost["fault_ns"] + 512 * cost["zero_4k_ns"] == pytest.approx(512 * 500.0, rel=0.001)
    assert cost["unmap_ns"] + cost["free_4k_ns"] == pytest.approx(300.0, abs=0.1)
    assert now["caches"]["llc"]["kib"] == pytest.approx(8192, rel=0.01)
    assert now["caches"]["others"] == {"gigabytes_per_second": 0.7}
    for level_of_curve in ("l1", "l2"):
        assert now["caches"][level_of_curve] == then["caches"][level_of_curve]
    # What tells nothing does not take the place of what does.
    poor = level.model_copy(update={"lines": 9_999, "no_conclusion": "the fit leaves 40 %"})
    kept = zen4_guest.beside(found).beside(Beside(level=poor)).shared_level()
    assert kept == level
    # What was not looked at is as it was measured.
    assert tomllib.loads(machine.preset(zen4_guest, "here", Beside()).toml()) == then
    assert raw["flushed_ns"]["median"] == 163.0


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


def test_a_claim_outside_of_the_step_is_not_taken(zen4_guest: Measurement) -> None:
    zen4_guest.parts["tlb"]["claimed"][1]["entries"] = 128
    made = machine.preset(zen4_guest, "here")
    assert 2648 <= tomllib.loads(made.toml())["tlb"]["l2_4k"]["entries"] <= 3311
    [value] = [v for v in made.as_json()["values"] if v["key"] == "tlb.l2_4k"]
    assert value["status"] == "open"
    assert "CPUID's 128" in value["source"]


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


def test_memory_that_the_sweep_did_not_reach_has_no_latency(zen4_guest: Measurement) -> None:
    for claim in zen4_guest.parts["caches"]["claimed"]:
        claim["size"] *= 16
    made = machine.preset(zen4_guest, "here")
    assert "latency_ns" not in tomllib.loads(made.toml()).get("dram", {})
    assert any(note.startswith("dram.latency_ns: memory was not reached") for note in made.notes)


def test_the_simulated_chain_takes_what_the_preset_says() -> None:
    """By hand, for skylake-sp: 5 cycles a hit, 9 more for the second TLB level, at 2.4 GHz."""
    assert validate.simulated_latency(16, "skylake-sp", 1) == pytest.approx(5 / 2.4, rel=0.01)
    second = validate.simulated_latency(256, "skylake-sp", 1)
    assert second == pytest.approx((5 + 9) / 2.4, rel=0.01)


def test_the_chain_has_one_line_in_each_page() -> None:
    places = [validate.offset(i) for i in range(4096)]
    assert [at // validate.PAGE for at in places] == list(range(4096))
    # Every set of a cache with 4,096 sets of 64-byte lines once.
    assert {at // validate.LINE % 4096 for at in places} == set(range(4096))


def test_the_trace_visits_every_page_once_a_lap() -> None:
    lines = validate.trace_text(100, 3, seed=7).splitlines()[1:]
    written, lines = lines[:100], lines[100:]
    assert {line.split(",")[1] for line in written} == {line.split(",")[1] for line in lines}
    assert all(line.startswith("S,") for line in written)
    assert len(lines) == 300
    assert lines[:100] == lines[100:200] == lines[200:]
    assert len(set(lines)) == 100
    assert all(line.endswith(",8,0,1") for line in lines)
