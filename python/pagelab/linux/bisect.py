"""Every patch by itself: build and boot the kernel after each of them, as `git bisect` would."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pagelab.errors import PagelabError
from pagelab.linux import build, guest, series
from pagelab.linux.layout import Layout

BOOTS = ("", "foliomap=on")


def patches(layout: Layout) -> list[tuple[str, str]]:
    """The series as (commit, subject), in order."""
    lines = series.git(layout.tree, "log", "--reverse", "--format=%H %s", "base..series")
    return [(line[:40], line[41:]) for line in lines.splitlines()]


def apart(layout: Layout) -> Layout:
    """Layout of their builds: apart from the kernel that is worked on, with its cache."""
    return replace(layout, folder=f"{layout.folder}-bisect")


def check(
    layout: Layout,
    debug: tuple[str, ...],
    commit: str,
    jobs: int,
    progress: Callable[[int, int, str], None],
) -> None:
    """Build the tree as of a commit without a warning, and boot it.

    Raises:
        PagelabError: it does not build, warns, or does not boot.

    """
    where = apart(layout)
    check_out(layout, where.tree, commit)
    build.configure(where, debug, lenient=True)
    image = build.compile_kernel(where, debug, jobs, progress)
    if warned := build.warnings(where, debug):
        raise PagelabError("\n".join(["the compiler warns:", *warned[:12]]))
    for append in BOOTS:
        machine = guest.Machine(
            image=image, init=layout.linux / "guest" / "init", append=append, memory=512
        )
        result = guest.run(machine, ["true"])
        if result.ending is not guest.Ending.EXIT or result.status != 0:
            raise PagelabError(f"it does not boot with '{append}': {result.describe()}")


def check_out(layout: Layout, tree: Path, commit: str) -> None:
    """Put the source as of a commit into a tree of its own."""
    if not (tree / ".git").exists():
        series.git(layout.tree, "worktree", "prune")
        series.git(layout.tree, "worktree", "add", "--quiet", "--detach", str(tree), commit)
    series.git(tree, "checkout", "--quiet", "--force", "--detach", commit)
