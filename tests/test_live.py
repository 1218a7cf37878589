"""Simulations that follow a recording."""

import fcntl
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import canned
import pagelab
from emulators import needs_recorder
from pagelab import _core, api, live
from pagelab.jobs import Stop
from pagelab.progress import Quiet, _QuietMeter
from pagelab.results import Comparison, Run
from pagelab.sources import parse_workload
from pagelab.table import legend
from pagelab.window import OF_PROGRAMS, Window
from processes import until

CHASE = parse_workload("pointer-chase:pages=20000,loads=4M,windows=0")
SAMPLE = Window(sample=(40_000, 200_000))
WORK = api.check(["radix"], machine="zen4", pages=["4K", "2M"], build=False)


class Shown(_QuietMeter):
    """Keeps what it is shown."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, str]] = []

    def answer(self, short: str, table: str) -> None:  # noqa: D102
        self.answers.append((short, table))


def _written(file: Path, window: Window) -> Path:
    _core.trace_write(json.dumps(CHASE.describe(window)), str(file))
    return file


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _written(tmp_path_factory.mktemp("trace") / "t.trace", SAMPLE)


@pytest.fixture(scope="module")
def whole(trace: Path) -> Comparison:
    return api.compare(trace, ["radix"], machine="zen4", pages=["4K", "2M"])


def _said(run: Run) -> str:
    """All of a result but how long it took."""
    return run.model_copy(update={"host": {}}).model_dump_json(by_alias=True)


def _same(runs: list[Run], others: list[Run]) -> None:
    assert [_said(run) for run in runs] == [_said(run) for run in others]


def test_who_follows_a_trace_that_grows_finds_what_its_simulation_finds(
    trace: Path, whole: Comparison, tmp_path: Path
) -> None:
    grows = tmp_path / "t.trace"
    text = trace.read_bytes()
    shown = Shown()
    with live.Following(WORK, SAMPLE) as following, grows.open("wb", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(text[: len(text) // 2])
        # Half of it is known while the rest is waited for.
        until(lambda: following.look(grows, 1.0, shown) or bool(shown.answers))
        assert following._ended is not None
        assert not following._ended.done()
        file.write(text[len(text) // 2 :])
        file.close()
        ended, notes = following.ended(grows, Quiet(), Stop(), lambda _: None)
    assert notes == []
    runs = [run for run in ended if isinstance(run, Run)]
    expected = [
        run.model_copy(update={"source": run.source | {"path": str(grows)}}) for run in whole.runs
    ]
    _same(runs, expected)
    assert shown.answers[0][0].startswith("so far: radix 2M ")


@needs_recorder
@pytest.mark.parametrize("window", [Window(sample=(20_000, 60_000)), Window(), OF_PROGRAMS])
def test_a_program_is_simulated_while_it_is_recorded_as_afterwards(
    tmp_path: Path, window: Window
) -> None:
    numbers = tmp_path / "numbers"
    numbers.write_bytes(subprocess.check_output(["seq", "4000"]))
    work = api.check(["radix"], machine="zen4", pages=["4K", "2M"], heat_map=True)
    file = tmp_path / "sort.trace"
    with live.Following(work, window) as following:
        recorded = api.record(
            ["sort", "-r", "-o", str(tmp_path / "sorted"), str(numbers)],
            file,
            window=window,
            following=following,
        )
        followed = api.compare(recorded, window=window.of_what_was_recorded, following=following)
    again = api.compare(file, ["radix"], machine="zen4", pages=["4K", "2M"], heat_map=True)
    assert len(followed.runs) == 2
    assert followed.runs[0].accesses == recorded.accesses > 100_000
    assert followed.runs[0].mappings
    assert any(line.function for line in followed.runs[0].lines)
    _same(followed.runs, again.runs)


def test_what_is_known_so_far_is_of_windows_that_all_have_behind_them(whole: Comparison) -> None:
    first, other = whole.runs
    behind = other.model_copy(update={"windows": other.windows[:12]})
    comparison = live.so_far([first, behind])
    assert [len(run.windows) for run in comparison.runs] == [11, 11]
    sample = [run.model_copy(update={"windows": run.windows[:11]}) for run in whole.runs]
    alone = whole.model_copy(update={"runs": sample})
    assert comparison.speedup(comparison.runs[1]) == alone.speedup(alone.runs[1])
    half = comparison.speedup_interval(comparison.runs[1])
    assert half
    assert f"of 11 windows, {min(first.accesses, behind.accesses) // 1000} k accesses" in (
        live.short(comparison).replace("\N{NARROW NO-BREAK SPACE}", " ")
    )
    assert live.precise(comparison, 1.01 * half)
    assert not live.precise(comparison, 0.99 * half)
    few = live.so_far([run.model_copy(update={"windows": run.windows[:9]}) for run in whole.runs])
    assert not live.precise(few, 1.0)


def test_what_is_known_but_still_changes_is_not_enough(whole: Comparison) -> None:
    speed = whole.speedup(whole.runs[1])
    half, later = (of(whole.runs[1]) for of in (whole.speedup_interval, whole.later_speedup))
    assert half
    assert later
    assert live.precise(whole, max(half, abs(later - speed)))
    # With small pages the program's first faults take as long as all of it.
    raw = [run.model_dump(by_alias=True) for run in whole.runs]
    for of in ("cycles", "faults"):
        raw[0]["windows"][0][of] += int(whole.runs[0].elapsed)
    alone = whole.model_copy(update={"runs": [Run.model_validate(one) for one in raw]})
    wide = alone.speedup_interval(alone.runs[1])
    assert wide
    assert not live.precise(alone, 1.01 * wide)


def test_of_more_memory_than_caches_only_what_was_taken_whole_is_told(whole: Comparison) -> None:
    raw = [run.model_dump(by_alias=True) for run in whole.runs]
    for run in raw:
        run["windows"] = run["windows"][:12]
        for name in ("instructions", "cycles", "accesses"):
            run["windows"][0][name] *= 50
        run["instructions"] *= 50
    small, large = (Run.model_validate(run) for run in raw)
    # 78 MiB of memory, and 32 of cache.
    comparison = live.so_far([small, large])
    assert comparison.speedup(comparison.runs[1]) == (
        small.windows[0].cycles / large.windows[0].cycles
    )
    assert comparison.speedup_interval(comparison.runs[1]) is None
    assert "of the first 2.00" in live.short(comparison)
    assert live.precise(comparison, 0.01)
    assert "Sampled" not in legend(comparison)
    for run in raw:
        run["machine"]["caches"]["llc"]["kib"] = 1 << 18
    fits = live.so_far([Run.model_validate(run) for run in raw])
    assert [len(run.windows) for run in fits.runs] == [11, 11]
    assert fits.speedup_interval(fits.runs[1])


def test_of_a_first_piece_the_beginning_that_all_have_run_is_compared(whole: Comparison) -> None:
    """Two runs of which one has come to half of the other's instructions."""
    alone = [run.model_copy(update={"windows": run.windows[:1]}) for run in whole.runs]
    comparison = live.so_far(alone)
    assert comparison.speedup_interval(comparison.runs[1]) is None
    assert "of the first " in live.short(comparison)
    assert not live.precise(comparison, 1.0)


