"""Tables of a paper's figures beside ours: medians, grouping, and what cannot be compared."""

import json
from pathlib import Path

import pytest

from pagelab.errors import PagelabError
from pagelab.linux import experiment, layout, suite
from pagelab.linux.experiment import Experiment, Sample, Table

TABLE = Table(title="t", bench="fork", unit="page", paper={64: 1.5}, paper_says="1.5")


def _sample(ns: int, folio_kb: int = 64, bench: str = "fork", copies: int = 0) -> Sample:
    return Sample(bench=bench, folio_kb=folio_kb, pages=10, ns=ns, copies=copies)


def test_medians_of_each_side() -> None:
    off = [_sample(ns) for ns in (1000, 3000, 90000)]
    on = [_sample(ns, copies=5) for ns in (1500, 1500, 10)]
    (row,) = experiment.rows(TABLE, {False: off, True: on})
    assert (row.off.time, row.on.time, row.speedup, row.paper) == (300.0, 150.0, 2.0, 1.5)
    assert (row.off.copies, row.on.copies, row.off.atomics) == (0.0, 0.5, None)


def test_counts_belong_to_samples_in_order() -> None:
    counted = experiment.add_counts([_sample(1), _sample(2)], b"100 7\n200 8\n")
    assert [(sample.instructions, sample.atomics) for sample in counted] == [(100, 7), (200, 8)]
    with pytest.raises(PagelabError, match="2 samples, but 1"):
        experiment.add_counts([_sample(1), _sample(2)], b"100 7\n")


def test_other_benchmarks_and_sizes_measured_once_stay_out() -> None:
    off = [_sample(1), _sample(1, folio_kb=16), _sample(1, bench="munmap", folio_kb=32)]
    on = [_sample(1), _sample(1, folio_kb=2048), _sample(1, bench="munmap", folio_kb=32)]
    assert [row.folio_kb for row in experiment.rows(TABLE, {False: off, True: on})] == [64]


def test_output_may_have_other_lines() -> None:
    line = json.dumps({"bench": "fork", "folio_kb": 4, "pages": 1, "ns": 2, "copies": 3})
    assert experiment.parse(f"hello\n{line}\n".encode()) == [
        Sample(bench="fork", folio_kb=4, pages=1, ns=2, copies=3)
    ]


def test_a_misspelt_key_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('name = "x"\ntitel = "y"\nsuite = "z"\ntable = []\n')
    with pytest.raises(PagelabError, match="titel"):
        experiment.read(path)


def test_counted_instructions_stand_for_time() -> None:
    off = [_sample(999)]
    counted = experiment.add_counts([_sample(999)], b"50 3\n")
    (row,) = experiment.rows(TABLE, {False: off, True: counted})
    assert (row.off.time, row.on.time, row.on.atomics) == (99.9, 5.0, 0.3)


def _cells(text: str) -> list[list[str]]:
    """The lines of the tables in a text, without their padding."""
    lines = [line.strip("| ") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def test_a_table_says_what_it_counts() -> None:
    ns = experiment.rows(TABLE, {False: [_sample(1)], True: [_sample(2)]})
    assert "Below: ns per page" in experiment.render(TABLE, ns)
    counted = [_sample(10).model_copy(update={"icount": True})]
    text = experiment.render(TABLE, experiment.rows(TABLE, {False: counted, True: counted}))
    assert "Below: instructions per page" in text
    assert ["64 KB", "1.00", "1.00", "1.000", "1.50", "0.000", "0.000"] in _cells(text)


def test_hooks_are_shown_for_folios_of_one_page() -> None:
    plan = Experiment(name="x", title="x", suite="s/with", without="s/without", table=[])
    without = [_sample(10, folio_kb=4), _sample(10, folio_kb=4, bench="munmap")]
    samples = {
        False: [*_of("s/without", *without), *_of("s/with", _sample(20, folio_kb=4))],
        True: _of("s/with", _sample(30, folio_kb=4), _sample(7)),
    }
    samples[False] += _of("s/in-time", _sample(99, folio_kb=4))
    cells = _cells(experiment.render_hooks(plan, samples))
    assert ["fork", "1.0", "2.0", "3.0", "0.00", "0.00", "0.00"] in cells
    assert ["munmap", "1.0", "", "", "0.00"] in cells


def _of(name: str, *samples: Sample) -> list[Sample]:
    return [sample.model_copy(update={"suite": name}) for sample in samples]


def test_boots_of_a_side_are_numbered() -> None:
    jobs = [
        suite.Job(Path("s"), suite.Entry(name="e", program="e.c"), append)
        for append in ("", "foliomap=on", "foliomap=on x", "")
    ]
    samples = experiment.measure(jobs, lambda _: [_sample(1), _sample(2)])
    assert [sample.boot for sample in samples[False]] == [1, 1, 2, 2]
    assert [sample.boot for sample in samples[True]] == [1, 1, 2, 2]


def test_the_experiments_of_the_project_name_benchmarks_that_exist() -> None:
    where = layout.find()
    for path in (where.root / "experiments").glob("foliomap*.toml"):
        plan = experiment.read(path)
        jobs = list(suite.load(where.linux / "bench", [*plan.suites, plan.without or plan.suite]))
        sources = "".join((job.folder / job.entry.program).read_text() for job in jobs)
        for table in plan.table:
            assert f'"{table.bench}"' in sources
