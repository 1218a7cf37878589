"""A build of a kernel from start to end, said beforehand, and its progress on the way."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pagelab import units
from pagelab.errors import PagelabError
from pagelab.linux import artefact, build, source
from pagelab.linux.layout import Layout
from pagelab.linux.lock import only_one

SECONDS_BETWEEN_LINES = 20.0
# Seconds of one processor (a virtual one of an EPYC) without a compiler's cache: to unpack and
# commit the source, and for each file that is compiled, linking and all else included.
_SOURCE = 40.0
_FILE = 0.25
# KASAN checks each access: its code is larger.
_SLOWER = {"kasan": 2.0}
# Programs that a build runs, by Debian's packages.
_PROGRAMS = {
    "gcc": "gcc",
    "make": "make",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "perl": "perl",
    "git": "git",
    "tar": "tar",
    "xz": "xz-utils",
}


def make(
    layout: Layout,
    debug: tuple[str, ...],
    jobs: int,
    console: Console,
    given: Path | None = None,
) -> Path:
    """Build a kernel, from its source on; return the image.

    Raises:
        PagelabError: a program is missing, or a step failed.

    """

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    if missing := sorted({pack for name, pack in _PROGRAMS.items() if shutil.which(name) is None}):
        raise PagelabError(f"to build a kernel, install {', '.join(missing)}")
    with only_one(layout.work):
        if not layout.image(debug).exists():
            say(plan(layout, debug, jobs))
        made_from = artefact.sources(layout)
        source.prepare(layout, given, say)
        build.configure(layout, debug)
        with compiling(console, build.expected(layout, debug)) as told:
            image = build.compile_kernel(layout, debug, jobs, told)
        if not debug:
            artefact.note_sources(layout, made_from)
    return image


def plan(layout: Layout, debug: tuple[str, ...], jobs: int) -> str:
    """Sentence on what the first build does, and for how long."""
    what = "".join(f" with {name}" for name in debug)
    files = build.expected(layout, debug)
    steps, seconds = [], 0.0
    if not source.is_unpacked(layout.tree):
        steps.append("unpacks its source")
        seconds += _SOURCE
    steps.append(f"compiles about {files} files" if files else "compiles it")
    seconds += files * _FILE * max(_SLOWER.get(name, 1.0) for name in ("", *debug)) / jobs
    said = f"pagelab: no Linux {layout.version}{what} yet: {', '.join(steps)} in {layout.work}"
    if not files:
        return said
    minutes = max(1, round(seconds / 60))
    return f"{said}; about {minutes} min by {jobs} processor{'s' * (jobs > 1)}, less by ccache"


@contextmanager
def compiling(console: Console, files: int = 0) -> Iterator[Callable[[int, int, str], None]]:
    """Progress of a compilation, and what to tell of every file: a bar, or a line now and then.

    `files` are expected where the last build has not left their number.
    """
    if not console.is_terminal:
        yield _lines(console, files)
        return
    with Progress(
        TextColumn("{task.description:40.40}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as bar:
        task = bar.add_task("compiling", total=None)

        def told(done: int, total: int, file: str) -> None:
            total = max(total or files, done)
            bar.update(task, completed=done, total=total or None, description=file)

        yield told


def _lines(console: Console, files: int) -> Callable[[int, int, str], None]:
    begun = last = time.monotonic()

    def told(done: int, total: int, file: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < SECONDS_BETWEEN_LINES:
            return
        last = now
        console.print(
            f"pagelab: compiling: {_how_far(done, total or files, now - begun)}, {file}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )

    return told


def _how_far(done: int, total: int, elapsed: float) -> str:
    """Progress: `34 %, 380 of 1123 files, 2 min 03 s, 4 min 00 s left`."""
    passed = units.duration(elapsed)
    if done >= total:
        return f"{done} files, {passed}"
    left = units.duration(elapsed / done * (total - done))
    return f"{units.percent(done / total, 0)}, {done} of {total} files, {passed}, {left} left"
