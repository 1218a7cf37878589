"""Runs a program under the recorder."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from pagelab import _core, jobs, units
from pagelab.errors import PagelabError
from pagelab.progress import Display
from pagelab.results import Recording

# Where the set-up puts the recorder's QEMU plugin.
PLUGINS = Path(__file__).parent / "plugins"


class RecordingError(PagelabError):
    """The recorder failed. Exit codes of this and the next two are those of env(1)."""

    exit_code = 125


class CannotRunError(RecordingError):
    """The program is there and cannot be run or recorded."""

    exit_code = 126


class NotFoundError(RecordingError):
    """There is no such program."""

    exit_code = 127


@dataclass(frozen=True)
class Window:
    """Which part to take, in accesses or instructions; `sample` is (taken, period).

    Of what follows each gap, `warm_up` accesses are simulated and not measured.
    """

    skip: int = 0
    limit: int | None = None
    sample: tuple[int, int] | None = None
    in_instructions: bool = False
    warm_up: int = 0

    def __bool__(self) -> bool:
        """Whether it can leave anything out."""
        return bool(self.skip or self.limit or self.sample)


def find(program: str) -> None:
    """Checks that there is such a program: raises NotFoundError."""
    if shutil.which(program) is None and not Path(program).is_file():
        where = "there is no such file" if "/" in program else "it is not in PATH"
        raise NotFoundError(f"cannot run {program}: {where}")


def record(
    command: list[str],
    output: Path,
    window: Window,
    display: Display,
    stop: jobs.Stop,
    *,
    follow_exec: bool = False,
) -> Recording:
    """Runs a program to its end, or until `stop` is wanted, and records it into `output`.

    Raises RecordingError when it was not started. What goes wrong later is in the outcome's
    `incomplete`, and the trace is good up to there.
    """
    find(command[0])
    meter = display.meter(Path(command[0]).name, "recording")

    def progress(done: int, total: int | None) -> bool:
        over = total is not None and done >= total
        meter.update(done, total, "recorded; the program runs on (Ctrl-C ends it)" if over else "")
        return not stop.wanted

    try:
        text = jobs.in_thread(
            lambda: _core.record(
                command,
                str(output),
                json.dumps(asdict(window)),
                follow_exec,
                str(PLUGINS),
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
    done = outcome["instructions" if window.in_instructions else "accesses"]
    limited = bool(window.skip or window.sample or (window.limit and done >= window.limit))
    return Recording.model_validate(outcome | {"limited": limited})


def check(outcome: Recording) -> None:
    """Raises RecordingError when the recorder could not follow the program to its end."""
    if outcome.incomplete:
        raise RecordingError(f"the recording ends early: {outcome.incomplete}")


def summary(outcome: Recording) -> str:
    """What was recorded, in a line or a few."""
    rate = outcome.accesses / outcome.seconds if outcome.seconds else 0.0
    text = (
        f"recorded {units.count(outcome.accesses)} accesses in "
        f"{units.duration(outcome.seconds)} ({units.count(rate)} acc/s, "
        f"{units.size(outcome.bytes)})"
    )
    if outcome.limited:
        text += "; the rest of the program was left out (--skip, --limit, --sample)"
    if outcome.incomplete:
        text += f"; the recording ends early: {outcome.incomplete}"
    if outcome.signal:
        text += f"; the program was ended by {signal.Signals(outcome.signal).name}"
    elif outcome.exit_status:
        text += f"; the program exited with {outcome.exit_status}"
    return "\n".join([text, *outcome.notes])


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
