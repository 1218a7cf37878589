"""Table, report, comparison and reproduction of a recorded result."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from pagelab.errors import PagelabError
from pagelab.measure import bars, page, reproduce, result, table
from pagelab.measure.findings import findings, nanoseconds
from pagelab.measure.result import Measurement

RECORDED = Path(__file__).parent / "data" / "zen5-guest.json"
EXPERIMENT = Path(__file__).parents[2] / "experiments" / "measuring.toml"


@pytest.fixture(scope="module")
def measurement() -> Measurement:
    return result.load(RECORDED)


def _printed(show: object, *arguments: object) -> str:
    assert callable(show)
    out = io.StringIO()
    show(*arguments, Console(file=out, width=80, color_system=None))
    return out.getvalue()


def test_the_table_fits_80_columns(measurement: Measurement) -> None:
    text = _printed(table.show, measurement)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert re.search(r"4 KiB: L1 entries +96", text)
    assert re.search(r"4 KiB: L2 entries +4,096 256 sets", text)
    assert re.search(r"4 KiB: L2 ways +16", text)
    # The hypervisor maps 4 KiB pieces, so nothing can be said of entries for huge pages.
    assert re.search(r"2 MiB: L1 entries +no conclusion", text)


def test_what_was_not_done_is_said(measurement: Measurement) -> None:
    text = _printed(table.show, measurement)
    assert len(measurement.not_done) == text.count("not done (")


def test_a_result_against_itself_has_ratios_of_one(measurement: Measurement) -> None:
    text = _printed(table.show_against, measurement, measurement)
    ratios = set(re.findall(r"(\S+) ×", text))
    assert ratios == {"1.00"}


def test_the_report_fetches_nothing_and_marks_the_steps(measurement: Measurement) -> None:
    html = page.render(measurement, measurement)
    assert "http://" not in html
    assert "https://" not in html
    assert "<b>96</b>" in html
    for row in findings(measurement):
        assert row.value.split()[0] in html


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.886, "0.886 ns"), (999.0, "999 ns"), (999.9, "1 µs"), (35_200.0, "35.2 µs"), (2e9, "2 s")],
)
def test_times_have_three_digits(value: float, text: str) -> None:
    assert nanoseconds(value) == text


def test_every_figure_has_an_answer_with_a_reason(measurement: Measurement) -> None:
    given = reproduce.answers(reproduce.load(EXPERIMENT), measurement)
    assert [a.figure.name for a in given] == [
        *("figure1", "figure4", "figure5", "figure6", "figure7", "table1")
    ]
    assert all(a.verdict in (reproduce.SAME, reproduce.OTHER, reproduce.OPEN) for a in given)
    assert all(len(a.reason) > 20 for a in given)


def test_the_bars_are_as_long_as_the_figures(measurement: Measurement) -> None:
    """Segments of one chart share a scale: width over figure is the same for all."""
    drawn = bars.bars(measurement)
    assert [one.title.split(":")[0] for one in drawn] == ["Figure 4", "Figure 5", "Table 1"]
    life = measurement.parts["faults"]["per_page_ns"]
    rows = {row.design: row for row in drawn[0].chart.rows}
    for use, name in (("written", "written"), ("read", "read")):
        phases = ("map", "first_touch", "later_touch", "unmap")
        total = sum(life[use][phase]["median"] for phase in phases)
        width = sum(segment.width for segment in rows[name].segments)
        assert width / total == pytest.approx(
            rows["written"].segments[1].width / life["written"]["first_touch"]["median"]
        )


def test_the_reproduction_draws_every_figure(measurement: Measurement) -> None:
    html, given = reproduce.page_of(reproduce.load(EXPERIMENT), measurement)
    for figure in ("Figure 1", "Figure 4", "Figure 5", "Figure 6", "Figure 7", "Table 1"):
        assert re.search(rf"<h2>{figure}\b", html), figure
    for answer in given:
        assert answer.verdict in html


def test_a_program_linked_both_ways_decides_table_1(measurement: Measurement) -> None:
    """By hand: a static file no larger than the shared one is another conclusion."""
    given = reproduce.answers(reproduce.load(EXPERIMENT), measurement)
    assert given[5].verdict == reproduce.SAME
    changed = measurement.model_copy(deep=True)
    shared, static = changed.parts["shared-code"]["pair"]
    static["file_bytes"] = shared["file_bytes"]
    given = reproduce.answers(reproduce.load(EXPERIMENT), changed)
    assert given[5].verdict == reproduce.OTHER
    changed.parts["shared-code"]["pair"] = None
    given = reproduce.answers(reproduce.load(EXPERIMENT), changed)
    assert given[5].verdict == reproduce.OPEN


def test_figures_of_parts_that_were_not_run_are_left_open(measurement: Measurement) -> None:
    without = measurement.model_copy(update={"parts": {}})
    given = reproduce.answers(reproduce.load(EXPERIMENT), without)
    assert {a.verdict for a in given} == {reproduce.OPEN}


def test_demand_allocation_follows_the_figures(measurement: Measurement) -> None:
    """A machine on which the first touch costs no more than later ones allocates at once."""
    changed = measurement.model_copy(deep=True)
    life = changed.parts["faults"]["per_page_ns"]["written"]
    life["first_touch"], life["later_touch"] = life["later_touch"], life["first_touch"]
    given = reproduce.answers(reproduce.load(EXPERIMENT), changed)
    assert given[1].verdict == reproduce.OTHER


def test_an_unknown_figure_names_the_known_ones(tmp_path: Path, measurement: Measurement) -> None:
    file = tmp_path / "odd.toml"
    file.write_text('name="a"\ntitle="b"\n[[figure]]\nname="figure9"\ntitle="c"\npaper="d"\n')
    with pytest.raises(PagelabError, match="unknown figure 'figure9'; valid: figure1, "):
        reproduce.answers(reproduce.load(file), measurement)
