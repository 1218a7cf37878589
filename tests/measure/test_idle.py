"""Memory that a hypervisor takes back while it lies idle: measured, priced and said."""

import copy
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import canned
from pagelab import first_touch, host_memory
from pagelab.counts import CYCLE_PARTS
from pagelab.measuring import findings, machine, machine_costs
from pagelab.measuring.result import Measurement
from pagelab.results import Comparison
from pagelab.verdict import verdict
from processes import PATIENCE


def _estimate(median: float) -> dict[str, float]:
    return {"median": median, "low": 0.9 * median, "high": 1.1 * median, "samples": 9}


def _touches(reused: float, idle: float, given: float | None, share: float) -> dict[str, Any]:
    return {
        "reused_ns": _estimate(reused),
        "idle_ns": _estimate(idle),
        "idle_mean_ns": idle,
        "given_ns": None if given is None else _estimate(given),
        "given_share": share,
        "given_share_reused": 0.0,
        "seen": given is not None,
        "huge_share": 1.0,
    }


def _with(measurement: Measurement, base: dict[str, Any], huge: dict[str, Any]) -> Measurement:
    part = {"bytes": 1 << 28, "rounds": 8, "seconds": 4.0, "sizes": {"base": base, "huge": huge}}
    parts = copy.deepcopy(measurement.parts) | {"idle": part}
    # As the part faults has it, which uses its memory again: 1.5 us, and 512 times 0.3.
    life = parts["faults"]["per_page_ns"]
    life["read"]["first_touch"] = _estimate(1000.0)
    life["written"]["first_touch"] = _estimate(1500.0)
    life["written_huge"]["first_touch"] = _estimate(300.0)
    return measurement.model_copy(update={"parts": parts})


@pytest.fixture
def taken(measurement: Measurement) -> Measurement:
    """A guest whose host had taken back a third of idle huge pages, and a tenth of small ones."""
    base = _touches(1500.0, 2350.0, 10_000.0, 0.1)
    return _with(measurement, base, _touches(300.0, 3100.0, 8700.0, 1 / 3))


def _cost(measurement: Measurement) -> dict[str, Any]:
    cost: dict[str, Any] = tomllib.loads(machine.preset(measurement, "here").toml())["cost"]
    return cost


def test_first_touches_cost_what_they_take_in_idle_memory(taken: Measurement) -> None:
    cost = _cost(taken)
    fault = cost["fault_ns"] + cost["give_ns"]
    assert fault + cost["zero_4k_ns"] == pytest.approx(2350.0, abs=1)
    assert fault + cost["zero_2m_ns"] == pytest.approx(512 * 3100.0, rel=0.001)
    # Both ends: in use just before, and all of it given first.
    low, high = (fault + end for end in cost["zero_2m_between_ns"])
    assert low == pytest.approx(512 * 270.0, rel=0.001)
    assert high == pytest.approx(512 * 8700.0 * 1.1, rel=0.001)
    said = machine_costs.first_touch(taken)
    assert said is not None
    assert "takes 1.59 ms, since the host has taken back 33% of it" in said
    assert "154 µs where all was in use just before, and 4.45 ms" in said
    assert f"# {said}" in machine.preset(taken, "here").toml()


def test_memory_in_use_costs_what_the_part_faults_has_seen(taken: Measurement) -> None:
    cost = _cost(taken.in_use())
    assert "zero_2m_ns" not in cost
    fault = cost["fault_ns"] + cost["give_ns"]
    assert fault + cost["zero_4k_ns"] == pytest.approx(1500.0, abs=1)
    assert fault + 512 * cost["zero_4k_ns"] == pytest.approx(512 * 300.0, rel=0.001)


def test_where_nothing_is_taken_back_it_is_said_and_changes_nothing(
    measurement: Measurement,
) -> None:
    same = _touches(1500.0, 1510.0, None, 0.0), _touches(300.0, 310.0, None, 0.0)
    quiet = _with(measurement, *same)
    assert _cost(quiet) == _cost(quiet.in_use())
    assert "# zero_2m_ns: measured: not seen" in machine.preset(quiet, "here").toml()
    assert machine_costs.first_touch(quiet) is None
    rows = [row for row in findings.findings(quiet) if row.part == "idle"]
    assert [row.value for row in rows if "given" in row.what] == ["not seen", "not seen"]


def test_small_pages_alone_may_have_to_be_given(measurement: Measurement) -> None:
    base = _touches(1500.0, 2350.0, 10_000.0, 0.1)
    cost = _cost(_with(measurement, base, _touches(300.0, 310.0, None, 0.0)))
    fault = cost["fault_ns"] + cost["give_ns"]
    assert fault + cost["zero_4k_ns"] == pytest.approx(2350.0, abs=1)
    assert fault + cost["zero_2m_ns"] == pytest.approx(512 * 300.0, rel=0.001)


