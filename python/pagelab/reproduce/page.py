"""report.html of a reproduction: a chart and the tables of every figure, in one file."""

from pathlib import Path

from pagelab.errors import PagelabError
from pagelab.report.columns import columns
from pagelab.report.templating import environment
from pagelab.reproduce.outcome import Outcome
from pagelab.reproduce.show import cells
from pagelab.units import number

_TEMPLATES = environment("pagelab.reproduce")


def write(title: str, facts: list[tuple[str, str]], outcomes: list[Outcome], path: Path) -> None:
    """Writes the page.

    Raises PagelabError when it cannot be written.
    """
    figures = [
        {
            "outcome": outcome,
            "chart": columns(outcome.columns, outcome.rows, outcome.averages),
            "rows": [
                (label, [number(value) for value in row], label in outcome.averages)
                for label, row in outcome.rows.items()
            ],
            "claims": [cells(answer) for answer in outcome.answers],
        }
        for outcome in outcomes
    ]
    html = _TEMPLATES.get_template("reproduction.html").render(
        title=title, facts=facts, figures=figures
    )
    try:
        path.write_text(html, encoding="utf-8")
    except OSError as error:
        raise PagelabError(f"cannot write {path}: {error.strerror}") from error
