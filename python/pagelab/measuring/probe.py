"""Finding and running `pagelab-probe`."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from pagelab import files
from pagelab.errors import PagelabError, cannot
from pagelab.measuring.result import Environment, Measurement, parse

Say = Callable[[str], None]

NAME = "pagelab-probe"


def find() -> Path:
    """The probe: $PAGELAB_PROBE, the package's own, or one on the path."""
    named = os.environ.get("PAGELAB_PROBE")
    if named is not None:
        if not os.access(named, os.X_OK):
            raise PagelabError(f"PAGELAB_PROBE names {named}, which cannot be executed")
        return Path(named)
    own = files.programs() / NAME
    if os.access(own, os.X_OK):
        return own
    found = shutil.which(NAME)
    if found is None:
        raise PagelabError(f"there is no {own}, and none on the PATH. In a checkout: make setup")
    return Path(found)


def run(
    part: str,
    say: Say,
    *,
    quick: bool = False,
    allow_tuning: bool = False,
    seed: int | None = None,
    cpu: int | None = None,
    program: list[str] | None = None,
) -> Measurement:
    """Runs one part, or `all`; `say` is given each line of progress.

    Raises PagelabError. When this process is interrupted the probe is told to end, and its guard
    undoes what it changed.
    """
    command = [str(find()), part, f"--end-with-parent={os.getpid()}"]
    command += ["--quick"] if quick else []
    command += ["--allow-tuning"] if allow_tuning else []
    command += ["--seed", str(seed)] if seed is not None else []
    command += ["--cpu", str(cpu)] if cpu is not None else []
    command += ["--", *program] if program else []
    last = ""
    # A file, not a pipe, which would fill up while progress is read.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        with cannot("run", command[0]):
            process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.PIPE, text=True, errors="replace"
            )
        assert process.stderr is not None
        with process:
            try:
                for line in process.stderr:
                    last = line.rstrip()
                    say(last)
                code = process.wait()
            except BaseException:
                process.terminate()
                raise
        output.seek(0)
        text = output.read()
    if code != 0:
        raise PagelabError(f"{NAME} {how_ended(code)}: {last}")
    return parse(text, f"the output of {NAME}")


def how_ended(status: int) -> str:
    """End of a process in words."""
    return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"


def environment() -> Environment:
    """Facts of the machine and what it has free now. Raises PagelabError."""
    try:
        done = subprocess.run(
            [str(find()), "environment"], capture_output=True, text=True, check=True
        )
        return Environment.model_validate_json(done.stdout)
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        raise PagelabError(f"{NAME} cannot say what this machine is: {error}") from error
