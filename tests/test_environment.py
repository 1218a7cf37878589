"""Programs have the environment that pagelab was given, without what Python adds to it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pagelab import environment
from processes import PATIENCE

PAGELAB = (sys.executable, "-m", "pagelab")
GIVEN = {"PATH": os.environ["PATH"], "HOME": "/"}


def variables(given: dict[str, str], cwd: Path) -> set[str]:
    """What a recorded `env` says."""
    done = subprocess.run(
        [*PAGELAB, "record", "-q", "-o", "t.trace", "--", "env"],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=given,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines())


@pytest.mark.parametrize("more", [{}, {"LC_CTYPE": "C.UTF-8"}, {"LC_ALL": "C.UTF-8"}])
def test_a_recorded_program_has_what_was_given(more: dict[str, str], tmp_path: Path) -> None:
    given = GIVEN | more
    assert variables(given, tmp_path) == {f"{name}={value}" for name, value in given.items()}


def test_a_native_run_has_it_too(tmp_path: Path) -> None:
    # Python sets LC_CTYPE at its start, in this environment: PEP 538.
    script = (
        "import os; from pagelab.measuring import native; assert os.environ['LC_CTYPE'];"
        f"native.run(['sh', '-c', 'env >{tmp_path}/said'], {{'MORE': '1'}}, 'own')"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env=GIVEN, timeout=PATIENCE)
    said = set((tmp_path / "said").read_text().splitlines())
    assert {f"{name}={value}" for name, value in GIVEN.items()} | {"MORE=1"} <= said
    assert not any(line.startswith("LC_CTYPE=") for line in said)


def test_a_locale_that_was_chosen_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_CTYPE", "de_DE.UTF-8")
    assert environment.added() == []
    assert environment.given()["LC_CTYPE"] == "de_DE.UTF-8"
