"""No window changes what a program does. `tests/windows.py` tries more, and larger programs."""

import subprocess
import sys
from pathlib import Path

from emulators import needs_recorder

WINDOWS = Path(__file__).with_name("windows.py")


@needs_recorder
def test_programs_do_the_same_under_random_windows() -> None:
    programs = "counters,sort,openmp,interrupted"
    done = subprocess.run(
        [sys.executable, WINDOWS, "--runs", "12", "--seed", "1", "--programs", programs],
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 of 12 recordings changed nothing" in done.stdout
