"""Keeping the patched tree: applying the series, naming what fails, never losing edits."""

from pathlib import Path

import pytest

from pagelab.errors import PagelabError
from pagelab.linux import bisect, mails, series, source
from pagelab.linux.layout import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A checkout whose kernel is two small files."""
    kernel = tmp_path / "kernel"
    kernel.mkdir()
    (kernel / "Makefile").write_text("VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 1\n")
    (kernel / "Kbuild").write_text("".join(f"line {number}\n" for number in range(20)))
    where = Layout(tmp_path)
    where.patches.mkdir(parents=True)
    return where


def _prepare(layout: Layout) -> Path:
    return source.prepare(layout, layout.root / "kernel", lambda _: None)


def _refresh(layout: Layout) -> list[Path]:
    return [patch.path for patch in source.refresh(layout, lambda _: None)]


def _commit(tree: Path, subject: str, **files: str) -> None:
    """Write files, `a__b_c` for a/b.c, and commit them."""
    for name, text in files.items():
        path = tree / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    series.git(tree, "add", "--all")
    series.git(tree, "commit", "-qm", subject)


def _commit_edit(tree: Path, old: str, new: str) -> None:
    path = tree / "Kbuild"
    path.write_text(path.read_text().replace(old, new))
    series.git(tree, "commit", "-qam", f"Kbuild: say {new.strip()}")


def test_an_edit_survives_refresh_and_a_fresh_tree(layout: Layout) -> None:
    tree = _prepare(layout)
    _commit_edit(tree, "line 3\n", "line three\n")
    _commit_edit(tree, "line 9\n", "line nine\n")
    names = [patch.name for patch in _refresh(layout)]
    assert names == ["0001-Kbuild-say-line-three.patch", "0002-Kbuild-say-line-nine.patch"]
    edited = (tree / "Kbuild").read_text()

    (tree / ".git" / "refs" / "tags" / "base").unlink()  # as if it had never been unpacked
    assert (_prepare(layout) / "Kbuild").read_text() == edited


def test_commits_survive_when_git_tidies_up(layout: Layout) -> None:
    tree = _prepare(layout)
    _commit_edit(tree, "line 3\n", "line three\n")
    series.git(tree, "pack-refs", "--all")
    _prepare(layout)
    assert "line three" in (tree / "Kbuild").read_text()


def test_patches_that_stay_are_not_applied_again(layout: Layout) -> None:
    tree = _prepare(layout)
    _commit_edit(tree, "line 3\n", "line three\n")
    _commit_edit(tree, "line 9\n", "line nine\n")
    last = _refresh(layout)[-1]
    first = series.git(tree, "rev-parse", "HEAD~1")
    last.write_text(last.read_text().replace("+line nine", "+line NINE"))
    _prepare(layout)
    assert series.git(tree, "rev-parse", "HEAD~1") == first
    assert "line NINE" in (tree / "Kbuild").read_text()

    (layout.patches / "series").write_text("")
    _prepare(layout)
    assert "line 3" in (tree / "Kbuild").read_text()


def test_every_patch_can_be_checked_out_apart(layout: Layout) -> None:
    tree = _prepare(layout)
    _commit_edit(tree, "line 3\n", "line three\n")
    _commit_edit(tree, "line 9\n", "line nine\n")
    _refresh(layout)
    (first, subject), (second, _) = bisect.patches(layout)
    assert subject == "Kbuild: say line three"

    apart = layout.root / "apart"
    for commit, nine in ((second, True), (first, False)):
        bisect.check_out(layout, apart, commit)
        text = (apart / "Kbuild").read_text()
        assert "line three" in text
        assert ("line nine" in text) is nine
    assert "line nine" in (tree / "Kbuild").read_text()


def test_refreshing_twice_writes_the_same_bytes(layout: Layout) -> None:
    tree = _prepare(layout)
    _commit_edit(tree, "line 3\n", "line three\n")
    first = _refresh(layout)[0].read_bytes()
    assert _refresh(layout)[0].read_bytes() == first


def test_a_patch_that_does_not_apply_is_named_with_its_hunk(layout: Layout) -> None:
    tree = _prepare(layout)
    _commit_edit(tree, "line 12\n", "line twelve\n")
    patch = _refresh(layout)[0]
    patch.write_text(patch.read_text().replace("-line 12", "-line 112"))
    with pytest.raises(PagelabError) as caught:
        _prepare(layout)
    text = str(caught.value)
    assert patch.name in text
    assert "Kbuild:10" in text  # the hunk starts three lines above the change
    assert "6.12.1" in text


def test_local_commits_are_not_thrown_away(layout: Layout) -> None:
    tree = _prepare(layout)
    _commit_edit(tree, "line 3\n", "line three\n")
    (layout.patches / "0001-other.patch").write_text("other")
    (layout.patches / "series").write_text("0001-other.patch\n")
    with pytest.raises(PagelabError, match="linux-refresh"):
        _prepare(layout)
    assert "line three" in (tree / "Kbuild").read_text()


def test_edits_that_were_not_built_are_not_overwritten(layout: Layout) -> None:
    tree = _prepare(layout)
    _commit(tree, "a: begin", mm__a_c="int a;\n", Kbuild="line 1\n")
    _refresh(layout)
    series.git(layout.root, "init", "-q")
    series.git(layout.root, "add", "linux")
    series.git(layout.root, "commit", "-qm", "linux")
    edited = layout.source / "mm" / "a.c"
    edited.write_text("int b;\n")
    _commit_edit(tree, "line 1\n", "line one\n")
    with pytest.raises(PagelabError, match=r"commit them first:\n.*source/mm/a\.c"):
        _refresh(layout)
    assert edited.read_text() == "int b;\n"

    series.git(layout.root, "commit", "-qam", "b")
    _refresh(layout)  # what is committed can be had again
    assert edited.read_text() == "int a;\n"


def test_a_series_that_names_a_missing_patch(layout: Layout) -> None:
    (layout.patches / "series").write_text("0001-gone.patch\n")
    with pytest.raises(PagelabError, match=r"0001-gone\.patch"):
        _prepare(layout)


def test_another_version_is_refused(layout: Layout) -> None:
    (layout.root / "kernel" / "Makefile").write_text("VERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = 0\n")
    with pytest.raises(PagelabError, match=r"6\.1\.0"):
        _prepare(layout)


def test_new_files_are_found_in_a_tree_that_ignores_all(layout: Layout) -> None:
    (layout.root / "kernel" / ".gitignore").write_text("*.o\n/*\n!/debian/\n")
    tree = _prepare(layout)
    _commit(tree, "Add new.c", new_c="int x;\n")
    _refresh(layout)
    assert (layout.source / "new.c").read_text() == "int x;\n"


def test_a_new_file_comes_whole_with_the_commit_that_adds_it(layout: Layout) -> None:
    tree = _prepare(layout)
    _commit(tree, "a: begin", mm__a_c="int a;\n", Kbuild="line 1\nobj-y += a.o\n")
    _commit(tree, "a: go on", mm__a_c="int a, b;\n")
    _commit(tree, "a: hook", mm__a_c="int a, b, c;\n", Kbuild="line 1\nobj-y += a.o\n2\n")
    whole = series.git(tree, "rev-parse", "HEAD^{tree}")
    said: list[str] = []
    first, second = source.refresh(layout, said.append)
    assert (first.adds, second.adds) == (("mm/a.c",), ())
    assert "mm/a.c" not in first.path.read_text() + second.path.read_text()
    assert said == ["is part of the new files now: a-go-on"]
    assert series.git(tree, "rev-parse", "HEAD^{tree}") == whole
    assert series.git(tree, "show", "HEAD~1:mm/a.c") == "int a, b, c;\n"
    assert series.git(tree, "status", "--porcelain") == ""

    sent = mails.write(layout, layout.root / "sent")
    assert "+int a, b, c;" in sent[0].read_text()
    series.git(tree, "checkout", "-q", "base")
    series.git(tree, "am", "-q", *map(str, sent))  # what is sent needs nothing of ours
    assert series.git(tree, "rev-parse", "HEAD^{tree}") == whole


def test_a_new_file_is_edited_where_it_lies(layout: Layout) -> None:
    tree = _prepare(layout)
    _commit(tree, "a: begin", mm__a_c="int a;\n", Kbuild="line 1\n")
    _commit(tree, "Say two", Kbuild="line 2\n")
    _refresh(layout)
    hook = (tree / "Kbuild").stat().st_mtime_ns
    (layout.source / "mm" / "a.c").write_text("int b;\n")
    _prepare(layout)
    assert (tree / "mm" / "a.c").read_text() == "int b;\n"
    assert (tree / "Kbuild").stat().st_mtime_ns == hook  # so it is not compiled again


def test_a_new_file_that_no_patch_brings(layout: Layout) -> None:
    layout.source.mkdir(parents=True)
    (layout.source / "lost.c").write_text("")
    with pytest.raises(PagelabError, match=r"lost\.c comes with no patch"):
        series.read(layout)


def test_a_new_file_keeps_its_mode(layout: Layout) -> None:
    tree = _prepare(layout)
    _commit(tree, "Add a tool", tool_sh="#!/bin/sh\n", Kbuild="line 1\n")
    (tree / "tool.sh").chmod(0o755)
    series.git(tree, "commit", "-qam", "and let it run")
    _refresh(layout)
    (tree / ".git" / "refs" / "tags" / "base").unlink()
    assert (_prepare(layout) / "tool.sh").stat().st_mode & 0o111


def test_mails_go_to_a_folder_that_is_relative(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = _prepare(layout)
    _commit_edit(tree, "line 3\n", "line three\n")
    _refresh(layout)
    _prepare(layout)
    monkeypatch.chdir(tmp_path)
    paths = mails.write(layout, Path("mails"))
    assert [path.name for path in paths] == ["0001-Kbuild-say-line-three.patch"]
    assert (tmp_path / "mails" / "series").read_text() == "0001-Kbuild-say-line-three.patch\n"


_COVER = "Subject: Kbuild: say {0}\nPrefix: RFC PATCH\nPatches: {1}\n\nWhy {0}.\n"


def test_mails_have_a_folder_and_a_letter_a_set(layout: Layout, tmp_path: Path) -> None:
    tree = _prepare(layout)
    for word, spelled in (("3", "three"), ("9", "nine"), ("5", "five")):
        _commit_edit(tree, f"line {word}\n", f"line {spelled}\n")
    _refresh(layout)
    _prepare(layout)
    cover = layout.patches / "cover"
    cover.mkdir()
    (cover / "1-odd.txt").write_text(_COVER.format("two", 2))
    (cover / "2-last.txt").write_text(_COVER.format("one", 1))
    paths = mails.write(layout, tmp_path / "sent")
    assert [str(path.relative_to(tmp_path / "sent")) for path in paths] == [
        "odd/0000-cover-letter.patch",
        "odd/0001-Kbuild-say-line-three.patch",
        "odd/0002-Kbuild-say-line-nine.patch",
        "last/0000-cover-letter.patch",
        "last/0001-Kbuild-say-line-five.patch",
    ]
    letter = paths[0].read_text()
    assert "Subject: [RFC PATCH 0/2] Kbuild: say two\n" in letter
    assert "\n\nWhy two.\n" in letter
    assert "***" not in letter
    assert "Subject: [RFC PATCH 1/1] Kbuild: say line five\n" in paths[4].read_text()

    (cover / "2-last.txt").write_text(_COVER.format("one", 3))
    with pytest.raises(PagelabError, match="odd 2, last 3 patches; the series has 3"):
        mails.write(layout, tmp_path / "again")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("Prefix: RFC PATCH\n", "", "'Prefix: "),
        ("Patches: 1", "Patches: all", "Patches: all is no"),
    ],
)
def test_a_letter_without_its_header(layout: Layout, old: str, new: str, told: str) -> None:
    (layout.patches / "cover").mkdir()
    (layout.patches / "cover" / "1-a.txt").write_text(_COVER.format("a", 1).replace(old, new))
    with pytest.raises(PagelabError, match=told):
        mails.read(layout)


def test_a_file_that_two_versions_have_alike_lies_in_one_place(layout: Layout) -> None:
    old = _prepare(layout)
    _commit(old, "a: begin", mm__a_c="int a;\n", mm__b_c="int b;\n", Kbuild="line 1\n")
    _refresh(layout)
    (layout.root / "kernel" / "Makefile").write_text("VERSION = 7\nPATCHLEVEL = 2\nSUBLEVEL = 1\n")
    (layout.linux / "config" / "7.2").mkdir(parents=True)
    new = layout.of("7.2")
    tree = _prepare(new)
    assert not (tree / "mm").exists()  # a series of one version is not another's
    _commit(tree, "a: begin", mm__a_c="int a;\n", mm__b_c="int b, c;\n", Kbuild="line one\n")
    (patch,) = source.refresh(new, lambda _: None)
    assert patch.path == layout.linux / "patches-7.2" / "0001-a-begin.patch"
    assert patch.adds == ("mm/a.c", "mm/b.c")
    assert [path.relative_to(layout.linux) for path in series.files(new)] == [
        Path("source-7.2/mm/b.c")
    ]
    assert (layout.source / "mm" / "b.c").read_text() == "int b;\n"

    (layout.source / "mm" / "a.c").write_text("int d;\n")
    for version, b in ((layout, "int b;\n"), (new, "int b, c;\n")):
        made = source.prepare(version, None, lambda _: None)
        assert (made / "mm" / "a.c").read_text() == "int d;\n"
        assert (made / "mm" / "b.c").read_text() == b


def test_a_shared_file_that_is_gone(layout: Layout) -> None:
    (layout.linux / "config" / "7.2").mkdir(parents=True)
    new = layout.of("7.2")
    new.patches.mkdir()
    (new.patches / "0001-a.patch").write_text("")
    (new.patches / "series").write_text("0001-a.patch mm/a.c\n")
    with pytest.raises(PagelabError, match=r"source-7\.2/mm/a\.c is not there"):
        series.read(new)
