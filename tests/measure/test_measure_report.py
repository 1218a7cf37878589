"""Table, report, comparison and reproduction of a recorded result."""

import io
import re
from pathlib import Path

import pytest
from markupsafe import escape
from rich.console import Console

from pagelab import files
from pagelab.experiment.run import How
from pagelab.measuring import bars, conclusions, page, result, table
from pagelab.measuring.findings import findings
from pagelab.measuring.result import Measurement
from pagelab.reproduce import page as reproduction
from pagelab.reproduce import paper as papers
from pagelab.reproduce.compute import compute
from pagelab.reproduce.kinds import KINDS
from pagelab.reproduce.paper import Changes
from pagelab.units import nanoseconds

RECORDED = Path(__file__).parent / "data" / "zen5-guest.json"
FIGURES = ("figure1", "figure4", "figure5", "figure6", "figure7", "table1")


@pytest.fixture(scope="module")
def measurement() -> Measurement:
    return result.load(RECORDED)


def _printed(show: object, *arguments: object) -> str:
    assert callable(show)
    out = io.StringIO()
    show(*arguments, Console(file=out, width=80, color_system=None))
    return out.getvalue()


def test_what_was_measured_is_said_first(measurement: Measurement) -> None:
    text = " ".join(_printed(table.show, measurement).split())
    # AMD's guide 58455: 4,096 entries in the second level of Zen 5.
    assert "The TLB covers 16.0 MiB of 4 KiB pages" in text
    assert "hypervisor maps it in pieces" in text
    written = measurement.parts["faults"]["per_page_ns"]["written"]["first_touch"]["median"]
    assert f"first touch of a 4 KiB page takes {nanoseconds(written)};" in text
    assert text.index("The first touch") < text.index("L1 latency")
    little = measurement.model_copy(update={"parts": {}})
    assert "The TLB" not in _printed(table.show, little)


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


def test_every_figure_has_a_conclusion_with_a_reason(measurement: Measurement) -> None:
    for name in FIGURES:
        found = conclusions.of(name, measurement)
        assert found.agrees is not None
        assert len(found.reason) > 20
        assert found.chart or found.bars


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


def test_the_reproduction_draws_every_figure(measurement: Measurement, tmp_path: Path) -> None:
    probed = ["figure1", "figure4", "figure5", "figure6", "figure7", "table1"]
    paper = papers.load(files.experiments() / "measuring", probed, KINDS)
    how = How(tmp_path / "store", quiet=True)
    found = compute([paper], Changes(measured=RECORDED), how)
    reproduction.write(found, [], tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    for figure in ("Figure 1", "Figure 4", "Figure 5", "Figure 6", "Figure 7", "Table 1"):
        assert re.search(rf"<h2>{figure}\b", html), figure
    for outcome in found[0].outcomes:
        for answer in outcome.answers:
            assert answer.verdict in ("agrees", "does not agree")
            assert escape(answer.reason) in html


def test_a_program_linked_both_ways_decides_table_1(measurement: Measurement) -> None:
    """By hand: a static file no larger than the shared one is another conclusion."""
    assert conclusions.of("table1", measurement).agrees is True
    changed = measurement.model_copy(deep=True)
    shared, static = changed.parts["shared-code"]["pair"]
    static["file_bytes"] = shared["file_bytes"]
    assert conclusions.of("table1", changed).agrees is False
    changed.parts["shared-code"]["pair"] = None
    assert conclusions.of("table1", changed).agrees is None


def test_figures_of_parts_that_were_not_run_are_left_open(measurement: Measurement) -> None:
    without = measurement.model_copy(update={"parts": {}})
    assert {conclusions.of(name, without).agrees for name in FIGURES} == {None}


def test_demand_allocation_follows_the_figures(measurement: Measurement) -> None:
    """A machine on which the first touch costs no more than later ones allocates at once."""
    changed = measurement.model_copy(deep=True)
    life = changed.parts["faults"]["per_page_ns"]["written"]
    life["first_touch"], life["later_touch"] = life["later_touch"], life["first_touch"]
    assert conclusions.of("figure4", changed).agrees is False
