"""Kernels of other versions of Linux: which is meant, from what it is built, what it lacks."""

import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pagelab.errors import PagelabError, UsageError
from pagelab.linux import bisect, build, cli, fetch, layout, series, source, suite
from pagelab.linux.layout import Layout

PATCH = """\
From: A <a@b>
Subject: [PATCH] Kbuild: say two
Date: Thu, 1 Jan 1970 00:00:00 +0000

Two.
---
diff --git a/Kbuild b/Kbuild
--- a/Kbuild
+++ b/Kbuild
@@ -1 +1 @@
-one
+two
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A checkout with a patch for 6.12, a configuration for 7.2 as well, and no package."""
    where = Layout(tmp_path)
    where.patches.mkdir(parents=True)
    (where.patches / "series").write_text("0001.patch\n")
    (where.patches / "0001.patch").write_text(PATCH)
    config = where.linux / "config"
    for version in ("6.12", "7.2"):
        (config / version).mkdir(parents=True)
        (config / version / "base.config").write_text(f"CONFIG_V{version.replace('.', '_')}=y\n")
    (config / "base.config").write_text("CONFIG_ALL=y\n")
    (config / "debug-vm.config").write_text("CONFIG_DEBUG_VM=y\n")
    (config / "7.2" / "debug-vm.config").write_text("CONFIG_DEBUG_VM_7_2=y\n")
    (config / "7.2" / "debug-lean.config").write_text("CONFIG_LEAN=y\n")
    monkeypatch.setattr(fetch, "INSTALLED", tmp_path / "none")
    monkeypatch.setattr(layout, "find", lambda version=layout.VERSION: where.of(version))
    return where


def kernel(folder: Path, release: str) -> Path:
    """A kernel's source, in two files."""
    folder.mkdir(parents=True)
    numbers = zip(("VERSION", "PATCHLEVEL", "SUBLEVEL"), release.split("."), strict=True)
    (folder / "Makefile").write_text("".join(f"{name} = {n}\n" for name, n in numbers))
    (folder / "Kbuild").write_text("one\n")
    return folder


def archive(tmp_path: Path, name: str, release: str) -> Path:
    kernel(tmp_path / "packed" / "linux", release)
    made = tmp_path / name
    subprocess.run(["tar", "-caf", made, "-C", tmp_path / "packed", "linux"], check=True)
    return made


def prepare(origin: str) -> tuple[Path, str]:
    """What `build` does with --source; the tree, and its Kbuild."""
    where, given = cli._choose(None, origin)
    tree = source.prepare(where, given, lambda _: None)
    return tree, (tree / "Kbuild").read_text()


def test_a_folder_goes_by_its_makefile(lab: Layout, tmp_path: Path) -> None:
    tree, text = prepare(str(kernel(tmp_path / "mine", "7.2.12")))
    assert (tree, text) == (tmp_path / "build" / "linux-7.2" / "tree", "one\n")
    tree, text = prepare(str(kernel(tmp_path / "old", "6.12.3")))
    assert (tree, text) == (tmp_path / "build" / "linux" / "tree", "two\n")


def test_an_archive_and_a_package_that_has_one(lab: Layout, tmp_path: Path) -> None:
    made = archive(tmp_path, "linux-7.2.12.tar.xz", "7.2.12")
    tree, text = prepare(str(made))
    assert (tree.parent.name, text) == ("linux-7.2", "one\n")
    assert not list(tree.parent.glob("source-*"))  # nothing of the unpacking stays

    subprocess.run(["rm", "-r", tree], check=True)
    package = tmp_path / "package"
    (package / "DEBIAN").mkdir(parents=True)
    (package / "DEBIAN/control").write_text(
        "Package: linux-source-7.2\nVersion: 1\nArchitecture: all\nMaintainer: a\nDescription: b\n"
    )
    (package / "usr/src").mkdir(parents=True)
    made.rename(package / "usr/src/linux-source-7.2.tar.xz")
    deb = tmp_path / "linux-source-7.2_7.2.12-1_all.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", package, deb], check=True)
    assert prepare(str(deb)) == (tree, "one\n")
    assert series.git(tree, "log", "-1", "--format=%s", "base").strip() == str(deb)
    assert prepare(str(deb)) == (tree, "one\n")  # once more, from the tree


