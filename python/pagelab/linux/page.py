"""report.html of what was measured in guests: the text of report.md, with charts."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from pagelab.errors import PagelabError
from pagelab.report.columns import columns
from pagelab.report.templating import environment

_TEMPLATES = environment("pagelab.linux")
_HEADING = re.compile(r"^(#{1,3}) (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Chart:
    """Columns to draw under a heading of the report, a group a row and a column a series."""

    heading: str
    shows: str
    series: list[str]
    rows: dict[str, list[float | None]]


@dataclass(frozen=True)
class Report:
    """What was measured: a text for the terminal, JSON, and the page's file."""

    markdown: str
    data: Any
    path: Path


def save(markdown: str, charts: list[Chart], data: Any, out: Path) -> Report:
    """Write report.md and report.html into a folder.

    Raises:
        PagelabError: they cannot be written.

    """
    report = Report(markdown, data, out / "report.html")
    title, *sections = _sections(markdown, charts)
    html = _TEMPLATES.get_template("measured.html").render(first=title, sections=sections)
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "report.md").write_text(markdown, encoding="utf-8")
        report.path.write_text(html, encoding="utf-8")
    except OSError as error:
        raise PagelabError(f"cannot write into {out}: {error.strerror}") from error
    return report


def _sections(markdown: str, charts: list[Chart]) -> list[dict[str, Any]]:
    """The report cut at its headings: of each its level, title, charts and text."""
    # Text of benchmarks is in it: what looks like HTML there stays text.
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    starts = list(_HEADING.finditer(markdown))
    ends = [start.start() for start in starts[1:]] + [len(markdown)]
    return [
        {
            "level": len(start[1]),
            "title": start[2],
            "charts": [
                {"shows": chart.shows, "chart": columns(chart.series, chart.rows)}
                for chart in charts
                if chart.heading == start[2] and chart.rows
            ],
            "text": parser.render(markdown[start.end() : end]),
        }
        for start, end in zip(starts, ends, strict=True)
    ]
