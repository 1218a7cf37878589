"""Whole commands, as a user runs them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from processes import PATIENCE


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pagelab", *arguments]


def pagelab(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=PATIENCE,
        check=False,
    )


def result(directory: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((directory / "result.json").read_text())
    return loaded


def simulated(cwd: Path, *arguments: str) -> dict[str, Any]:
    """The JSON of one simulation."""
    done = pagelab("simulate", "--json", "--quiet", *arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    run: dict[str, Any] = json.loads(done.stdout)
    return run


def without_host(run: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in run.items() if key != "host"}


def interrupted(cwd: Path, word: str, *arguments: str) -> tuple[int, str, str]:
    """Status and output of a command that gets a SIGINT once it says that it is at `word`."""
    process = subprocess.Popen(
        command(*arguments),
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    watchdog = threading.Timer(PATIENCE, os.killpg, [process.pid, signal.SIGKILL])
    watchdog.start()
    try:
        said = next((line for line in process.stderr if word in line), "nothing")
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate()
    finally:
        watchdog.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, stdout, said + stderr
