"""Runs a program under the recorder."""

import json
import math
import os
import re
import shlex
import shutil
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pagelab import _core, emulator, environment, files, jobs, units
from pagelab.errors import OWN_FAILURE, PagelabError, UsageError
from pagelab.progress import Display, metered, up_to
from pagelab.results import Recording
from pagelab.window import Window as Window

if TYPE_CHECKING:
    from pagelab.live import Following


class RecordingError(PagelabError):
    """The recorder failed. Exit codes of this and the next two are those of env(1)."""

    exit_code = OWN_FAILURE


class CannotRunError(RecordingError):
    """The program is there and cannot be run or recorded."""

    exit_code = 126


class NotFoundError(RecordingError):
    """There is no such program."""

    exit_code = 127


def find(program: str) -> None:
    """Checks that there is such a program: raises NotFoundError or CannotRunError."""
    if "/" in program and Path(program).is_dir():
        raise CannotRunError(f"cannot run {program}: it is a directory")
    if shutil.which(program) is None and not Path(program).is_file():
        where = "there is no such file" if "/" in program else "it is not in PATH"
        if re.fullmatch("[0-9]+[KMG]", program):
            where += "; several page sizes have commas between them: --pages 4K,2M"
        raise NotFoundError(f"cannot run {shlex.quote(program)}: {where}")
    if _is_trace(program):
        raise CannotRunError(
            f"{shlex.quote(program)} is a trace, not a program: give it by --trace"
        )


def _is_trace(program: str) -> bool:
    if not Path(program).is_file() or os.access(program, os.X_OK):
        return False
    try:
        return _core.trace_headers(program) is not None
    except _core.Error:
        return False


def _set_id(program: str) -> list[str]:
    """A note when the kernel would have given the program another user or group."""
    file = shutil.which(program)
    if file is None:
        return []
    about = Path(file).stat()
    kinds = [
        (stat.S_ISUID, about.st_uid != os.geteuid(), "set-user-ID"),
        (stat.S_ISGID, about.st_gid != os.getegid(), "set-group-ID"),
    ]
    what = [name for bit, other, name in kinds if about.st_mode & bit and other]
    if not what:
        return []
    return [
        f"{program} is {' and '.join(what)}: it was recorded with the rights of who recorded it"
    ]