def test_a_finding_has_a_whole_page(taken: Measurement) -> None:
    rows = {row.what: row for row in findings.findings(taken) if row.part == "idle"}
    assert rows["first touch of 2 MiB, in use just before"].value == "154 µs"
    assert rows["first touch of 2 MiB, given by the host first"].value == "4.45 ms"
    assert rows["first touch of 4 KiB: share given first"].value == "10%"


def _zeroing(trace: Path, pages: str, *changes: str) -> float:
    """Nanoseconds of zeroing that a trace's pages take."""
    options = [word for change in changes for word in ("--set", change)]
    command = [sys.executable, "-m", "pagelab", "simulate", "-q", "--json", "-d", "radix"]
    command += ["-t", str(trace), "--pages", pages, *options]
    done = subprocess.run(command, capture_output=True, cwd=trace.parent, timeout=PATIENCE)
    cycles = json.loads(done.stdout)["cycles"]
    return float(cycles["zeroing"] / cycles["frequency_hz"] * 1e9)


def test_a_huge_page_takes_what_is_given_for_it_and_a_small_one_does_not(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("map,40000000,0x800000\nS,40000000\nS,40200000\nS,40400000\n")
    each = "cost.zero_4k_ns=100"
    assert _zeroing(trace, "2M", each) == pytest.approx(3 * 51_200, rel=0.01)
    assert _zeroing(trace, "2M", each, "cost.zero_2m_ns=1e6") == pytest.approx(3e6, rel=0.01)
    assert _zeroing(trace, "4K", each, "cost.zero_2m_ns=1e6") == pytest.approx(300, rel=0.01)


def _comparison(cost: dict[str, Any]) -> Comparison:
    """1,000 cycles with small pages, 200 of them zeroing; 600 with huge ones, 300 of them so."""
    raw = canned.comparison("radix", "radix")
    for run, (pages, compute, zeroing) in zip(
        raw["runs"], [("4K", 800, 200), ("2M", 300, 300)], strict=True
    ):
        run["pages"] = pages
        run["machine"]["cost"] = cost
        parts = {"compute": compute, "zeroing": zeroing}
        parts |= {part: 0 for part in CYCLE_PARTS if part not in parts}
        total = compute + zeroing
        run["cycles"] = {"frequency_hz": 1e9, "elapsed": total, "total": total, **parts}
        size = "4K" if pages == "4K" else "2M"
        run["os"]["anonymous"] = {"4K": 0, "2M": 0, "1G": 0, size: 10}
    return Comparison.model_validate(raw)


def test_a_comparison_says_between_which_speeds_it_is() -> None:
    prices = {"zero_4k_ns": 200.0, "zero_2m_ns": 200_000.0, "zero_4k_between_ns": [100.0, 9e3]}
    far = _comparison(prices | {"zero_2m_between_ns": [50_000.0, 1_000_000.0]})
    # 300 + 5 x 300 = 1,800 cycles; 800 + 100 = 900 of small pages beside 300 + 75 = 375.
    gains = first_touch.gains(far, far.runs[1])
    assert gains is not None
    assert list(gains) == pytest.approx([1000 / 1800 - 1, 900 / 375 - 1])
    # What decides is in the answer, and else it follows.
    said = "44.4 % slower where a hypervisor has to give the memory of all huge pages first"
    assert said in verdict(far).headline
    assert first_touch.caveat(far) == ""
    near = _comparison(prices | {"zero_2m_between_ns": [50_000.0, 400_000.0]})
    assert first_touch.caveat(near).startswith("radix 2M is 11.1 % faster where a hypervisor")
    assert "140.0 % faster where memory was in use just before" in first_touch.caveat(near)
    assert first_touch.caveat(near) in str(verdict(near))
    assert first_touch.caveat(_comparison({"zero_4k_ns": 200.0})) == ""


def _file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def test_the_ways_in_which_memory_goes_are_named(tmp_path: Path) -> None:
    assert host_memory.ways(tmp_path) == []
    order = tmp_path / "sys/module/page_reporting/parameters/page_reporting_order"
    devices = tmp_path / "sys/bus/virtio/devices"
    # Not set: no device has asked for it.
    _file(order, str(2**32 - 1))
    _file(devices / "virtio0/device", "0x0005")
    _file(devices / "virtio0/features", "0110000010000000")
    assert host_memory.ways(tmp_path) == []
    _file(order, "9")
    assert host_memory.ways(tmp_path) == []
    _file(devices / "virtio0/features", "0110010010000000")
    _file(devices / "virtio0/driver/name", "")
    _file(devices / "virtio1/device", "0x0018")
    _file(tmp_path / "sys/module/damon_reclaim/parameters/enabled", "Y")
    names = [way.name for way in host_memory.ways(tmp_path)]
    assert names == [
        "free page reporting, blocks of 2.00 MiB and more",
        "a balloon (virtio)",
        "virtio-mem",
        "DAMON's reclaim",
    ]
