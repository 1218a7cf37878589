"""Machine presets from measurements, and the chain in the simulator."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pagelab import _core
from pagelab.errors import PagelabError
from pagelab.measuring import cores, machine, validate
from pagelab.measuring.entry import BASE
from pagelab.measuring.result import Conditions, Estimate, Measurement, SharedLevel


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


@pytest.mark.parametrize(
    ("additions", "integers", "buffer", "registers"),
    [
        # Half of the additions take a register: they run out.
        ([360, 368], [200, 208], 448, 202),
        # The reorder buffer is full before half of the additions have taken as many as there are.
        ([312, 320], [200, 208], 314, 202),
        # It is full before registers run out at all.
        ([440, 448], [432, 440], 448, None),
        ([216, 224], [208, 216], 224, None),
        (None, [200, 208], 448, None),
    ],
)
def test_registers_may_run_out_before_the_reorder_buffer_is_full(
    zen4_guest: Measurement,
    additions: list[int] | None,
    integers: list[int],
    buffer: int,
    registers: int | None,
) -> None:
    zen5 = {"vendor": "AuthenticAMD", "family": 0x1A, "model": 0x02}
    here = zen4_guest.environment.model_copy(update=zen5)
    measured = zen4_guest.model_copy(update={"environment": here})

    def found(step: list[int] | None) -> dict[str, Any]:
        steps = step and {"smaller": step, "larger": step, "share_of_smaller": 0.0}
        return {"together_and_apart": steps, "x": [], "ns": [], "apart": []}

    measured.parts["window"] = {"additions": found(additions), "integers": found(integers)}
    table = tomllib.loads(machine.preset(measured, "here").toml())["core"]
    assert table["reorder_buffer"] == buffer
    assert table["execution"].get("integer_registers") == registers


@pytest.mark.parametrize(
    ("cycles", "wanted"), [(None, None), (0.03, 0), (0.94, 1), (0.5, None), (-0.9, None)]
)
def test_a_scaled_index_takes_whole_cycles(
    zen4_guest: Measurement, cycles: float | None, wanted: int | None
) -> None:
    zen4_guest.parts["caches"]["scaled_index_cycles"] = cycles
    table = tomllib.loads(machine.preset(zen4_guest, "here").toml())["core"]
    assert table["execution"]["arithmetic"].get("scaled_index") == wanted


@pytest.mark.parametrize(
    ("key", "found", "value", "wanted"),
    [
        ("atomics", "locked_cycles", 19.6, 20),
        ("atomics", "locked_cycles", 0.9, None),
        ("atomics", "locked_cycles", None, None),
        ("store_ports", "store_cycles", 0.507, 2),
        ("store_ports", "store_cycles", 1.02, 1),
        ("store_ports", "store_cycles", 0.7, None),
        ("store_ports", "store_cycles", None, None),
        # Of an addition one cycle is its own.
        ("forwarding", "added_to_memory_cycles", 0.99, 0),
        ("forwarding", "added_to_memory_cycles", 6.02, 5),
        ("vector_forwarding", "vector_through_memory_cycles", 8.96, 9),
    ],
)
def test_the_store_buffer_is_as_fast_as_measured(
    zen4_guest: Measurement, key: str, found: str, value: float | None, wanted: int | None
) -> None:
    zen4_guest.parts.setdefault("window", {})[found] = value
    core = tomllib.loads(machine.preset(zen4_guest, "here").toml())["core"]
    assert (core if key == "store_ports" else core["execution"]["arithmetic"]).get(key) == wanted


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
    found = Conditions(
        memory_ns=Estimate(median=300.0, low=290.0, high=310.0, samples=9),
        reads=Estimate(median=21.0, low=20.0, high=22.0, samples=9),
        moves=Estimate(median=30.0, low=28.0, high=32.0, samples=9),
        life={
            "read": {
                "first_touch": Estimate(median=700.0, low=690.0, high=710.0, samples=9),
                "unmap": Estimate(median=60.0, low=59.0, high=61.0, samples=9),
            },
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
    # A fault, a page and a zeroing, or 512 of these; and so of an entry and what it gives back.
    cost = now["cost"]
    assert cost["fault_ns"] == 700.0
    page = cost["fault_ns"] + cost["give_ns"]
    assert page + cost["zero_4k_ns"] == pytest.approx(2000.0, abs=0.2)
    assert page + 512 * cost["zero_4k_ns"] == pytest.approx(512 * 500.0, rel=0.001)
    assert cost["unmap_ns"] + cost["free_4k_ns"] == pytest.approx(300.0, abs=0.1)
    assert now["caches"]["llc"]["kib"] == pytest.approx(8192, rel=0.01)
    assert now["caches"]["others"] == {"gigabytes_per_second": 0.7}
    for level_of_curve in ("l1", "l2"):
        assert now["caches"][level_of_curve] == then["caches"][level_of_curve]
    # What tells nothing does not take the place of what does.
    poor = level.model_copy(update={"lines": 9_999, "no_conclusion": "the fit leaves 40 %"})
    kept = zen4_guest.beside(found).beside(Conditions(level=poor)).shared_level()
    assert kept == level
    # What was not looked at is as it was measured.
    assert tomllib.loads(machine.preset(zen4_guest, "here", Conditions()).toml()) == then
    assert raw["flushed_ns"]["median"] == 163.0


def test_a_claim_outside_of_the_step_is_not_taken(zen4_guest: Measurement) -> None:
    zen4_guest.parts["tlb"]["claimed"][1]["entries"] = 128
    made = machine.preset(zen4_guest, "here")
    assert 2648 <= tomllib.loads(made.toml())["tlb"]["l2_4k"]["entries"] <= 3311
    [value] = [v for v in made.as_json()["values"] if v["key"] == "tlb.l2_4k"]
    assert value["status"] == "open"
    assert "CPUID's 128" in value["source"]


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