def record(
    command: list[str],
    output: Path,
    window: Window,
    display: Display,
    stop: jobs.Stop,
    *,
    code: bool,
    sites: bool = False,
    follow_exec: bool = False,
    qemu: Path | None = None,
    cpu: str | None = None,
    defer: bool = False,
    keep_words: bool = False,
    seconds: float | None = None,
    following: "Following | None" = None,
) -> Recording:
    """Runs a program to its end, or until `stop` is wanted, and records it into `output`.

    It is ended after so many `seconds`, where they are given. With `code` the trace has what was
    executed as well, with `sites` calls of allocators, too. `qemu` is the emulator instead of the
    one that `emulator.find` finds, `cpu` the processor it emulates, as its `-cpu` option has it;
    without it the one with every feature QEMU has. With `defer` the trace is made when the program
    has ended, of words in a file beside it, which is removed then unless it is to `keep_words`.
    The simulations that are `following` begin as soon as there is something, and the program is
    ended when they know enough.

    Raises RecordingError when it was not started. What goes wrong later is in the outcome's
    `incomplete`, and the trace is good up to there.
    """
    find(command[0])
    if defer and output.exists() and not output.is_file():
        raise RecordingError(f"{output} is no file that words can be kept beside (--defer)")
    options = emulator.candidates(qemu) | {
        "follow_exec": follow_exec,
        "code": code,
        "allocations": _preloaded(code=code) if sites else None,
        "cpu": cpu,
        "words": str(words_of(output)) if defer else None,
        "keep_words": keep_words,
        "without": environment.added(),
    }
    meter = display.meter(Path(command[0]).name, "recording")
    unit = "instructions" if window.in_instructions else "accesses"
    started = time.monotonic()
    making = _Making()
    over, enough = threading.Event(), threading.Event()

    def progress(done: int, total: int | None, made: tuple[int, int] | None = None) -> bool:
        if made:
            text = making.text(*made)
        elif defer:
            text = up_to(done, None, time.monotonic() - started, "words")
        elif total is not None and done >= total:
            text = "recorded; the program runs on (Ctrl-C ends it)"
        else:
            text = up_to(done, total, time.monotonic() - started, unit)
        elapsed = time.monotonic() - started
        if following and not made and following.look(output, elapsed, meter):
            enough.set()
        # Nobody knows the program's length: the total is where its recording would end.
        meter.update(done, None, text)
        if seconds is not None and elapsed > seconds and not made:
            over.set()
        return not (stop.wanted or over.is_set() or enough.is_set())

    try:
        text = jobs.in_thread(
            lambda: _core.record(
                command,
                str(output),
                json.dumps(asdict(window)),
                json.dumps(options),
                progress,
            )
        )
    except _core.ProgramError as error:
        raise CannotRunError(str(error)) from error
    except _core.Error as error:
        raise RecordingError(str(error)) from error
    finally:
        meter.finish()
    outcome = json.loads(text)
    outcome["notes"] += _set_id(command[0])
    done = outcome[unit]
    # A sample has all of a program that ends in its first piece.
    first = window.sample[0] * max(window.thinning, 1) if window.sample else math.inf
    most = min(window.limit or math.inf, first)
    ended = over.is_set() or enough.is_set()
    limited = bool(window.skip) or done >= most or ended
    if ended and not stop.wanted:
        # The program has not failed.
        after = seconds if over.is_set() else time.monotonic() - started
        outcome |= {"exit_status": 0, "signal": None, "ended_after": after}
        if enough.is_set():
            outcome["notes"].append("enough is known (--precision 0 goes on)")
    return Recording.model_validate(outcome | {"limited": limited})


def _preloaded(*, code: bool) -> str:
    """The library that tells of allocations. Raises UsageError without code, which has names."""
    if not code:
        raise UsageError("allocation sites need the code: leave out --no-code")
    return str(files.preloaded())


def words_of(trace: Path) -> Path:
    """File of the words of which a trace is made afterwards."""
    return trace.with_name(f"{trace.name}.words")


class _Making:
    """Progress of a trace that is made of words."""

    def __init__(self) -> None:
        self.started: float | None = None

    def text(self, read: int, of: int) -> str:
        """Text for `read` of `of` bytes of words: `making the trace: 43 %, 12 s left`."""
        if self.started is None:
            self.started = time.monotonic()
        elapsed = time.monotonic() - self.started
        text = f"making the trace: {units.percent(read / of if of else 1.0, 0)}"
        if read and elapsed > 1:
            text += f", {units.duration(elapsed * (of - read) / read)} left"
        return text


def finish(
    words: Path, output: Path, display: Display, stop: jobs.Stop, *, keep_words: bool
) -> Recording:
    """Makes the trace of words that `record` has left behind.

    Raises RecordingError when none was made. What goes wrong later is in the outcome's
    `incomplete`, and the trace is good up to there.
    """
    making = _Making()

    def progress(done: int, total: int | None, made: tuple[int, int] | None = None) -> bool:
        meter.update(done, None, making.text(*made) if made else "")
        return not stop.wanted

    with metered(display, output.name, "finishing") as meter:
        try:
            text = jobs.in_thread(
                lambda: _core.finish_recording(words, output, keep_words, progress)
            )
        except _core.Error as error:
            raise RecordingError(str(error)) from error
    return Recording.model_validate(json.loads(text) | {"limited": False, "path": output})


def check(outcome: Recording) -> None:
    """Raises RecordingError when the recorder could not follow the program to its end."""
    if outcome.incomplete:
        raise RecordingError(f"the recording ends early: {outcome.incomplete}")


@contextmanager
def stdout_to_stderr(*, when: bool) -> Iterator[None]:
    """Sends what a child writes to standard output to standard error meanwhile.

    `--json` needs standard output for itself.
    """
    if not when:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
