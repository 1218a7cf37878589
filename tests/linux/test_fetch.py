"""Fetching the kernel's source, with a real package and an apt-get of the test's own."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pagelab.errors import PagelabError
from pagelab.linux import fetch
from pagelab.linux.layout import PACKAGE, Layout

CONTENT = b"an archive"


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A machine without the package, whose apt-get downloads one that was made here."""
    monkeypatch.setattr(fetch, "INSTALLED", tmp_path / "none")
    tree = tmp_path / "package"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        f"Package: {PACKAGE}\nVersion: 1\nArchitecture: all\nMaintainer: a\nDescription: b\n"
    )
    (tree / "usr/src").mkdir(parents=True)
    (tree / f"usr/src/{PACKAGE}.tar.xz").write_bytes(CONTENT)
    made = tmp_path / "linux-source_1_all.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, made], check=True)
    apt(tmp_path, monkeypatch, f'test "$*" = "download {PACKAGE}" && cp {made} .')
    return Layout(tmp_path / "site", builds=tmp_path / "cache")


def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str) -> None:
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    (folder / "apt-get").write_text(f"#!/bin/sh\n{does}\n")
    (folder / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def kept(layout: Layout) -> list[Path]:
    return [path for path in layout.cache.rglob("*") if path.is_file()]


def test_it_is_fetched_once(layout: Layout) -> None:
    said: list[str] = []
    found = fetch.tarball(layout, said.append)
    assert found.read_bytes() == CONTENT
    assert kept(layout) == [found]
    assert fetch.tarball(layout, said.append) == found
    assert len(said) == 1


@pytest.mark.parametrize(
    "does",
    [
        "exit 100",
        "printf half >linux-source_1_all.deb",
        "printf half >linux-source_1_all.deb; exit 1",
    ],
)
def test_what_was_not_fetched_whole_leaves_nothing(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    apt(tmp_path, monkeypatch, does)
    with pytest.raises(PagelabError):
        fetch.tarball(layout, lambda _: None)
    assert kept(layout) == []


def test_a_full_disk_is_named_before_anything_is_fetched(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        free = 1 << 30

    monkeypatch.setattr(shutil, "disk_usage", lambda _: Full)
    with pytest.raises(PagelabError, match=r"1024 MB left.*XDG_CACHE_HOME"):
        fetch.tarball(layout, lambda _: None)
    assert kept(layout) == []
