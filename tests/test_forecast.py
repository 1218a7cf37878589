"""How long a simulation will take is said while the program is recorded."""

import json
from pathlib import Path

from pagelab import _core, api
from pagelab.forecast import Forecast
from pagelab.sources import parse_workload
from pagelab.window import Window
from processes import until

CHASE = parse_workload("pointer-chase:pages=20000,loads=2M,windows=0")
WORK = api.check(["radix", "ideal", "dpt"], machine="dpt-paper", build=False)


def test_a_recording_that_goes_on_tells_how_long_its_simulation_takes(tmp_path: Path) -> None:
    file = tmp_path / "t.trace"
    _core.trace_write(json.dumps(CHASE.describe(Window())), str(file))
    # As of a program that still runs.
    file.write_bytes(file.read_bytes()[: file.stat().st_size * 9 // 10])
    forecast = Forecast(WORK, Window(limit=500_000_000), at_once=2)
    assert forecast.text(file, 1_000_000, 1.0) is None
    until(lambda: forecast.text(file, 30_000_000, 3.0) is not None)
    said = forecast.text(file, 30_000_000, 3.0)
    assert said is not None
    assert "to simulate (3 designs), all 500 M take 50 s and" in said
    assert "; --sample 5M:100M simulates a 20th of that in" in said


def test_what_was_asked_for_is_not_advised(tmp_path: Path) -> None:
    window = Window(sample=(1_000_000, 20_000_000))
    forecast = Forecast(WORK[:1], window, at_once=2, _seconds_each=1e-7)
    said = forecast.text(tmp_path / "t.trace", 30_000_000, 3.0)
    assert said == "each second of it takes 1.0 s to simulate (1 design)"


def test_of_what_cannot_be_simulated_nothing_is_said(tmp_path: Path) -> None:
    forecast = Forecast(WORK, Window(), at_once=2)
    for elapsed in (3.0, 6.0, 9.0):
        assert forecast.text(tmp_path / "missing", 30_000_000, elapsed) is None
        assert forecast._thread is not None
        forecast._thread.join()
