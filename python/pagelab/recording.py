"""Runs a program under the recorder."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pagelab import _core, jobs, units
from pagelab.errors import PagelabError
from pagelab.progress import Display
from pagelab.results import Recording


class RecordingError(PagelabError):
    """The program could not be run or recorded. Exit codes are those of env(1) and timeout(1)."""

    exit_code = 125


@dataclass(frozen=True)
class Request:
    """What to record. The window counts accesses; `sample` is (taken, period)."""

    program: list[str]
    output: Path
    skip: int = 0
    limit: int | None = None
    sample: list[int] | None = None
    follow_exec: bool = False


def record(request: Request, display: Display, stop: jobs.Stop) -> Recording:
    """Runs the program to its end, or until `stop` is wanted.

    Raises RecordingError; the trace is then valid up to its last whole chunk.
    """
    meter = display.meter(Path(request.program[0]).name, "recording")

    def progress(done: int, total: int | None) -> bool:
        meter.update(done, total)
        return not stop.wanted

    text = json.dumps(
        {
            "program": request.program,
            "output": str(request.output),
            "skip": request.skip,
            "limit": request.limit,
            "sample": request.sample,
            "follow_exec": request.follow_exec,
        }
    )
    try:
        outcome = jobs.in_thread(lambda: _core.record(text, progress))
    except _core.Error as error:
        raise RecordingError(str(error)) from error
    finally:
        meter.finish()
    return Recording.model_validate_json(outcome)


def summary(outcome: Recording) -> str:
    """One line on what was recorded."""
    text = f"recorded {units.count(outcome.accesses)} accesses in {units.duration(outcome.seconds)}"
    if outcome.limited:
        text += " (only part of the program: see --skip, --limit, --sample)"
    if outcome.exit_status:
        text += f"; the program exited with {outcome.exit_status}"
    return text


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
