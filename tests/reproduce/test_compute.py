"""A small paper, computed for real, broken off and gone on with."""

import json
from pathlib import Path

import pytest

from pagelab import _core
from pagelab.errors import PagelabError
from pagelab.experiment.case import Failed
from pagelab.experiment.run import How
from pagelab.experiment.store import Store
from pagelab.reproduce import paper as papers
from pagelab.reproduce.compute import compute
from pagelab.reproduce.kinds import KINDS
from pagelab.reproduce.outcome import Outcome
from pagelab.reproduce.paper import Changes, Paper
from paper import FIGURE, SYSTEM, folder

SPEEDS = FIGURE + (
    '[[series]]\nname = "ideal"\ndesign = "ideal"\nagainst = "radix"\n'
    '[[claim]]\nsays = "ideal"\nseries = "ideal"\nvalue = 1.0\n'
)
SMALL = SYSTEM.replace(
    "{ windows = 2 }", "{ windows = 2, warm_up = 1000, measured = 5000, updates = 20_000 }"
)


@pytest.fixture
def paper(tmp_path: Path) -> Paper:
    return papers.load(folder(tmp_path, SPEEDS, SMALL), [], KINDS)


def computed(paper: Paper, store: Path) -> Outcome:
    [found] = compute([paper], Changes(), How(store, quiet=True))
    [outcome] = found.outcomes
    return outcome


def no_runs(*_: object) -> None:
    raise AssertionError("nothing should be run")


def test_translation_for_free_is_faster(paper: Paper, tmp_path: Path) -> None:
    outcome = computed(paper, tmp_path / "store")
    [answer] = outcome.answers
    assert outcome.failures == []
    assert answer.ours is not None
    assert answer.ours > 1


def test_what_is_kept_is_not_computed_again(paper: Paper, tmp_path: Path) -> None:
    first = computed(paper, tmp_path / "store")
    kept = How(tmp_path / "store", no_runs, quiet=True)
    assert compute([paper], Changes(), kept)[0].outcomes == [first]


def test_a_kept_file_that_was_cut_off_is_computed_again(paper: Paper, tmp_path: Path) -> None:
    first = computed(paper, tmp_path / "store")
    for file in (tmp_path / "store").glob("*/*.json.gz"):
        file.write_bytes(file.read_bytes()[:-100])
    assert computed(paper, tmp_path / "store") == first


def test_what_failed_is_tried_again_next_time(paper: Paper, tmp_path: Path) -> None:
    first = computed(paper, tmp_path / "store")
    store = Store(tmp_path / "store")
    for case in paper.figures["fig1"].cases(paper, Changes()).values():
        store.put(case, Failed("no memory", {}))
    assert computed(paper, tmp_path / "store") == first


def test_a_changed_machine_has_another_key(paper: Paper) -> None:
    figure = paper.figures["fig1"]
    plain = figure.cases(paper, Changes())
    changed = figure.cases(paper, Changes(set=("tlb.l2_cycles=9",)))
    for cell, case in plain.items():
        assert case.key != changed[cell].key


def test_a_series_overrides_the_command_line_and_that_the_paper(tmp_path: Path) -> None:
    system = SMALL.replace(
        "sample =", 'set = ["core.walkers=2", "core.width=5", "tlb.l2_cycles=9"]\nsample ='
    )
    wide = FIGURE + 'set = ["core.width=7"]\n'
    paper = papers.load(folder(tmp_path, wide, system), [], KINDS)
    changes = Changes(set=("core.width=6", "tlb.l2_cycles=10"))
    [case] = paper.figures["fig1"].cases(paper, changes).values()
    machine = json.loads(_core.machine(case.task["machine"], case.task["overrides"]))
    assert machine["core"]["walkers"] == 2
    assert machine["tlb"]["l2_cycles"] == 10
    assert machine["core"]["width"] == 7


def test_a_figure_that_cannot_be_computed_says_why_and_others_go_on(
    paper: Paper, tmp_path: Path
) -> None:
    file = tmp_path / "fig2.toml"
    file.write_text(SPEEDS.replace('metric = "speed"', 'metric = "speed"\nmemory_gib = 1'))
    both = papers.load(tmp_path, [], KINDS)
    changes = Changes(footprint_gib=3)
    for name in ("fig1", "fig2"):
        assert name in both.figures
    with pytest.raises(PagelabError, match="1 GiB of memory"):
        both.figures["fig2"].cases(both, changes)
    changes = Changes(footprint_gib=0.9)
    [found] = compute([both], changes, How(tmp_path / "store", quiet=True))
    first, second = found.outcomes
    assert first.failures == []
    assert "memory" in second.failures[0]