@pytest.fixture
def grows(trace: Path, tmp_path: Path) -> Iterator[Path]:
    """All but the end of a trace, whose writer has not gone."""
    file = tmp_path / "t.trace"
    with file.open("wb", buffering=0) as written:
        fcntl.flock(written, fcntl.LOCK_EX)
        written.write(trace.read_bytes()[:-200])
        yield file


def test_a_look_that_knows_enough_says_so_after_some_time(grows: Path) -> None:
    with live.Following(WORK, SAMPLE, precision=0.5) as following:
        until(lambda: following.look(grows, 99.0, Shown()))
        assert not following.look(grows, 1.0, Shown())


def test_of_what_cannot_be_simulated_the_reason_is_said(tmp_path: Path) -> None:
    file = tmp_path / "t.trace"
    file.write_bytes(b"no trace")
    with live.Following(WORK, SAMPLE) as following:
        assert not following.look(file, 1.0, Shown())
        ended, _ = following.ended(file, Quiet(), Stop(), lambda _: None)
    assert ["not a pagelab trace" in one.error for one in ended if not isinstance(one, Run)] == [
        True,
        True,
    ]


def test_simulations_end_with_who_has_them_follow(grows: Path) -> None:
    with live.Following(WORK, SAMPLE) as following:
        following.look(grows, 1.0, Shown())
    assert following._ended is not None
    ended, _ = following._ended.result(timeout=0)
    assert all(not isinstance(one, Run) or one.stopped for one in ended)


def test_a_trace_that_was_not_seen_whole_is_simulated_again(
    trace: Path, whole: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system without locks, where nobody knows that a trace is being written."""
    recorded = pagelab.Recording.model_validate(canned.comparison()["recording"] | {"path": trace})
    part = [run.model_copy(update={"accesses": 1000}) for run in whole.runs]
    following = live.Following(WORK, SAMPLE)
    monkeypatch.setattr(live.Following, "ended", lambda *_: (part, []))
    kept = recorded.model_copy(update={"accesses": whole.runs[0].accesses})
    pages = ["4K", "2M"]
    found = api.compare(kept, ["radix"], machine="zen4", pages=pages, following=following)
    _same(found.runs, whole.runs)
