"""Memory file systems on the command line, and the table of what they cost."""

from pathlib import Path

import pytest

from pagelab.errors import PagelabError, UsageError
from pagelab.linux import allocation, layout, manager, markdown, suite
from pagelab.linux.fbmm import report

OUTPUT = b"""text that is no sample
{"bench": "mmap", "pages": 1, "calls": 10}
{"bench": "mmap", "pages": 8, "calls": 10}
"""


def _plan(**paper: dict[int, float]) -> allocation.Plan:
    cost = allocation.Cost(title="mmap()", bench="mmap", **paper)
    return allocation.Plan(
        title="X", suites={"off": "fbmm/off", "basicmfs": "fbmm/basicmfs"}, cost=[cost]
    )


def test_a_manager_is_a_name_and_mount_options() -> None:
    where = layout.find()
    assert manager.parse(where, "bwmfs:weights=3:2,huge") == ("bwmfs", "weights=3:2,huge")
    assert manager.parse(where, "contigmfs") == ("contigmfs", "")
    assert manager.parse(where, "basicmfs")[1].startswith("size=")


def test_the_library_is_no_manager() -> None:
    with pytest.raises(UsageError, match="basicmfs"):
        manager.parse(layout.find(), "mfs")


def test_one_job_a_boot_and_manager(tmp_path: Path) -> None:
    folder = tmp_path / "feature"
    folder.mkdir()
    (folder / "suite.toml").write_text(
        '[[entry]]\nname = "a"\nprogram = "a.c"\nappend = ["fbmm=on"]\nmanager = ["", "bwmfs"]\n'
    )
    names = [job.name for job in suite.load(tmp_path, [])]
    assert names == ["feature/a [fbmm=on]", "feature/a [fbmm=on bwmfs]"]


def test_counts_are_divided_by_calls() -> None:
    costs = allocation.parse(OUTPUT, b"1000 20\n3000 40\n")
    assert costs == {("mmap", 1): (100.0, 2.0), ("mmap", 8): (300.0, 4.0)}


def test_an_interrupt_in_one_round_does_not_count() -> None:
    costs = allocation.parse(OUTPUT * 3, b"1000 20\n30 1\n9000 90\n50 3\n1010 21\n40 2\n")
    assert costs == {("mmap", 1): (101.0, 2.1), ("mmap", 8): (4.0, 0.2)}


def test_a_missing_count_is_an_error() -> None:
    with pytest.raises(PagelabError, match="2 samples, but 1 pairs"):
        allocation.parse(OUTPUT, b"1000 20\n")


def test_the_table_has_the_paper_beside_it() -> None:
    plan = _plan(linux={1: 2.0}, fbmm={1: 3.0})
    costs: allocation.Costs = {
        ("off", "mmap", 1): (100.0, 2.0),
        ("basicmfs", "mmap", 1): (120.0, 2.5),
        ("off", "mmap", 8): (100.0, 2.0),
        ("basicmfs", "mmap", 8): (110.0, 2.0),
    }
    rows = [line.replace("|", " ").split() for line in allocation.render(plan, costs).splitlines()]
    assert ["1", "100", "120", "1.200", "1.50", "2.5", "2.0"] in rows
    assert ["8", "100", "110", "1.100", "2.0", "2.0"] in rows


def test_the_table_fits_a_terminal() -> None:
    plan = allocation.plan(report.read(layout.find())["costs"])
    costs = {(name, "mmap populate", 128): (871555.5, 1512.25) for name in plan.suites}
    text = allocation.render(plan, costs)
    assert max(map(len, text.splitlines())) <= markdown.WIDTH


def test_the_experiment_names_benchmarks_that_exist() -> None:
    where = layout.find()
    plan = allocation.plan(report.read(where)["costs"])
    for name in plan.suites.values():
        for job in suite.load(where.linux / "bench", [name]):
            source = (job.folder / job.entry.program).read_text()
            assert all(f'"{cost.bench}"' in source for cost in plan.cost)