def test_an_archive_whose_name_lies(lab: Layout, tmp_path: Path) -> None:
    made = archive(tmp_path, "linux-7.2.tar.gz", "6.18.1")
    with pytest.raises(PagelabError, match=r"is Linux 6\.18\.1, not 7\.2"):
        prepare(str(made))


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        ("linux-source-6.18", r"unknown version of Linux '6\.18'.*Valid: 6\.12, 7\.2"),
        ("kernel.tar.xz", "does not say which version"),
        ("linux-source-7.2.tar.xz", "there is no"),
        ("linux-7.2", "there is no"),
    ],
)
def test_what_cannot_be_built_is_said(lab: Layout, origin: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        prepare(origin)


def test_the_name_of_a_package_is_the_distributions(
    lab: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert source.named("linux-source-7.2") == ("7.2", None)
    (tmp_path / "none").mkdir()
    archive(tmp_path, "none/linux-source-7.2.tar.xz", "7.2.12")
    assert prepare("linux-source-7.2")[1] == "one\n"


def test_source_and_kernel_must_agree(lab: Layout) -> None:
    result = CliRunner().invoke(
        cli.app, ["build", "--kernel", "6.12", "--source", "linux-source-7.2"]
    )
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == "linux-source-7.2 is Linux 7.2, not 6.12"


def test_a_version_has_its_own_options(lab: Layout) -> None:
    new = lab.of("7.2")
    assert build.debug_options(lab) == ["vm"]
    assert build.debug_options(new) == ["lean", "vm"]
    names = {
        path.relative_to(lab.linux / "config").as_posix()
        for path in build._fragments(new, "debug-vm.config")
    }
    assert names == {"debug-vm.config", "7.2/debug-vm.config"}
    with pytest.raises(UsageError, match="unknown debug option 'lean'"):
        build.configure(lab, ("lean",))


def test_kernels_lie_apart(lab: Layout) -> None:
    new = lab.of("7.2")
    assert new.out() != lab.out()
    assert new.out(("lean",)) != new.out()
    assert new.of("6.12") == lab
    assert len({bisect.apart(one).work for one in (lab, new)} | {lab.work, new.work}) == 4


@pytest.mark.parametrize("argv", [["--append", "quiet foliomap=on"], ["--walks", "check"]])
def test_a_design_that_the_kernel_lacks_is_refused(lab: Layout, argv: list[str]) -> None:
    new = lab.of("7.2")
    new.image().parent.mkdir(parents=True)
    new.image().touch()
    (new.out() / ".config").write_text("CONFIG_ALL=y\n")
    result = CliRunner().invoke(cli.app, ["run", "--kernel", "7.2", *argv, "--", "true"])
    assert isinstance(result.exception, PagelabError)
    assert "Linux 7.2 is built without patches" in str(result.exception)
    build.need_designs(new, (), "noreplace-smp foliomapper=on")  # are nobody's
    (new.out() / ".config").write_text("CONFIG_FOLIOMAP=y\n")
    build.need_designs(new, (), "foliomap=on foliomap_ids=1-2")
    new.patches.mkdir()
    with pytest.raises(PagelabError, match=r"no CONFIG_FBMM: .* Linux 7\.2 has FOLIOMAP$"):
        build.need_designs(new, (), "foliomap=on fbmm=on")


def test_a_manager_needs_the_patches(lab: Layout) -> None:
    new = lab.of("7.2")
    new.out().mkdir(parents=True)
    (new.out() / ".config").write_text("CONFIG_ALL=y\n")
    modules = lab.linux / "modules"
    modules.mkdir()
    (modules / "managers.toml").write_text('[basicmfs]\ntests = ["size=1M"]\n')
    result = CliRunner().invoke(
        cli.app, ["run", "--kernel", "7.2", "--manager", "basicmfs", "--", "true"]
    )
    assert isinstance(result.exception, PagelabError)
    assert "fbmm=on: the kernel in" in str(result.exception)


def test_a_suites_entry_says_its_kernel(lab: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    folder = lab.linux / "bench" / "feature"
    folder.mkdir(parents=True)
    (folder / "suite.toml").write_text(
        '[[entry]]\nname = "a"\nprogram = "a.c"\nkernel = "7.2"\ndebug = ["lean"]\n'
    )
    (job,) = suite.load(lab.linux / "bench", [])
    assert job.name == "feature/a [Linux 7.2]"
    assert suite.kernel(lab, job) == (lab.of("7.2").image(("lean",)), " --kernel 7.2 --debug lean")
    cli.run_benchmarks([])
    said = "no kernel of `pagelab linux build --kernel 7.2 --debug lean`"
    assert said in capsys.readouterr().out
    with pytest.raises(PagelabError, match=r"build --kernel 7\.2 --debug lean` first"):
        suite.need_kernel(lab, job)
