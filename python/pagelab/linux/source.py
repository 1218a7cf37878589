"""The patched kernel tree: a git repository with the distribution's source as tag `base`.

The series of linux/patches and linux/source is applied on top as commits (series.py), so that a
developer edits the tree with ordinary git and `refresh` writes the commits back. The tag `series`
marks the last commit that came from there: commits or edits beyond it are never thrown away.
"""

import itertools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from pagelab.errors import PagelabError, UsageError
from pagelab.linux import fetch, series
from pagelab.linux.layout import Layout, package
from pagelab.linux.lock import only_one
from pagelab.linux.process import capture
from pagelab.linux.series import Patch, git

# linux-source-7.2, linux-source-7.2_7.2.12-1_all.deb, linux-7.2.12.tar.xz
_NAMED = re.compile(r"linux-(?:source-)?(\d+\.\d+)(?![\d])")


def named(origin: str) -> tuple[str, Path | None]:
    """Version of Linux that a source is of, and where it is.

    It is a folder, an archive, a Debian package, or the name of one, which is nowhere yet: the
    distribution's.

    Raises:
        UsageError: there is no such file, or its name does not say what it is.

    """
    path = Path(origin)
    if path.is_dir():
        if not (path / "Kbuild").is_file():
            raise UsageError(f"{path} is not a kernel source directory (it has no Kbuild)")
        return _version(_release(path)), path
    said = _NAMED.match(path.name)
    if said is None:
        raise UsageError(
            f"'{origin}' does not say which version of Linux it is: a folder with a kernel's "
            "source, linux-7.2.12.tar.xz, linux-source-7.2_7.2.12-1_all.deb or linux-source-7.2 do"
        )
    if path.name == origin == package(said[1]) and not path.exists():
        return said[1], None
    if not path.is_file():
        raise UsageError(f"there is no {origin}")
    return said[1], path


def prepare(layout: Layout, source: Path | None, say: Callable[[str], None]) -> Path:
    """Make sure the tree exists and carries the current series; return it.

    `source` replaces the distribution's package: a kernel's source as a folder, which is copied,
    an archive or a Debian package. A version that nobody has patched has no series.
    """
    with only_one(layout.work):
        return _prepare(layout, source, say)


def _prepare(layout: Layout, source: Path | None, say: Callable[[str], None]) -> Path:
    patches = series.read(layout)
    tree = layout.tree
    if not is_unpacked(tree):
        _unpack(layout, source, say)
    elif source is not None and git(tree, "log", "-1", "--format=%s", "base").strip() != str(
        source.resolve()
    ):
        raise PagelabError(f"{tree} holds another source; delete it to start from {source}")

    mark = fingerprint(patches)
    applied = tree / ".git" / "pagelab-series"
    if applied.exists() and applied.read_text() == mark:
        return tree
    if _has_local_work(tree):
        raise PagelabError(
            f"{layout.patches} or {' or '.join(map(str, layout.sources))} changed, but {tree} has "
            f"commits or edits of its own: write them back with `{layout.refresh}`, or drop them "
            "with "
            f"`git -C {tree} reset --hard series`"
        )
    keep = _common(applied.read_text() if applied.exists() else "", mark)
    if patches:
        say(f"applying {len(patches) - keep} of {len(patches)} patches")
    apply_series(tree, patches, keep)
    applied.write_text(mark)
    return tree


