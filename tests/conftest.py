"""Fixtures that several test files share."""

import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import canned
from pagelab.results import Comparison
from processes import PATIENCE

# How long an example takes says nothing: other programs run beside the tests.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# Tests that a shell runs in the background start with SIGINT ignored, which their children inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def comparison() -> Comparison:
    """A made-up comparison of radix, dpt and ideal."""
    return Comparison.model_validate(canned.comparison())


@pytest.fixture(scope="session")
def chromium() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Headless Chromium; the tests that need it are skipped where there is none."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no chromium")

    def run(page: Path, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                program,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--virtual-time-budget=2000",
                "--enable-logging=stderr",
                *options,
                page.as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )

    return run
