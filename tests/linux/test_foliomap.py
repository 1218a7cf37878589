"""The reproduction as a whole, with benchmarks that take no time: what is kept, what fails."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pagelab.errors import PagelabError, UsageError
from pagelab.linux import experiment, foliomap, guest, layout, markdown, suite
from pagelab.linux.experiment import Sample
from pagelab.linux.layout import Layout


@dataclass
class Lab:
    """A laboratory whose kernel is a file and whose boots end at once."""

    where: Layout
    image: Path
    out: Path
    failing: str = ""
    booted: list[str] = field(default_factory=list)

    def take(self, _: Layout, job: suite.Job) -> list[Sample]:
        """Every benchmark's samples, of a plausible size."""
        name = job.entry.name
        if name == self.failing:
            raise PagelabError(f"{name} failed: the guest's kernel panicked")
        self.booted.append(name)
        plan = experiment.read(self.where.root / "experiments" / "foliomap.toml")
        return [
            Sample(bench=bench, folio_kb=size, pages=10, ns=123456, copies=1,
                   suite=f"foliomap/{name}", instructions=123456, atomics=141)
            for bench in sorted({table.bench for table in plan.table})
            for size in (4, 2048)
        ]  # fmt: skip

    def reproduce(self, *names: str, again: bool = False) -> str:
        """What the command prints; `booted` has the guests it took."""
        self.booted.clear()
        return foliomap.reproduce(
            self.where, [*names], self.out, lambda _: None, again=again
        ).markdown


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    where = layout.find()
    if not (where.out() / "include" / "config" / "kernel.release").exists():
        pytest.skip("no kernel built: pagelab linux build")
    image = tmp_path / "bzImage"
    image.write_bytes(b"one kernel")
    made = Lab(where, image, tmp_path / "out")
    monkeypatch.setattr(suite, "need_kernel", lambda *_: image)
    monkeypatch.setattr(experiment, "take", made.take)
    monkeypatch.setattr(guest, "kvm_works", lambda: False)
    return made


def test_a_run_that_was_broken_off_goes_on_where_it_was(lab: Lab) -> None:
    lab.failing = "shared_sum"
    report = lab.reproduce("shared_sum", "redis_snapshot")
    assert lab.booted == ["redis_snapshot", "redis_snapshot"]
    assert "- shared_sum: shared_sum failed: the guest's kernel panicked" in report
    lab.failing = ""
    report = lab.reproduce("shared_sum", "redis_snapshot")
    assert lab.booted == ["shared_sum", "shared_sum"]
    assert "Not measured" not in report
    assert (lab.out / "report.md").read_text() == report


def test_another_kernel_is_measured_anew(lab: Lab) -> None:
    lab.reproduce("shared_sum")
    lab.image.write_bytes(b"another kernel")
    lab.reproduce("shared_sum")
    assert lab.booted == ["shared_sum", "shared_sum"]
    lab.reproduce("shared_sum", again=True)
    assert lab.booted == ["shared_sum", "shared_sum"]


def test_what_a_part_is_compared_with_comes_along(lab: Lab) -> None:
    report = lab.reproduce("compiled-out")
    assert sorted(set(lab.booted)) == ["compiled-out", "primitives"]
    assert "Folios of one page" in report
    assert "anon-cow" not in report


def test_the_report_fits_a_terminal_and_says_what_is_missing(lab: Lab) -> None:
    report = lab.reproduce()
    assert [line for line in report.splitlines() if len(line) > markdown.WIDTH] == []
    assert "- primitives-kvm: not without KVM" in report


def test_parts_that_do_not_exist_and_nothing_at_all(lab: Lab) -> None:
    with pytest.raises(UsageError, match="primitves"):
        lab.reproduce("primitves")
    lab.failing = "shared_sum"
    with pytest.raises(PagelabError, match="nothing could be measured"):
        lab.reproduce("shared_sum")
