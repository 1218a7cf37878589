"""`pagelab doctor`: what is here, what is missing, and how to get it."""

import json
import platform
import shutil
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

import typer

import pagelab
from pagelab import emulator, files, host_memory
from pagelab.cli import options
from pagelab.emulator import NoEmulatorError


@dataclass(frozen=True)
class Check:
    """One thing that was looked for."""

    name: str
    found: str | None
    needed_for: str
    remedy: str
    optional: bool = False
    """Only the project's own tests use it."""
    notes: list[str] = field(default_factory=list)
    """What else there is to know of it, a line each."""

    @property
    def mark(self) -> str:
        """State in a word."""
        if self.found:
            return "ok"
        return "not here" if self.optional else "missing"


def doctor(
    qemu: options.Qemu = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Say what pagelab finds on this machine and what is missing.

    Loads the recorder's plugin into the emulator that recording would use. Exits with 1 when
    recording programs is not possible.
    """
    checks = _checks(qemu)
    if as_json:
        typer.echo(json.dumps([asdict(check) for check in checks], indent=1))
    else:
        for check in checks:
            typer.echo(f"{check.mark:<8}  {check.name}: {check.found or check.needed_for}")
            for line in check.notes if check.found else check.remedy.splitlines():
                typer.echo(f"          {line}")
    if any(check.found is None for check in checks if not check.optional):
        raise typer.Exit(1)


def _checks(qemu: Path | None) -> list[Check]:
    return [
        Check("pagelab", f"{pagelab.__version__}, Python {platform.python_version()}", "all", ""),
        _plugin(),
        _emulator(qemu),
        _memory(),
        _test_tool("chromium", "tests of the report"),
        _test_tool("valgrind", "tests of the recorder"),
    ]


def _plugin() -> Check:
    names = sorted(path.name for path in files.programs().glob("*.so"))
    return Check(
        "recorder plugin",
        ", ".join(names) or None,
        "needed for recording",
        "reinstall pagelab; in a checkout: make setup",
    )


def _emulator(qemu: Path | None) -> Check:
    """Loads the plugin, as recording does first."""
    needed_for = "needed for recording"
    try:
        found = emulator.find(qemu)
    except NoEmulatorError as error:
        return Check("emulator", None, needed_for, str(error))
    notes = [f"loads the plugin; {found.reason}"]
    if not found.can_translate_anew:
        notes += [
            "too old to leave parts out while a program runs: with --skip, --limit and --sample it",
            "is as slow there as where it records; pagelab-qemu is not",
        ]
    if not found.places_as_linux:
        notes += [
            "places mappings by rules of its own: huge pages, holes and page tables of a recording",
            "are not a native run's; pagelab-qemu places them as Linux does",
        ]
    return Check("emulator", f"{found.version}, {found.path}", needed_for, "", notes=notes)


def _memory() -> Check:
    """Check of whether memory that lies idle is given back to a host."""
    found = host_memory.ways()
    if not found:
        return Check("idle memory", "stays here", "", "")
    notes = [f"{way.name}: {way.meaning}" for way in found]
    notes.append("pagelab measure idle says how long a first touch takes then; -m here prices it")
    return Check("idle memory", "may be given back to the host", "", "", notes=notes)


def _test_tool(name: str, purpose: str) -> Check:
    remedy = f"apt-get install {name}, to run them"
    return Check(name, _version(name), f"only for {purpose}", remedy, optional=True)


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
