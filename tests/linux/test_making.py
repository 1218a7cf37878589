"""A first build says what it will do, and how far it is, with a terminal and without."""

import io
import shutil
import time
from pathlib import Path

import pytest
from rich.console import Console

from pagelab.errors import PagelabError
from pagelab.linux import build, layout, making, source
from pagelab.linux.layout import Layout


@pytest.fixture
def new(tmp_path: Path) -> Layout:
    """A checkout in which nothing was built; a kernel is said to take 600 files."""
    where = Layout(tmp_path)
    config = where.linux / "config" / where.version
    config.mkdir(parents=True)
    (config / "files").write_text("600\n")
    return where


def test_a_plan_has_the_files_and_the_time(new: Layout) -> None:
    one, two = making.plan(new, (), 1), making.plan(new, (), 2)
    assert "unpacks its source, compiles about 600 files" in one
    assert "by 1 processor," in one
    assert "by 2 processors," in two
    minutes = [
        int(said.partition("about ")[2].split("about ")[-1].split()[0]) for said in (one, two)
    ]
    assert minutes[0] > minutes[1] > 0


def test_a_source_that_is_there_is_not_unpacked(
    new: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "is_unpacked", lambda _: True)
    assert "unpacks" not in making.plan(new, ("kasan",), 2)
    assert "with kasan" in making.plan(new, ("kasan",), 2)


def test_the_last_build_knows_better(new: Layout) -> None:
    new.out(("vm",)).mkdir(parents=True)
    (new.out(("vm",)) / ".pagelab-total").write_text("700")
    assert build.expected(new, ("vm",)) == 700
    assert build.expected(new, ()) == 600
    assert build.expected(new.of(new.version), ("kasan",)) == 600


def test_files_of_a_build_that_goes_on_from_an_image_are_not_known(new: Layout) -> None:
    image = new.image()
    image.parent.mkdir(parents=True)
    (new.out() / ".pagelab-total").write_text("700")
    assert build.expected(new, ()) == 700
    image.touch()
    assert build.expected(new, ()) == 0


def test_without_a_terminal_there_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 5.0, 25.0, 30.0, 50.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    text = io.StringIO()
    with making.compiling(Console(file=text, width=40), 400) as told:
        told(10, 0, "a.o")
        told(100, 0, "b.o")
        told(110, 0, "c.o")
        told(500, 0, "d.o")
    assert text.getvalue().splitlines() == [
        "pagelab: compiling: 25 %, 100 of 400 files, 25 s, 1 min 15 s left, b.o",
        "pagelab: compiling: 500 files, 50 s, d.o",
    ]


def test_a_missing_program_is_named_before_anything_is_done(
    new: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        shutil, "which", lambda name: None if name in ("flex", "xz") else f"/usr/bin/{name}"
    )
    with pytest.raises(PagelabError, match="install flex, xz-utils"):
        making.make(new, (), 2, Console(file=io.StringIO()))
    assert not new.work.exists()


def test_the_number_of_files_is_that_of_the_last_build() -> None:
    where = layout.find()
    built = where.out() / ".pagelab-total"
    if not built.exists():
        pytest.skip("no kernel built: pagelab linux build")
    known = int((where.linux / "config" / where.version / "files").read_text())
    assert int(built.read_text()) == pytest.approx(known, rel=0.05)
