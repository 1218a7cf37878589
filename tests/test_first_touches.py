"""A sample has the faults, the huge pages and the memory of the whole program."""

import subprocess
from pathlib import Path

import pytest

import pagelab
from emulators import needs_recorder
from pagelab.window import Window

SOURCE = Path(__file__).with_name("record") / "first_touches.c"

# Gaps so long that nothing is reported in them.
SAMPLE = Window(sample=(100_000, 5_000_000))

_BY_PRESENCE = ["nodes", "doubled"]
# What presence does not say.
_BY_FAULTS = ["zeros", "counted", "written", "executed", "forked"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("built") / "first_touches"
    # Of libraries the kernel maps pages that nobody touches.
    subprocess.run(["gcc", "-O1", "-static", SOURCE, "-o", path], check=True)
    return path


@needs_recorder
@pytest.mark.parametrize("mode", [*_BY_PRESENCE, *_BY_FAULTS])
def test_a_sample_faults_as_the_whole_does(program: Path, mode: str, tmp_path: Path) -> None:
    recordings = [
        pagelab.record([program, mode], tmp_path / name, window=window)
        for name, window in [("whole.trace", Window()), ("sample.trace", SAMPLE)]
    ]
    if mode in _BY_FAULTS and any("perf_event_open" in note for note in recordings[1].notes):
        pytest.skip("the kernel doesn't tell of page faults")
    for pages in ["4K", "64K", "2M"]:
        runs = [pagelab.simulate(each, machine="zen3", pages=pages) for each in recordings]
        # SIGTERM, as of a limit on the tests' time, ends a run early and not the test.
        assert [run.stopped for run in runs] == [None, None]
        whole, sample = (run.os for run in runs)
        assert sample.faults == pytest.approx(whole.faults, rel=0.01, abs=4)
        assert sample.anonymous.large == whole.anonymous.large
        assert sample.zero_pages == pytest.approx(whole.zero_pages, rel=0.01, abs=4)
        assert sample.peak_resident_bytes == pytest.approx(
            whole.peak_resident_bytes, rel=0.01, abs=4 * 4096
        )
        assert pages != "4K" or sample.outside.faults > whole.faults / 3
        # Pages that are zeroed in part as the program and its loader are loaded.
        assert whole.outside.faults <= 2
