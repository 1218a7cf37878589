"""A small paper, computed for real, broken off and gone on with."""

import json
from pathlib import Path

import pytest

from pagelab import _core
from pagelab.reproduce import figure, plan, runs
from pagelab.reproduce.compute import compute
from pagelab.reproduce.plan import Ablation
from paper import FIGURE, SYSTEM, folder

SPEEDS = FIGURE + (
    '[[series]]\nname = "ideal"\ndesign = "ideal"\nagainst = "radix"\n'
    '[[claim]]\nsays = "ideal"\nseries = "ideal"\nvalue = 1.0\n'
)
SMALL = SYSTEM.replace("{ windows = 2 }", "{ windows = 2, warm_up = 1000, measured = 5000 }")


@pytest.fixture
def paper(tmp_path: Path) -> figure.Paper:
    return figure.load(folder(tmp_path, SPEEDS, SMALL), [])


def test_translation_for_free_is_faster(paper: figure.Paper, tmp_path: Path) -> None:
    [outcome] = compute(paper, Ablation(), None, tmp_path / "out", quiet=True)
    [answer] = outcome.answers
    assert outcome.failures == []
    assert answer.ours is not None
    assert answer.ours > 1


def test_what_is_kept_is_not_computed_again(
    paper: figure.Paper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compute(paper, Ablation(), None, tmp_path / "out", quiet=True)
    monkeypatch.delattr("pagelab._core.simulate")
    assert compute(paper, Ablation(), None, tmp_path / "out", quiet=True) == first


def test_a_kept_file_that_was_cut_off_is_computed_again(
    paper: figure.Paper, tmp_path: Path
) -> None:
    first = compute(paper, Ablation(), None, tmp_path / "out", quiet=True)
    for file in (tmp_path / "out" / "runs").iterdir():
        file.write_bytes(file.read_bytes()[:1000])
    assert compute(paper, Ablation(), None, tmp_path / "out", quiet=True) == first


def test_a_changed_machine_has_another_key(paper: figure.Paper, tmp_path: Path) -> None:
    kept = runs.Kept(tmp_path / "runs")
    plain = plan.plan(paper, Ablation())
    changed = plan.plan(paper, Ablation(changes=("tlb.l2_cycles=9",)))
    for cell, simulation in plain.items():
        assert kept.key(simulation) != kept.key(changed[cell])


def test_a_series_overrides_the_command_line_and_that_the_paper(tmp_path: Path) -> None:
    system = SMALL.replace(
        "sample =", 'set = ["core.walkers=2", "core.width=5", "tlb.l2_cycles=9"]\nsample ='
    )
    wide = FIGURE + 'set = ["core.width=7"]\n'
    paper = figure.load(folder(tmp_path, wide, system), [])
    ablation = Ablation(changes=("core.width=6", "tlb.l2_cycles=10"))
    [simulation] = plan.plan(paper, ablation).values()
    machine = json.loads(_core.machine(simulation.machine, simulation.overrides))
    assert machine["core"]["walkers"] == 2
    assert machine["tlb"]["l2_cycles"] == 10
    assert machine["core"]["width"] == 7
