"""Machine presets from measurements, and the chain in the simulator."""

import json
import tomllib
from pathlib import Path

import pytest

from pagelab import _core
from pagelab.errors import PagelabError
from pagelab.measure import machine, result, validate
from pagelab.measure.result import Measurement

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


def test_the_preset_says_where_each_value_is_from(measurement: Measurement) -> None:
    text = machine.preset(measurement, "here")
    lines = [line for line in text.splitlines() if " = " in line and "#" not in line]
    assert [line.split(" = ")[0] for line in lines] == ["base", "name", "description"]
    assert tomllib.loads(text)["base"] == machine.BASE


def test_a_preset_needs_the_chains(measurement: Measurement) -> None:
    without = measurement.model_copy(update={"parts": {}})
    with pytest.raises(PagelabError, match="needs the parts caches and tlb"):
        machine.preset(without, "here")


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
    assert len(lines) == 300
    assert lines[:100] == lines[100:200] == lines[200:]
    assert len(set(lines)) == 100
    assert all(line.endswith(",8,0,1") for line in lines)
