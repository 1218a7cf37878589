"""The page of an advice: what it draws is what was measured."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import canned
import rounds
from pagelab.advising import page, show, verdict
from pagelab.advising.saved import Saved
from pagelab.cli import app
from pagelab.results import Comparison

HOST = {"cpu": "a <b>", "kernel": "6", "transparent_hugepage": "madvise"}


def _saved(gain: float, *, count: int = 20, predicted: float | None = None) -> dict[str, Any]:
    decided = verdict.decide(rounds.made_up(random.Random(1), gain, 0.02, count))
    if predicted is not None:
        decided.predicted["huge"] = predicted
    return show.as_json(decided, ["sort", "<x>"], [], HOST)


def _drawn(raw: dict[str, Any]) -> page.Picture:
    return page.picture(Saved.model_validate(raw))


def _value(drawn: page.Picture, at: float) -> float:
    """The value at a place, by two ticks of the axis."""
    first, last = drawn.ticks[0], drawn.ticks[-1]
    low, high = float(first.label), float(last.label)
    return low + (high - low) * (at - first.at) / (last.at - first.at)


@pytest.mark.parametrize("gain", [0.3, 0.99, 1.0, 1.02, 1.5, 40.0])
def test_marks_are_where_the_axis_says(gain: float) -> None:
    raw = _saved(gain, predicted=1.2)
    drawn = _drawn(raw)
    of = raw["tried"][0]
    row = drawn.rows[1]
    near = pytest.approx
    assert _value(drawn, drawn.one) == near(1)
    assert _value(drawn, row.median) == near(of["faster"]["median"])
    assert row.low is not None
    assert _value(drawn, row.low) == near(of["faster"]["low"])
    assert _value(drawn, row.low + row.width) == near(of["faster"]["high"])
    assert row.predicted is not None
    assert _value(drawn, row.predicted) == near(1.2)
    for one in drawn.rows:
        marks = [one.median, one.low or 0, (one.low or 0) + one.width, one.predicted or 0]
        assert all(0 <= at <= 100 for at in marks)
    assert 3 <= len(drawn.ticks) <= 14


def test_of_few_rounds_there_is_no_interval() -> None:
    drawn = _drawn(_saved(1.5, count=5))
    assert [one.low for one in drawn.rows] == [None, None]
    html = page.render(Saved.model_validate(_saved(1.5, count=5)))
    assert 'class="range" style' not in html
    assert "predicted on" not in html


def test_names_of_others_are_no_markup() -> None:
    html = page.render(Saved.model_validate(_saved(1.5)))
    assert "sort &lt;x&gt;" in html
    assert "a &lt;b&gt;" in html
    assert "<x>" not in html


def test_the_page_leads_to_the_models_report_if_there_is_one(tmp_path: Path) -> None:
    saved = Saved.model_validate(
        _saved(1.5) | {"model": {"machine": "zen4", "where": ["Walks take 3 %."]}}
    )
    page.write(saved, tmp_path)
    assert "href" not in re.sub("<link[^>]*>", "", (tmp_path / "report.html").read_text())
    Comparison.model_validate(canned.comparison("radix")).save(tmp_path / "model")
    page.write(saved, tmp_path)
    html = (tmp_path / "report.html").read_text()
    assert 'href="model/report.html#addresses"' in html
    assert "Whose memory gains" not in html


def test_a_report_is_drawn_again(tmp_path: Path) -> None:
    (tmp_path / "advice.json").write_text(json.dumps(_saved(1.5)))
    done = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert done.exit_code == 0, done.exception
    assert "Yes: it takes 1.5" in (tmp_path / "report.html").read_text()
