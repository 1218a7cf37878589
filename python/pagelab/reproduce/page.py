"""report.html of a reproduction: a chart and the tables of every figure, in one file."""

from dataclasses import dataclass
from pathlib import Path

import jinja2

from pagelab.errors import PagelabError
from pagelab.report.scales import Tick, linear_ticks
from pagelab.reproduce.outcome import Outcome
from pagelab.reproduce.show import cells, number

_ENVIRONMENT = jinja2.Environment(
    loader=jinja2.ChoiceLoader(
        [jinja2.PackageLoader("pagelab.reproduce"), jinja2.PackageLoader("pagelab.report")]
    ),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True)
class Bar:
    """A value: its height in percent of the plot, and what it is."""

    series: int
    height: float
    tip: str


@dataclass(frozen=True)
class Group:
    """The bars of one row."""

    label: str
    bars: list[Bar]
    average: bool


@dataclass(frozen=True)
class Chart:
    """Grouped bars over a common axis from 0."""

    groups: list[Group]
    ticks: list[Tick]
    legend: list[str]
    reference: float | None


def chart(outcome: Outcome) -> Chart:
    """The figure as grouped bars; a line at 1 where its values are ratios around it."""
    values = [value for row in outcome.rows.values() for value in row if value is not None]
    ticks = linear_ticks(max(values, default=1.0))
    top = ticks[-1]
    groups = [
        Group(
            label,
            [
                Bar(
                    series,
                    value / top * 100,
                    f"{label}, {outcome.columns[series]}: {number(value)}",
                )
                for series, value in enumerate(row)
                if value is not None
            ],
            label in outcome.averages,
        )
        for label, row in outcome.rows.items()
    ]
    around = any(value == 1.0 for value in values) and top <= 4
    return Chart(
        groups,
        [Tick(tick / top * 100, number(tick)) for tick in ticks],
        outcome.columns,
        100 / top if around else None,
    )


def write(title: str, facts: list[tuple[str, str]], outcomes: list[Outcome], path: Path) -> None:
    """Writes the page.

    Raises PagelabError when it cannot be written.
    """
    figures = [
        {
            "outcome": outcome,
            "chart": chart(outcome),
            "rows": [
                (label, [number(value) for value in row], label in outcome.averages)
                for label, row in outcome.rows.items()
            ],
            "claims": [cells(answer) for answer in outcome.answers],
        }
        for outcome in outcomes
    ]
    html = _ENVIRONMENT.get_template("reproduction.html").render(
        title=title, facts=facts, figures=figures
    )
    try:
        path.write_text(html, encoding="utf-8")
    except OSError as error:
        raise PagelabError(f"cannot write {path}: {error.strerror}") from error
