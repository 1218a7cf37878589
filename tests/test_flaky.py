"""The list of tests that fail at times."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))
flaky = pytest.importorskip("flaky")

LOG = """
test machine::a_cut ... ok
test machine::a_turn ... FAILED
FAILED tests/test_x.py::test_y[a b] - AssertionError: no
"""


def test_the_third_time_is_one_too_many(tmp_path: Path) -> None:
    known = tmp_path / "flaky"
    assert flaky.add(LOG, known, "2026-01-01") == []
    assert flaky.add("test machine::a_turn ... FAILED\n", known, "2026-01-02") == []
    assert flaky.add("test another ... FAILED\n", known, "2026-01-03") == []
    assert flaky.add(LOG, known, "2026-01-04") == ["machine::a_turn"]
    assert len(known.read_text().splitlines()) == 6
