"""Tables of a paper's figures beside ours: medians, grouping, and what cannot be compared."""

import json
from pathlib import Path

import pytest

from pagelab.errors import PagelabError
from pagelab.linux import experiment, layout, suite
from pagelab.linux.experiment import Sample, Table

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


def test_a_table_says_what_it_counts() -> None:
    ns = experiment.rows(TABLE, {False: [_sample(1)], True: [_sample(2)]})
    assert "| ns off | on |" in experiment.render(TABLE, ns)
    counted = [_sample(10).model_copy(update={"icount": True})]
    text = experiment.render(TABLE, experiment.rows(TABLE, {False: counted, True: counted}))
    assert "| instructions off | on |" in text
    assert "| 64 KB | 1.0 | 1.0 | 1.000 | 1.50 | 0.00 | 0.00 |" in text


def test_hooks_are_shown_for_folios_of_one_page() -> None:
    without = [_sample(10, folio_kb=4), _sample(10, folio_kb=4, bench="munmap")]
    both = {False: [_sample(20, folio_kb=4)], True: [_sample(30, folio_kb=4), _sample(7)]}
    lines = experiment.render_hooks(without, both).splitlines()
    assert "| fork | 1.0 | 2.0 | 3.0 | 0.00 | 0.00 | 0.00 |" in lines
    assert "| munmap | 1.0 |  |  | 0.00 |  |  |" in lines


def test_the_experiments_of_the_project_name_benchmarks_that_exist() -> None:
    where = layout.find()
    for path in (where.root / "experiments").glob("foliomap*.toml"):
        plan = experiment.read(path)
        jobs = list(suite.load(where.linux / "bench", [*plan.suites, plan.without or plan.suite]))
        sources = "".join((job.folder / job.entry.program).read_text() for job in jobs)
        for table in plan.table:
            assert f'"{table.bench}"' in sources
