"""The answer so far of a sample, while it is recorded."""

import json
from pathlib import Path

import pytest

from pagelab import _core, api
from pagelab.live import Looks
from pagelab.progress import _QuietMeter
from pagelab.sources import parse_workload
from pagelab.window import Window
from processes import until

CHASE = parse_workload("pointer-chase:pages=20000,loads=400k,windows=0")
WORK = api.check(["radix"], machine="zen4", pages=["4K", "2M"], build=False)


class Shown(_QuietMeter):
    """Keeps what it is shown."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, str]] = []

    def answer(self, short: str, table: str) -> None:  # noqa: D102
        self.answers.append((short, table))


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("trace") / "t.trace"
    sampled = CHASE.describe(Window(sample=(4000, 20_000)))
    _core.trace_write(json.dumps(sampled), str(file))
    return file


def _looks(precision: float) -> Looks:
    return Looks(WORK, Window(sample=(4000, 20_000)), 2, precision)


def _looked(looks: Looks, trace: Path) -> tuple[bool, Shown]:
    """The first answer, and whether it was enough."""
    shown = Shown()
    assert not looks.look(trace, 1000, 4.0, shown)
    enough = False

    def answered() -> bool:
        nonlocal enough
        enough = looks.look(trace, 1000, 9.0, shown)
        return bool(shown.answers)

    until(answered)
    return enough, shown


def test_a_sample_says_what_is_known_so_far(trace: Path) -> None:
    enough, shown = _looked(_looks(0.0), trace)
    assert not enough
    [(short, table)] = shown.answers
    whole = api.compare(trace, ["radix"], machine="zen4", pages=["4K", "2M"])
    windows = len(whole.runs[0].windows)
    assert windows >= 10
    assert short.startswith("so far: radix 2M +")
    assert short.endswith(f", of {windows} windows")
    assert whole.table().splitlines()[2] in table


def test_it_is_enough_when_speeds_are_known_well_enough(trace: Path) -> None:
    half = api.compare(trace, ["radix"], machine="zen4", pages=["4K", "2M"])
    interval = half.speedup_interval(half.runs[1])
    assert interval is not None
    assert interval > 0
    assert _looked(_looks(1.01 * interval), trace)[0]
    assert not _looked(_looks(0.99 * interval), trace)[0]


def test_a_look_ends_with_the_recording(trace: Path) -> None:
    looks = _looks(0.0)
    looks.look(trace, 1000, 9.0, Shown())
    looks.close()
    assert looks._thread is not None
    assert not looks._thread.is_alive()


def test_of_what_cannot_be_simulated_nothing_is_said(tmp_path: Path) -> None:
    looks, shown = _looks(1.0), Shown()
    for elapsed in (9.0, 99.0, 999.0):
        assert not looks.look(tmp_path / "missing", 1000, elapsed, shown)
        assert looks._thread is not None
        looks._thread.join()
        assert not looks.look(tmp_path / "missing", 1000, elapsed, shown)
    assert shown.answers == []
