"""A simulation as a case: what its result holds, and what is not the run's fault."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from pagelab.errors import PagelabError
from pagelab.experiment.backends import simulate
from pagelab.experiment.case import Case, Result
from pagelab.experiment.progress import silent
from pagelab.experiment.work import work
from pagelab.sources import parse_workload
from pagelab.window import Window

SOURCE = parse_workload("pointer-chase:pages=1000,loads=1000").describe(Window())


def case(on: str = "dpt-paper") -> Case:
    return simulate.case("a case", "radix", on, [], SOURCE)


def test_programs_and_sources_of_the_machine_that_ran_it_are_no_part_of_a_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On another machine there may be none, and both results are right."""
    plain = simulate.run(case().task, silent)

    def with_lines(*asked: Any) -> str:
        line = {"program": 0, "file": "a.c", "line": 3, "text": "main();"}
        return json.dumps(plain | {"lines": [line], "changed_files": ["a.out"]})

    monkeypatch.setattr("pagelab._core.simulate", with_lines)
    assert simulate.run(case().task, silent) == plain


def test_a_full_temporary_folder_is_not_the_runs_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = tmp_path / "machine.toml"
    machine.write_text('base = "dpt-paper"\nname = "mine"\n')
    asked = case(str(machine))
    assert isinstance(work("simulate", asked.task), Result)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tempfile.NamedTemporaryFile", full)
    with pytest.raises(PagelabError, match="cannot write a temporary file: No space left"):
        work("simulate", asked.task)
    assert isinstance(work("simulate", case().task), Result)
