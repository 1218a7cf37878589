"""The site is built without a warning, and every page or heading that is named is there."""

import html
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from pagelab import _core
from pagelab.cli import app
from processes import PATIENCE

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SUFFIXES = {".py", ".rs", ".c", ".h", ".md", ".toml", ".sh", ".mk", ".html"}
MENTION = re.compile(r"(?<![\w/.])docs/([\w/-]+\.(?:md|ipynb|png))(?:,\s\"([^\"]+)\")?")
LINK = re.compile(r'<(?:a|img|link|script)\b[^>]*?\s(?:href|src)="([^"]*)"')
ANCHOR = re.compile(r'\s(?:id|name)="([^"]+)"')
ELSEWHERE = re.compile(r"[a-z]+:|//")
# Pages that are no files; the site's build finds them.
MADE = {f"reference/{page}.md" for page in ("commands", "machine", "result")}
# A comment that goes on in the next line.
CONTINUED = re.compile(r"\n\s*(?://[/!]?|#|\*)?[ \t]*")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is missing")
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


def dead_links(site: Path) -> list[str]:
    """Links of a site's pages to a file or an anchor of it that is not there."""
    texts = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    anchors = {page: set(ANCHOR.findall(text)) for page, text in texts.items()}
    dead = []
    for page, text in texts.items():
        for link in map(html.unescape, LINK.findall(text)):
            path, _, anchor = link.partition("#")
            target = Path(os.path.normpath(page.parent / unquote(path))) if path else page
            target = target / "index.html" if target.is_dir() else target
            known = anchors.get(target)
            if ELSEWHERE.match(link):
                continue
            if not target.exists() or (anchor and known is not None and anchor not in known):
                dead.append(f"{page.relative_to(site)}: {link}")
    return dead


def test_no_link_is_dead(site: Path) -> None:
    # A page for addresses that are none: it is given from anywhere, and links from the root.
    (site / "404.html").unlink(missing_ok=True)
    assert dead_links(site) == []


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="one">A</h1><a href="b.html#two">B</a><a href="#one">A</a>'
        '<a class="x" href="https://example.org/none">C</a><img alt="" src="c.png">'
    )
    (tmp_path / "b.html").write_text('<h1 id="two">B</h1><a href="./a.html">A</a>')
    (tmp_path / "c.png").write_bytes(b"")
    assert dead_links(tmp_path) == []
    (tmp_path / "c.png").unlink()
    (tmp_path / "b.html").write_text('<a href="d.html">D</a><a href="#three">B</a>')
    assert sorted(dead_links(tmp_path)) == [
        "a.html: b.html#two",
        "a.html: c.png",
        "b.html: #three",
        "b.html: d.html",
    ]


def text_of(site: Path, name: str) -> str:
    """The text of a page of the reference, without tags."""
    page = (site / "reference" / f"{name}.html").read_text(encoding="utf-8")
    return html.unescape(re.sub(r"<[^>]*>", "", page))


def test_every_command_and_option_is_described(site: Path) -> None:
    from typer.main import get_command

    words = set(text_of(site, "commands").replace("/", " ").replace(",", " ").split())

    def missing(command: Any, path: list[str]) -> Iterator[str]:
        for name, one in getattr(command, "commands", {}).items():
            if not one.hidden:
                yield from missing(one, [*path, name])
        for option in command.params if path else []:
            shown = option.param_type_name == "option" and not option.hidden
            if shown and "--help" not in option.opts and words.isdisjoint(option.opts):
                yield " ".join([*path, *option.opts])

    command = get_command(app)
    assert list(missing(command, [])) == []
    assert "pagelab trace convert" in text_of(site, "commands")


def test_sources_that_a_page_shows_are_there(site: Path) -> None:
    page = (site / "developers" / "adding.html").read_text(encoding="utf-8")
    text = html.unescape(re.sub(r"<[^>]*>", "", page))
    assert "impl Prefetcher for Stride" in text
    assert "impl Policy for Nru" in text


def members(schema: dict[str, Any], name: str, path: str) -> Iterator[tuple[str, str]]:
    """The keys of a type and of those in it, but for lists: the type's key, and its path."""
    table = schema["$defs"][name] if name else schema
    for key, value in table.get("properties", {}).items():
        yield f"{name}.{key}", f"{path}{key}"
        for one in [value, *value.get("anyOf", [])]:
            if "$ref" in one:
                yield from members(schema, one["$ref"].rpartition("/")[2], f"{path}{key}.")


def test_every_key_and_field_is_described(site: Path) -> None:
    for page, made, least in (
        ("machine", _core.machine_schema(), {"core.reorder_buffer", "dpt.dmc.4K.ways"}),
        ("result", _core.run_schema(), {"walks.latency.p99", "os.blocks.given"}),
    ):
        words = set(text_of(site, page).split())
        schema = json.loads(made)
        # A type is described once, wherever it is; a machine's keys have a page of their own.
        paths = [one for one in members(schema, "", "") if not one[1].startswith("machine.")]
        assert least <= {path for _, path in paths}
        described = {key for key, path in paths if path in words}
        assert {key for key, _ in paths} - described == set()


def test_numbers_have_their_units(site: Path) -> None:
    keys = (site / "reference" / "machine.html").read_text(encoding="utf-8")
    fields = (site / "reference" / "result.html").read_text(encoding="utf-8")
    for page, name, unit in (
        (keys, "dram.latency_ns", "number, ns"),
        (keys, "core.misprediction", "integer, cycles"),
        (keys, "core.width", "integer"),
        (keys, "caches.l1.kib", "integer, KiB"),
        (fields, "cycles.frequency_hz", "number, Hz"),
        (fields, "cycles.data", "integer, cycles"),
        (fields, "walks.latency.p50", "integer, cycles"),
        (fields, "walks.count", "integer"),
        (fields, "os.peak_table_bytes", "integer, bytes"),
    ):
        assert re.search(rf"<code>{re.escape(name)}</code></td>\s*<td>{unit}</td>", page), name


def headings(page: Path) -> set[str]:
    from markdown.extensions.toc import slugify  # type: ignore[import-untyped]

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
    slugify = pytest.importorskip("markdown.extensions.toc").slugify
    wrong = []
    for path in sources():
        text = CONTINUED.sub(" ", path.read_text(encoding="utf-8"))
        for name, heading in MENTION.findall(text):
            page = DOCS / name
            if "NAME" in name or name in MADE:
                continue
            if not page.exists():
                wrong.append(f"{path.relative_to(ROOT)}: {name} is missing")
            elif heading and slugify(heading, "-") not in headings(page):
                wrong.append(f"{path.relative_to(ROOT)}: {name} has no heading {heading!r}")
    assert wrong == []
