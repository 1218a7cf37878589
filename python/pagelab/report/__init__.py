"""The report: one HTML file that opens offline.

Python turns a comparison into view models (shares, ticks, labels), Jinja templates turn those
into HTML and SVG. The charts are drawn by hand rather than by Altair because inline SVG from it
fixes fonts, sizes and colours when it is made: it would scale its text down to nothing on a
narrow screen and could follow neither a dark colour scheme nor the page's type.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pagelab.report.page import page as page
from pagelab.report.templating import FRAGMENT, PAGE, environment

if TYPE_CHECKING:
    from pagelab.results import Comparison

_TEMPLATES = environment("pagelab.report")


def render(comparison: Comparison) -> str:
    """The whole report as HTML."""
    return _render(comparison, PAGE)


def fragment(comparison: Comparison) -> str:
    """The answer, the charts and the figures as HTML for a notebook."""
    return _render(comparison, FRAGMENT)


def _render(comparison: Comparison, layout: str) -> str:
    template = _TEMPLATES.get_template("report.html")
    return template.render(page=page(comparison), layout=layout, whole=layout == PAGE)


def write(comparison: Comparison, path: Path) -> None:
    """Writes the report; raises OSError when `path` cannot be written."""
    path.write_text(render(comparison), encoding="utf-8")
