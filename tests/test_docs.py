"""The site is built without a warning, and every page or heading that is named is there."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown.extensions.toc import slugify  # type: ignore[import-untyped]

from processes import PATIENCE

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SUFFIXES = {".py", ".rs", ".c", ".h", ".md", ".toml", ".sh", ".mk", ".html"}
MENTION = re.compile(r"(?<![\w/.])docs/([\w/-]+\.(?:md|ipynb|png))(?:,\s\"([^\"]+)\")?")
# A comment that goes on in the next line.
CONTINUED = re.compile(r"\n\s*(?://[/!]?|#|\*)?[ \t]*")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", built],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return built


def test_the_site_has_every_page_and_a_search(site: Path) -> None:
    pages = {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")}
    assert pages <= {path.relative_to(site) for path in site.rglob("*.html")}
    index = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert "core.reorder_buffer" in index
    assert '"location":"notebook/' not in index


def test_the_site_needs_no_network(site: Path) -> None:
    asked = re.compile(r'(?:src|href)="(https?:[^"]+\.(?:js|css|woff2?|png|svg))"')
    for page in site.rglob("*.html"):
        assert asked.findall(page.read_text(encoding="utf-8")) == [], page


def test_commands_keys_and_fields_are_described(site: Path) -> None:
    for name, expected in (
        ("commands", ["pagelab trace convert", "--sample"]),
        ("machine", ["core.reorder_buffer", "caches.prefetch.strides.longest"]),
        ("result", ["walks.latency.p99", "windows[].cycles"]),
    ):
        page = (site / "reference" / f"{name}.html").read_text(encoding="utf-8")
        assert [one for one in expected if one not in page] == []


def headings(page: Path) -> set[str]:
    text = page.read_text(encoding="utf-8")
    return {slugify(found, "-") for found in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


def sources() -> Iterator[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        # The notebook names what there was on its day.
        if DOCS / "notebook" in path.parents:
            continue
        if path.suffix in SUFFIXES or name in {".ci/run", "Makefile", "Containerfile"}:
            yield path


def test_what_names_a_page_names_one_that_is_there() -> None:
    wrong = []
    for path in sources():
        text = CONTINUED.sub(" ", path.read_text(encoding="utf-8"))
        for name, heading in MENTION.findall(text):
            page = DOCS / name
            if "NAME" in name:
                continue
            if not page.exists():
                wrong.append(f"{path.relative_to(ROOT)}: {name} is missing")
            elif heading and slugify(heading, "-") not in headings(page):
                wrong.append(f"{path.relative_to(ROOT)}: {name} has no heading {heading!r}")
    assert wrong == []
