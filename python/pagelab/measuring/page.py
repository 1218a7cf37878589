"""report.html of a measurement: one file that opens offline, in the style of the other report."""

from pathlib import Path

from pagelab.errors import cannot
from pagelab.measuring.bars import bars as bars_of
from pagelab.measuring.charts import Chart, charts
from pagelab.measuring.findings import findings
from pagelab.measuring.result import Measurement
from pagelab.measuring.table import ratio
from pagelab.report.templating import FRAGMENT, PAGE, environment
from pagelab.units import size

_TEMPLATES = environment("pagelab.measuring")


def fragment(measurement: Measurement) -> str:
    """The charts and figures as HTML for a notebook."""
    return render(measurement, layout=FRAGMENT)


def render(
    measurement: Measurement, other: Measurement | None = None, *, layout: str = PAGE
) -> str:
    """The report as HTML; a second result stands beside the first."""
    here = measurement.environment
    others = {(row.part, row.what): row for row in findings(other)} if other else {}
    rows = [
        (row, others.get((row.part, row.what)), ratio(row, others.get((row.part, row.what))))
        for row in findings(measurement)
    ]
    facts = [
        ("CPU", here.cpu),
        ("hypervisor", here.hypervisor or "none seen"),
        ("kernel", here.kernel),
        ("CPUs allowed", str(here.cpus)),
        ("memory", size(here.memory)),
        ("noise", f"{measurement.noise.verdict}: {measurement.noise.lost:.1%} of the time lost"),
        ("seed", str(measurement.seed)),
        *here.settings.items(),
    ]
    return _TEMPLATES.get_template("measure.html").render(
        title=f"What virtual memory costs on {here.cpu}",
        layout=layout,
        charts=charts(measurement),
        bars=bars_of(measurement),
        rows=rows,
        facts=facts,
        not_done=measurement.not_done,
        against=other.environment.cpu if other else None,
    )


def render_chart(title: str, drawn: Chart) -> str:
    """A page of one chart."""
    nothing: dict[str, list[str]] = {key: [] for key in ("bars", "rows", "facts", "not_done")}
    template = _TEMPLATES.get_template("measure.html")
    return template.render(title=title, layout=PAGE, charts=[drawn], against=None, **nothing)


def write(html: str, path: Path) -> None:
    """Writes a page; raises PagelabError when it cannot."""
    with cannot("write", path):
        path.write_text(html, encoding="utf-8")
