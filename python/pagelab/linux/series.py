"""The patch series: hooks in the kernel's own files as patches, new files as source.

linux/patches has a patch for each commit, with its message and what it changes in files that the
kernel has; linux/source has the new files as they are in the end. The file `series` says in which
order, and after each patch which new files come with it:

    0011-mm-let-private-anonymous-memory-be-files.patch mm/fbmm/core.c include/linux/fbmm.h

The series of another version has folders of its own, linux/patches-7.2 and linux/source-7.2. A new
file that is the same in both lies in linux/source alone.

Commits are made of both in git's index, so that no file of the work tree is touched that stays the
same, and not everything is compiled again.
"""

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pagelab.errors import PagelabError
from pagelab.linux.layout import Layout
from pagelab.linux.process import capture

# Commits need an author; the machine may have none configured. Packing the whole kernel after the
# first commit takes minutes of a processor that compiles meanwhile.
SETTINGS = (
    *("-c", "user.name=pagelab", "-c", "user.email=pagelab@localhost"),
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false"),
)


def git(tree: Path, *args: str) -> str:
    """Run git in the tree and return what it printed."""
    return capture(["git", "-C", tree, *SETTINGS, *args])


@dataclass(frozen=True)
class Patch:
    """A commit of the series: its patch, and the new files that come with it.

    Each is in the first of the folders `sources` that has it.
    """

    path: Path
    sources: tuple[Path, ...]
    adds: tuple[str, ...] = ()

    def file(self, name: str) -> Path:
        """Place of a new file."""
        return next(filter(Path.is_file, (folder / name for folder in self.sources)))

    def fingerprint(self) -> str:
        """A line that changes when the patch does, or a file that comes with it."""
        digest = hashlib.sha256(self.path.read_bytes())
        for name in self.adds:
            digest.update(f"\0{name}\0{_mode(self.file(name))}\0".encode())
            digest.update(self.file(name).read_bytes())
        return f"{digest.hexdigest()}\n"


def read(layout: Layout) -> list[Patch]:
    """The series, in order; lines starting with # are comments.

    Raises:
        PagelabError: a patch or a file is not there, or a file comes with none or two patches.

    """
    series = layout.patches / "series"
    lines = series.read_text().splitlines() if series.exists() else []
    found = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    patches = [Patch(layout.patches / name, layout.sources, tuple(adds)) for name, *adds in found]
    named = [name for patch in patches for name in patch.adds]
    own = {str(path.relative_to(layout.source)) for path in files(layout)}
    for patch in patches:
        if not patch.path.is_file():
            raise PagelabError(f"{series} names {patch.path.name}, which is not there")
    for name in sorted(own.difference(named)):
        raise PagelabError(f"{layout.source / name} comes with no patch of {series}")
    for name in sorted(named):
        if not any((folder / name).is_file() for folder in layout.sources):
            raise PagelabError(f"{layout.source / name} is not there")
    if len(named) != len(set(named)):
        twice = next(name for name in named if named.count(name) > 1)
        raise PagelabError(f"{series} names {twice} twice")
    return patches


def files(layout: Layout) -> list[Path]:
    """The new files of this version alone."""
    return sorted(path for path in layout.source.rglob("*") if path.is_file())


def _mode(path: Path) -> str:
    return "100755" if os.access(path, os.X_OK) else "100644"


