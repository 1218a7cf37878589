"""A figure of programs run in turns, worked out by hand from made-up runs."""

from pathlib import Path

import pytest

from pagelab.errors import PagelabError
from pagelab.experiment.case import Failed, Result
from pagelab.reproduce import paper as papers
from pagelab.reproduce.kinds import KINDS
from pagelab.reproduce.native import Native
from pagelab.reproduce.outcome import Outcome
from paper import folder

FIGURE = """
title = "Which is faster"
shows = "Two ways."
kind = "native"
against = "a"
[programs]
p = ["true"]
q = ["true"]
[variants.a]
[variants.b]
after = ["--fast"]
environment = { THREADS = "2" }
[[claim]]
says = "b is faster"
series = "b"
against = "a"
row = "p"
relation = "below"
value = 1.0
[[claim]]
says = "seconds of b"
series = "b"
row = "p"
value = 2.0
"""


def load(path: Path, figure: str = FIGURE) -> tuple[papers.Paper, Native]:
    paper = papers.load(folder(path, figure), [], KINDS)
    found = paper.figures["fig1"]
    assert isinstance(found, Native)
    return paper, found


def runs(user: list[float], faults: int) -> list[dict[str, float]]:
    return [{"user": u, "system": u / 2, "wall": 9.0, "faults": faults} for u in user]


def outcome(path: Path, metric: str = "cpu") -> Outcome:
    paper, figure = load(path, FIGURE.replace("kind =", f'metric = "{metric}"\nkind ='))
    # Each round is another machine's; b takes a quarter less in each.
    a = [2.0, 4.0, 8.0, 16.0, 1.0]
    data = {"runs": {"a": runs(a, 100), "b": runs([0.75 * x for x in a], 10)}, "settled": True}
    return figure.outcome(paper, {"p": Result(data, {}), "q": Failed("q ended\nearly", {})})


def test_medians_and_the_ratio_of_rounds(tmp_path: Path) -> None:
    found = outcome(tmp_path)
    columns = ["a", "b", "b/a", "at least", "at most", "a: faults", "b: faults"]
    assert found.columns == columns
    # 4 and 2 s in program and kernel; a median round's ratio, the same in all rounds.
    assert found.rows == {"p": pytest.approx([6.0, 4.5, 0.75, 0.75, 0.75, 100, 10])}
    assert found.drawn is not None
    assert found.drawn[1] == {"p": pytest.approx([6.0, 4.5])}
    assert found.failures == ["q: q ended"]
    below, seconds = found.answers
    assert below.verdict == "holds"
    assert (below.low, below.high) == pytest.approx((0.75, 0.75))
    assert seconds.ours == 4.5
    assert seconds.verdict == "far"


def test_page_faults_are_compared_as_times_are(tmp_path: Path) -> None:
    found = outcome(tmp_path, "faults")
    assert found.columns == ["a", "b", "b/a", "at least", "at most"]
    assert found.rows == {"p": pytest.approx([100, 10, 0.1, 0.1, 0.1])}


def test_what_took_too_long_to_be_known_is_said(tmp_path: Path) -> None:
    paper, figure = load(tmp_path)
    few = {"runs": {"a": runs([1.0] * 3, 1), "b": runs([1.0] * 3, 1)}, "settled": False}
    found = figure.outcome(paper, {"p": Result(few, {})})
    assert found.rows["p"][2:5] == [None, None, None]
    assert found.answers[0].verdict == "not computed"
    assert found.notes == ["p: 60 s were not enough to know it to 1.5 points or a tenth."]


def test_a_case_has_all_variants_of_a_program(tmp_path: Path) -> None:
    paper, figure = load(tmp_path)
    found = figure.cases(paper, papers.Changes())
    assert list(found) == ["p", "q"]
    variants = found["p"].task["variants"]
    assert variants["a"] == {"command": ["true"], "environment": {}, "huge_pages": None}
    assert variants["b"]["command"] == ["true", "--fast"]
    assert variants["b"]["environment"] == {"THREADS": "2"}
    assert all(case.alone for case in found.values())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('against = "a"\n[programs]', 'against = "c"\n[programs]'), "unknown variant .c"),
        (('series = "b"\nrow', 'series = "d"\nrow'), "unknown variant .d"),
        (("[variants.b]", "[variants.a.b]"), "variants"),
        (('metric = "cpu"', 'metric = "joule"'), "metric"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(
    tmp_path: Path, change: tuple[str, str], says: str
) -> None:
    figure = FIGURE.replace("kind =", 'metric = "cpu"\nkind =')
    assert change[0] in figure
    with pytest.raises(PagelabError, match=says):
        load(tmp_path, figure.replace(*change))


def test_nothing_is_measured_beside_a_measurement(tmp_path: Path) -> None:
    paper, figure = load(tmp_path)
    with pytest.raises(PagelabError, match="--measured says to measure nothing"):
        figure.cases(paper, papers.Changes(measured=tmp_path))
