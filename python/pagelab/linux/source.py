"""The patched kernel tree: a git repository with the distribution's source as tag `base`.

The series in linux/patches is applied on top as commits, so that a developer edits the tree with
ordinary git and `refresh` writes the commits back as patches. The tag `series` marks the last
commit that came from linux/patches: commits or edits beyond it are never thrown away.
"""

import hashlib
import itertools
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from pagelab.errors import PagelabError
from pagelab.linux.layout import PACKAGE, VERSION, Layout
from pagelab.linux.process import capture

TARBALL = Path(f"/usr/src/{PACKAGE}.tar.xz")
# Commits need an author; the machine may have none configured.
IDENTITY = ("-c", "user.name=pagelab", "-c", "user.email=pagelab@localhost")


def git(tree: Path, *args: str) -> str:
    """Run git in the tree and return what it printed."""
    return capture(["git", "-C", tree, *IDENTITY, *args])


def read_series(patches: Path) -> list[Path]:
    """The patches to apply, in order; lines starting with # are comments."""
    series = patches / "series"
    if not series.exists():
        return []
    lines = (line.strip() for line in series.read_text().splitlines())
    paths = [patches / line for line in lines if line and not line.startswith("#")]
    for path in paths:
        if not path.is_file():
            raise PagelabError(f"{series} names {path.name}, which is not there")
    return paths


def fingerprint(patches: list[Path]) -> str:
    """A line a patch, which changes when the patch does."""
    return "".join(f"{hashlib.sha256(patch.read_bytes()).hexdigest()}\n" for patch in patches)


def prepare(layout: Layout, source: Path | None, say: Callable[[str], None]) -> Path:
    """Make sure the tree exists and carries the current series; return it.

    `source` replaces the distribution's package: a kernel source directory, which is copied.
    """
    patches = read_series(layout.patches)
    tree = layout.tree
    if not _is_unpacked(tree):
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
            f"linux/patches changed, but {tree} has commits or edits of its own: write them back "
            "with `make linux-refresh`, or drop them with "
            f"`git -C {tree} reset --hard series`"
        )
    keep = _common(applied.read_text() if applied.exists() else "", mark)
    say(f"applying {len(patches) - keep} of {len(patches)} patches")
    apply_series(tree, patches, keep)
    applied.write_text(mark)
    return tree


def _common(old: str, new: str) -> int:
    """How many patches at the start of the series are still the same."""
    pairs = zip(old.splitlines(), new.splitlines(), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def apply_series(tree: Path, patches: list[Path], keep: int) -> None:
    """Commit every patch on top of `base`; the first `keep` are there already.

    What they changed keeps its time of change, so that not everything is compiled again.

    Raises:
        PagelabError: a patch does not apply; names the patch, the files and the hunks. The
            patches before it stay applied.

    """
    there = git(tree, "rev-list", "--reverse", "base..series").split()
    git(tree, "reset", "--quiet", "--hard", there[keep - 1] if keep else "base")
    for patch in patches[keep:]:
        check = subprocess.run(
            ["git", "-C", tree, "apply", "--check", patch],
            capture_output=True,
            text=True,
            check=False,
        )
        if check.returncode != 0:
            # Lines such as: error: patch failed: mm/rmap.c:1159
            hunks = re.findall(r"^error: (.*)$", check.stderr, re.MULTILINE)
            raise PagelabError(
                "\n".join(
                    [
                        f"{patch.name} does not apply to {_release(tree)}:",
                        *(f"  {line}" for line in hunks),
                        f"The series is made for the {PACKAGE} it was last refreshed against; "
                        "install that version, or port the patch in "
                        f"{tree} and run `make linux-refresh`.",
                    ]
                )
            )
        git(tree, "am", "--quiet", "--committer-date-is-author-date", str(patch))
    git(tree, "tag", "--force", "series")


def refresh(layout: Layout) -> list[Path]:
    """Write the commits on top of `base` back to linux/patches, and the file `series`."""
    tree = layout.tree
    if git(tree, "status", "--porcelain").strip():
        raise PagelabError(f"{tree} has uncommitted edits; commit them first")
    for old in read_series(layout.patches):
        old.unlink()
    git(
        tree,
        "format-patch",
        "--quiet",
        "--zero-commit",
        "--no-signature",
        "--no-numbered",
        "--output-directory",
        str(layout.patches),
        "base..HEAD",
    )
    patches = sorted(layout.patches.glob("[0-9]*.patch"))
    (layout.patches / "series").write_text("".join(f"{patch.name}\n" for patch in patches))
    git(tree, "tag", "--force", "series")
    (tree / ".git" / "pagelab-series").write_text(fingerprint(patches))
    return patches


def _is_unpacked(tree: Path) -> bool:
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
    if source is not None:
        if not (source / "Kbuild").is_file():
            raise PagelabError(f"{source} is not a kernel source directory (it has no Kbuild)")
        say(f"copying {source}")
        shutil.copytree(source, tree, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        label = str(source.resolve())
    else:
        if not TARBALL.is_file():
            raise PagelabError(
                f"{TARBALL} is missing: install it with `apt-get install {PACKAGE}` "
                "or name a kernel source with --source DIR"
            )
        say(f"unpacking {TARBALL}")
        unpacked = layout.work / PACKAGE
        if unpacked.exists():
            shutil.rmtree(unpacked)
        capture(["tar", "-xf", TARBALL, "-C", layout.work])
        unpacked.rename(tree)
        label = str(TARBALL)
    if not _release(tree).startswith(f"{VERSION}."):
        raise PagelabError(f"{label} is Linux {_release(tree)}; the series is for {VERSION}")
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


def _has_local_work(tree: Path) -> bool:
    edits = git(tree, "status", "--porcelain", "--untracked-files=no").strip()
    beyond = git(tree, "rev-list", "--count", "series..HEAD").strip()
    return bool(edits) or beyond != "0"