class Index:
    """git's index, apart from the one of the work tree."""

    def __init__(self, tree: Path, folder: Path, commit: str) -> None:
        """Start from a commit."""
        self.tree = tree
        self._env = os.environ | {"GIT_INDEX_FILE": str(folder / "index")}
        self._message = folder / "message"
        self.git("read-tree", commit)

    def git(self, *args: str | Path, **env: str) -> str:
        """Run git with this index."""
        return capture(["git", "-C", self.tree, *SETTINGS, *args], env=self._env | env)

    def apply(self, patch: Patch) -> str:
        """Apply the patch and add its files; what git complains of, or nothing."""
        done = subprocess.run(
            ["git", "-C", self.tree, "apply", "--cached", "--allow-empty", patch.path],
            capture_output=True,
            text=True,
            check=False,
            env=self._env,
        )
        for name in patch.adds:
            blob = self.git("hash-object", "-w", patch.file(name).resolve()).strip()
            entry = f"{_mode(patch.file(name))},{blob},{name}"
            self.git("update-index", "--add", "--cacheinfo", entry)
        return done.stderr if done.returncode else ""

    def commit(self, patch: Patch, parent: str) -> str:
        """Commit what was applied with the patch's message, author and date."""
        with patch.path.open("rb") as mail:
            header = subprocess.run(
                ["git", "-C", self.tree, "mailinfo", self._message, os.devnull],
                stdin=mail,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        fields = dict(line.split(": ", 1) for line in header.splitlines() if ": " in line)
        body = self._message.read_text().strip()
        self._message.write_text(f"{fields['Subject']}\n\n{body}\n")
        made = self.git("write-tree").strip()
        commit = ("commit-tree", made, "-p", parent, "-F", self._message)
        return self.git(
            *commit,
            GIT_AUTHOR_NAME=fields["Author"],
            GIT_AUTHOR_EMAIL=fields["Email"],
            GIT_AUTHOR_DATE=fields["Date"],
            GIT_COMMITTER_DATE=fields["Date"],
        ).strip()


def commit(tree: Path, patches: list[Patch], parent: str, release: str) -> str:
    """Make a commit of every patch on top of `parent`; the last one. No file of the tree changes.

    Raises:
        PagelabError: a patch does not apply; names the patch, the files and the hunks.

    """
    with tempfile.TemporaryDirectory(prefix="pagelab-series-") as folder:
        index = Index(tree, Path(folder), parent)
        for patch in patches:
            trouble = index.apply(patch)
            if trouble:
                # Lines such as: error: patch failed: mm/rmap.c:1159
                hunks = re.findall(r"^error: (.*)$", trouble, re.MULTILINE)
                raise PagelabError(
                    "\n".join(
                        [
                            f"{patch.path.name} does not apply to {release}:",
                            *(f"  {line}" for line in hunks),
                            "The series is made for the source it was last refreshed against; "
                            f"take that one, or port the patch in {tree} "
                            "and write it back with `pagelab linux refresh`.",
                        ]
                    )
                )
            parent = index.commit(patch, parent)
    return parent


def write(layout: Layout, say: Callable[[str], None]) -> list[Patch]:
    """Write the tree's commits on top of `base` back to the folders of this version.

    A new file comes whole with the commit that adds it, whichever commits change it later. What
    is left of a commit that does nothing else is nothing; it is named. A file that the version
    with the folder linux/source has just so is not written again.
    """
    tree = layout.tree
    new = set(_names(tree, "base", "HEAD", "--diff-filter=A"))
    commits = git(tree, "rev-list", "--reverse", "base..HEAD").split()
    old = [*layout.patches.glob("[0-9]*.patch"), *files(layout)]
    for path in old:
        path.unlink()
    lines: list[str] = []
    seen: set[str] = set()
    for one in commits:
        touched = _names(tree, f"{one}^", one)
        adds = sorted(name for name in touched if name in new and name not in seen)
        subject = git(tree, "log", "-1", "--format=%f", one).strip()
        if not adds and new.issuperset(touched):
            say(f"is part of the new files now: {subject}")
            continue
        seen.update(adds)
        name = f"{len(lines) + 1:04}-{subject[:52]}.patch"
        layout.patches.mkdir(parents=True, exist_ok=True)  # a version's first
        (layout.patches / name).write_text(_mail(tree, one, new))
        lines.append(" ".join([name, *adds]))
    (layout.patches / "series").write_text("".join(f"{line}\n" for line in lines))
    for name in sorted(new):
        text = git(tree, "show", f"HEAD:{name}")
        mode = git(tree, "ls-tree", "HEAD", "--", name).split()[0]
        if any(_is(folder / name, text, mode) for folder in layout.sources[1:]):
            continue
        path = layout.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if mode == "100755" else 0o644)
    return read(layout)


def _is(path: Path, text: str, mode: str) -> bool:
    return path.is_file() and path.read_text() == text and _mode(path) == mode


def _names(tree: Path, old: str, new: str, *options: str) -> list[str]:
    return git(tree, "diff", "--name-only", "--no-renames", *options, old, new).splitlines()


def _mail(tree: Path, commit: str, new: set[str]) -> str:
    """The commit as a mail, without the new files."""
    # Equal in a tree of any history
    names = ("--zero-commit", "--abbrev=9")
    options = (*names, "--no-signature", "--no-numbered", "--no-renames", "--stdout")
    without = (f":(exclude){name}" for name in sorted(new))
    mail = git(tree, "format-patch", *options, f"{commit}^..{commit}", "--", ".", *without)
    return mail or git(tree, "show", "--no-patch", "--format=email", commit) + "---\n"