def _common(old: str, new: str) -> int:
    """Number of patches at the start of the series that are still the same."""
    pairs = zip(old.splitlines(), new.splitlines(), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def apply_series(tree: Path, patches: list[Patch], keep: int) -> None:
    """Commit every patch on top of `base`; the first `keep` are there already.

    What they changed keeps its time of change, so that not everything is compiled again.

    Raises:
        PagelabError: a patch does not apply; the tree stays as it was.

    """
    there = git(tree, "rev-list", "--reverse", "base..series").split()
    parent = there[keep - 1] if keep else "base"
    last = series.commit(tree, patches[keep:], parent, _release(tree))
    git(tree, "reset", "--quiet", "--hard", last)
    git(tree, "tag", "--force", "series")


def refresh(layout: Layout, say: Callable[[str], None]) -> list[Patch]:
    """Write the commits on top of `base` back to the folders of this version."""
    tree = layout.tree
    if git(tree, "status", "--porcelain").strip():
        raise PagelabError(f"{tree} has uncommitted edits; commit them first")
    if lost := _only_here(layout):
        raise PagelabError(
            "\n".join(
                [
                    f"these edits under {layout.linux} would be overwritten; commit them first:",
                    *lost,
                ]
            )
        )
    patches = series.write(layout, say)
    last = series.commit(tree, patches, "base", _release(tree))
    if git(tree, "diff", "--name-only", "HEAD", last).strip():
        raise PagelabError(f"what was written back is not what {tree} has: {last}")
    git(tree, "reset", "--quiet", "--soft", last)
    git(tree, "tag", "--force", "series")
    (tree / ".git" / "pagelab-series").write_text(fingerprint(patches))
    return patches


def _only_here(layout: Layout) -> list[str]:
    """Edits of the patches and the new files that are neither in the tree nor in a commit."""
    applied = layout.tree / ".git" / "pagelab-series"
    if applied.exists() and applied.read_text() == fingerprint(series.read(layout)):
        return []
    folders = [path.name for path in (layout.patches, *layout.sources)]
    status = ["git", "-C", str(layout.linux), "status", "--porcelain", "--", *folders]
    done = subprocess.run(status, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


def fingerprint(patches: list[Patch]) -> str:
    """A line a patch."""
    return "".join(patch.fingerprint() for patch in patches)


def is_unpacked(tree: Path) -> bool:
    """True if the source is there, whole."""
    # Asked of git, which moves tags out of their files when it tidies up.
    verify = ["git", "-C", str(tree), "rev-parse", "--quiet", "--verify", "refs/tags/base"]
    return (tree / ".git").exists() and not subprocess.run(
        verify, stdout=subprocess.DEVNULL, check=False
    ).returncode


def _unpack(layout: Layout, source: Path | None, say: Callable[[str], None]) -> None:
    tree = layout.tree
    layout.work.mkdir(parents=True, exist_ok=True)
    if tree.exists():
        shutil.rmtree(tree)
    if source is not None and source.is_dir():
        say(f"copying {source}")
        shutil.copytree(source, tree, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        label = str(source.resolve())
    else:
        archive = source.resolve() if source is not None else fetch.tarball(layout, say)
        say(f"unpacking {archive}")
        with tempfile.TemporaryDirectory(prefix="source-", dir=layout.work) as folder:
            fetch.unpack(archive, Path(folder)).rename(tree)
        label = str(archive)
    if _version(_release(tree)) != layout.version:
        raise PagelabError(f"{label} is Linux {_release(tree)}, not {layout.version}")
    _track_everything(tree)
    capture(["git", "init", "--quiet", tree])
    git(tree, "add", "--all", "--force")
    git(tree, "commit", "--quiet", "--message", label)
    git(tree, "tag", "base")
    git(tree, "tag", "series")


def _track_everything(tree: Path) -> None:
    # Debian's source tells git to ignore all files, so new ones would not make it into patches.
    ignore = tree / ".gitignore"
    if ignore.exists():
        lines = ignore.read_text().splitlines(keepends=True)
        ignore.write_text("".join(line for line in lines if line.strip() != "/*"))


def _release(tree: Path) -> str:
    fields = re.findall(
        r"^(?:VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)$", (tree / "Makefile").read_text(), re.MULTILINE
    )
    return ".".join(fields)


def _version(release: str) -> str:
    """Without the number of the stable release."""
    return ".".join(release.split(".")[:2])


def _has_local_work(tree: Path) -> bool:
    edits = git(tree, "status", "--porcelain", "--untracked-files=no").strip()
    beyond = git(tree, "rev-list", "--count", "series..HEAD").strip()
    return bool(edits) or beyond != "0"
