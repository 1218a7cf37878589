"""Guests as cases, with benchmarks that take no time: keys, what is printed, what fails."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pagelab import files
from pagelab.errors import PagelabError, RunError
from pagelab.experiment.backends import guest as backend
from pagelab.experiment.progress import silent
from pagelab.experiment.run import How
from pagelab.linux import guest, suite
from pagelab.linux.layout import Layout
from pagelab.reproduce import paper
from pagelab.reproduce.compute import compute
from pagelab.reproduce.kinds import KINDS
from pagelab.reproduce.outcome import Outcome
from pagelab.reproduce.paper import Changes


@dataclass
class Lab:
    """A laboratory whose kernel is a file and whose boots end at once."""

    image: Path
    store: Path
    failing: str = ""
    counts: bytes = b"100 7\n200 8\n"
    booted: list[str] = field(default_factory=list)

    def run(self, _: Layout, job: suite.Job) -> tuple[suite.Verdict, guest.Result]:
        """Two samples of fork()."""
        self.booted.append(job.name)
        if job.entry.name == self.failing:
            result = guest.Result(guest.Ending.PANIC, None, ["Kernel panic"])
            return suite.Verdict.FAIL, result
        sample = {"bench": "fork", "pages": 10, "ns": 5, "copies": 0}
        lines = [json.dumps(sample | {"folio_kb": kb}) for kb in (4, 2048)]
        out = "\n".join(["hello", *lines]).encode()
        counts = {guest.COUNTS: self.counts}
        return suite.Verdict.PASS, guest.Result(guest.Ending.EXIT, 0, [], out, b"", counts)

    def reproduce(self, *figures: str) -> list[Outcome]:
        """What the command finds; `booted` has the guests it took."""
        self.booted.clear()
        chosen = paper.load(files.experiments() / "foliomap", [*figures], KINDS)
        return compute([chosen], Changes(), How(self.store, quiet=True))[0].outcomes


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    image = tmp_path / "bzImage"
    image.write_bytes(b"one kernel")
    made = Lab(image, tmp_path / "store")
    monkeypatch.setattr(suite, "need_kernel", lambda *_: image)
    monkeypatch.setattr(suite, "run", made.run)
    monkeypatch.setattr(guest, "kvm_works", lambda: False)
    return made


def test_counts_belong_to_samples_in_order(lab: Lab) -> None:
    (_, off), (_, on) = backend.cases("foliomap/primitives")
    assert off.key != on.key
    found = backend.run(on.task, silent)
    assert lab.booted == ["foliomap/primitives [noreplace-smp foliomap=on]"]
    assert [line["folio_kb"] for line in found["printed"]] == [4, 2048]
    assert found["counts"] == [[100, 7], [200, 8]]
    lab.counts = b"100 7\n"
    with pytest.raises(RunError, match="2 samples, but 1 pairs"):
        backend.run(on.task, silent)


def test_every_benchmark_can_be_asked_for(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of their words some name files, and one is longer than the name of a file can be.
    monkeypatch.setattr(guest, "kvm_works", lambda: True)
    bench = files.linux() / "bench"
    jobs = list(suite.load(bench, []))
    longest = max(len(word) for job in jobs for word in job.entry.args)
    assert longest > os.pathconf(bench, "PC_NAME_MAX")
    for name in {f"{job.folder.name}/{job.entry.name}" for job in jobs}:
        assert backend.cases(name)
    assert not lab.booted


def test_boots_that_are_alike_are_boots_of_their_own(lab: Lab) -> None:
    cases = [case for _, case in backend.cases("foliomap/contention-counted")]
    assert len({case.key for case in cases}) == len(cases) == 24


def test_figures_share_boots_and_a_run_goes_on_where_it_was(lab: Lab) -> None:
    lab.failing = "primitives"
    fork, munmap = lab.reproduce("fork", "munmap")
    assert len(lab.booted) == 2
    assert fork.rows == {}
    assert fork.failures[0].startswith("off, boot 1: foliomap/primitives")
    lab.failing = ""
    fork, munmap = lab.reproduce("fork", "munmap")
    assert len(lab.booted) == 2
    assert fork.rows["2048 KB"][:3] == [20.0, 20.0, 1.0]
    # The benchmark printed nothing of munmap().
    assert munmap.answers[0].verdict == "not computed"
    lab.reproduce("fork")
    assert lab.booted == []
    lab.image.write_bytes(b"another kernel")
    lab.reproduce("fork")
    assert len(lab.booted) == 2


def test_times_are_of_a_machine_and_counts_are_not(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest, "kvm_works", lambda: True)

    def keys(machine: str) -> list[str]:
        monkeypatch.setattr("platform.node", lambda: machine)
        names = ("foliomap/primitives", "foliomap/primitives-kvm")
        return [case.key for name in names for _, case in backend.cases(name)[:1]]

    (counted, timed), (counted_there, timed_there) = keys("here"), keys("there")
    assert counted == counted_there
    assert timed != timed_there


def test_times_under_emulation_are_refused(lab: Lab) -> None:
    [outcome] = lab.reproduce("fork-time")
    assert outcome.failures == [
        "foliomap/primitives-kvm: not without KVM: times under emulation mean nothing"
    ]
    assert lab.booted == []


def test_without_a_kernel_it_is_said_how_to_build_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Layout, "image", lambda *_: tmp_path / "bzImage")
    with pytest.raises(PagelabError, match="pagelab linux build"):
        backend.cases("foliomap/primitives")
