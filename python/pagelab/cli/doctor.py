"""`pagelab doctor`: what is here, what is missing, and how to get it."""

import json
import platform
import shutil
import subprocess
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

import pagelab
from pagelab.recording import PLUGINS


@dataclass(frozen=True)
class Check:
    """One thing that was looked for."""

    name: str
    found: str | None
    needed_for: str
    remedy: str


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Say what pagelab finds on this machine and what is missing.

    Exits with 1 when recording programs is not possible.
    """
    checks = _checks()
    if as_json:
        typer.echo(json.dumps([asdict(check) for check in checks], indent=1))
    else:
        for check in checks:
            mark = "ok     " if check.found else "missing"
            typer.echo(f"{mark}  {check.name}: {check.found or f'needed for {check.needed_for}'}")
            if not check.found:
                typer.echo(f"         {check.remedy}")
    if any(check.found is None for check in checks if check.needed_for == "recording"):
        raise typer.Exit(1)


def _checks() -> list[Check]:
    return [
        Check("pagelab", f"{pagelab.__version__}, Python {platform.python_version()}", "all", ""),
        Check(
            "qemu-x86_64",
            _version("qemu-x86_64"),
            "recording",
            "apt-get install qemu-user",
        ),
        Check("recorder plugin", _plugins(), "recording", "make setup (in a source checkout)"),
        Check("chromium", _version("chromium"), "tests of the report", "apt-get install chromium"),
        Check(
            "valgrind", _version("valgrind"), "tests of the recorder", "apt-get install valgrind"
        ),
    ]


def _version(command: str) -> str | None:
    path = shutil.which(command)
    if path is None:
        return None
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{path}, which does not answer --version: {error}"
    first = (done.stdout or done.stderr).splitlines()
    return f"{first[0] if first else 'unknown version'} ({path})"


def _plugins() -> str | None:
    names = sorted(path.name for path in PLUGINS.glob("*.so"))
    return ", ".join(names) or None
