"""The page of what was measured in guests."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

from pagelab.errors import PagelabError
from pagelab.linux import page
from pagelab.linux.page import Chart

MARKDOWN = """\
# Costs

Printed by <script>alert(1)</script>.

## mmap()

| pages | off |  on |
| ----- | --: | --: |
| 1     |  10 |  15 |

## Not measured

- time
"""


class Seen(HTMLParser):
    """What a browser would show: headings, cells, columns."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.path: list[str] = []
        self.text: list[tuple[str, str]] = []
        self.columns: list[tuple[str, float]] = []
        self.scripts = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note where text is, and columns."""
        given = dict(attrs)
        self.path.append(tag)
        self.scripts += tag == "script"
        if (given.get("class") or "").startswith("column f"):
            style, tip = given["style"] or "", given["data-tip"] or ""
            self.columns.append((tip, float(style.removeprefix("height:").removesuffix("%"))))

    def handle_data(self, data: str) -> None:
        """Note text."""
        if data.strip():
            self.text.append((self.path[-1], data.strip()))


def test_text_tables_and_charts_are_on_the_page(tmp_path: Path) -> None:
    chart = Chart("mmap()", "Instructions", ["off", "on"], {"1": [10.0, 15.0], "2": [20.0, None]})
    report = page.save(MARKDOWN, [chart], {}, tmp_path / "new")
    assert (tmp_path / "new" / "report.md").read_text() == MARKDOWN
    seen = Seen(report.path.read_text())
    titles = [text for tag, text in seen.text if tag in ("h1", "h2")]
    assert titles == ["Costs", "mmap()", "Not measured"]
    assert [text for tag, text in seen.text if tag == "td"] == ["1", "10", "15"]
    tips = [tip for tip, _ in seen.columns]
    heights = [height for _, height in seen.columns]
    assert tips == ["1, off: 10.000", "1, on: 15.000", "2, off: 20.000"]
    assert heights[1] / heights[0] == pytest.approx(1.5)
    assert heights[2] / heights[0] == pytest.approx(2)


def test_what_a_benchmark_printed_is_no_program(tmp_path: Path) -> None:
    without = page.save("# Costs\n", [], {}, tmp_path).path.read_text()
    assert Seen(page.save(MARKDOWN, [], {}, tmp_path).path.read_text()).scripts == 1
    assert Seen(without).scripts == 1


def test_a_page_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PagelabError, match="cannot write into"):
        page.save(MARKDOWN, [], {}, tmp_path / "file")
