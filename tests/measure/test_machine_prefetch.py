"""What is fetched ahead on a machine of a measurement."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

import pagelab
from pagelab import _core
from pagelab.measuring import machine
from pagelab.measuring.result import Measurement


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
