"""report.html of reproductions: charts and tables of every figure of every paper, in one file."""

from pathlib import Path

from pagelab.experiment import store
from pagelab.report.columns import columns
from pagelab.report.templating import environment
from pagelab.reproduce.compute import Found
from pagelab.reproduce.outcome import Outcome
from pagelab.reproduce.show import cells
from pagelab.units import number

_TEMPLATES = environment("pagelab.reproduce")


def write(found: list[Found], facts: list[tuple[str, str]], path: Path) -> None:
    """Writes the page.

    Raises PagelabError when it cannot be written.
    """
    papers = [
        {
            "name": one.paper.name,
            "common": one.paper.common,
            "figures": [_figure(outcome) for outcome in one.outcomes],
            "verdicts": verdicts(one.outcomes),
        }
        for one in found
    ]
    title = found[0].paper.common.title if len(found) == 1 else "Published figures, computed again"
    html = _TEMPLATES.get_template("reproduction.html").render(
        title=title, facts=facts, papers=papers
    )
    store.write(path, html.encode())


def verdicts(outcomes: list[Outcome]) -> str:
    """Number of claims of each verdict: `12 near, 3 far, 1 holds`."""
    counts: dict[str, int] = {}
    for outcome in outcomes:
        for answer in outcome.answers:
            counts[answer.verdict] = counts.get(answer.verdict, 0) + 1
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items())


def _figure(outcome: Outcome) -> dict[str, object]:
    series, rows = outcome.drawn or (outcome.columns, outcome.rows)
    return {
        "outcome": outcome,
        "chart": columns(series, rows, outcome.averages) if rows else None,
        "rows": [
            (label, [number(value) for value in row], label in outcome.averages)
            for label, row in outcome.rows.items()
        ],
        "claims": [cells(answer) for answer in outcome.answers],
    }
