"""The patch series as mails: each patch with its new files, and cover letters.

A version's folder of patches may have cover letters, `cover/N-NAME.txt`, in order; each begins
with a header:

    Subject: mm: exact folio accounting
    Prefix: RFC PATCH
    Patches: 9

Patches belong to the letters in order. Without letters the series is written as it is, for quilt.
"""

from dataclasses import dataclass
from pathlib import Path

from pagelab.errors import PagelabError
from pagelab.linux.layout import Layout
from pagelab.linux.series import git

_FIELDS = ("Subject", "Prefix", "Patches")
_COMMON = ("--zero-commit", "--no-signature", "--quiet")


@dataclass(frozen=True)
class Cover:
    """A cover letter, and the number of patches that follow it."""

    name: str
    subject: str
    prefix: str
    patches: int
    text: str


def write(layout: Layout, folder: Path) -> list[Path]:
    """Write the series of the tree to the folder, one folder a cover letter.

    Raises:
        PagelabError: a cover letter is malformed, or the letters count other patches.

    """
    covers = read(layout)
    where = folder.absolute()  # git has another current folder
    if not covers:
        return _plain(layout, where)
    commits = git(layout.tree, "rev-list", "--reverse", "base..series").split()
    if sum(cover.patches for cover in covers) != len(commits):
        counted = ", ".join(f"{cover.name} {cover.patches}" for cover in covers)
        raise PagelabError(
            f"{layout.patches / 'cover'} has letters for {counted} patches; "
            f"the series has {len(commits)}"
        )
    written: list[Path] = []
    start = "base"
    for cover in covers:
        commits, last = commits[cover.patches :], commits[cover.patches - 1]
        written += _set(layout, where / cover.name, cover, f"{start}..{last}")
        start = last
    return written


def read(layout: Layout) -> list[Cover]:
    """The cover letters of a version, in order."""
    return [_parse(path) for path in sorted((layout.patches / "cover").glob("*.txt"))]


def _parse(path: Path) -> Cover:
    header, _, text = path.read_text().partition("\n\n")
    fields = dict(line.split(": ", 1) for line in header.splitlines() if ": " in line)
    for field in _FIELDS:
        if field not in fields:
            raise PagelabError(
                f"{path}: there is no line '{field}: ...' before the first empty one"
            )
    if not fields["Patches"].isdecimal() or not int(fields["Patches"]):
        raise PagelabError(f"{path}: Patches: {fields['Patches']} is no number of patches")
    name = path.stem.partition("-")[2] or path.stem
    return Cover(name, fields["Subject"], fields["Prefix"], int(fields["Patches"]), text.strip())


def _plain(layout: Layout, where: Path) -> list[Path]:
    options = (*_COMMON, "--no-numbered", "--output-directory", str(where))
    git(layout.tree, "format-patch", *options, "base..series")
    patches = sorted(where.glob("[0-9]*.patch"))
    (where / "series").write_text("".join(f"{patch.name}\n" for patch in patches))
    return patches


def _set(layout: Layout, where: Path, cover: Cover, commits: str) -> list[Path]:
    options = (*_COMMON, "--numbered", "--cover-letter", f"--subject-prefix={cover.prefix}")
    git(layout.tree, "format-patch", *options, "--output-directory", str(where), commits)
    patches = sorted(where.glob("[0-9]*.patch"))
    letter = patches[0].read_text()
    letter = letter.replace("*** SUBJECT HERE ***", cover.subject)
    patches[0].write_text(letter.replace("*** BLURB HERE ***", cover.text))
    return patches
