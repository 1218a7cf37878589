"""The report: one HTML file that opens offline.

Python turns a comparison into view models (shares, ticks, labels), Jinja templates turn those
into HTML and SVG. The charts are drawn by hand rather than by Altair because inline SVG from it
fixes fonts, sizes and colours when it is made: it would scale its text down to nothing on a
narrow screen and could follow neither a dark colour scheme nor the page's type.
"""

from pathlib import Path

from pagelab.report.page import page as page
from pagelab.report.templating import environment
from pagelab.results import Comparison

_TEMPLATES = environment("pagelab.report")


def render(comparison: Comparison) -> str:
    """The whole report as HTML."""
    return _TEMPLATES.get_template("report.html").render(page=page(comparison))


def write(comparison: Comparison, path: Path) -> None:
    """Writes the report; raises OSError when `path` cannot be written."""
    path.write_text(render(comparison), encoding="utf-8")
