"""The QEMU that recording runs programs under."""

import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pagelab import _core, files
from pagelab.errors import OWN_FAILURE, PagelabError

# Names it instead of --qemu.
VARIABLE = "PAGELAB_QEMU"

_ORIGINS = {"named": "as asked", "bundled": "pagelab-qemu", "path": "the first in PATH"}


class NoEmulatorError(PagelabError):
    """There is no QEMU that loads the recorder's plugin."""

    exit_code = OWN_FAILURE


@dataclass(frozen=True)
class Emulator:
    """A QEMU that has loaded the recorder's plugin."""

    path: Path
    version: str
    """What `--version` says first."""
    origin: str
    """`named` (by --qemu or $PAGELAB_QEMU), `bundled` (the package pagelab-qemu) or `path`."""
    can_translate_anew: bool
    """Whether a program runs at nearly QEMU's own speed outside --skip, --limit and --sample."""
    places_as_linux: bool
    """Whether addresses are a native run's (randomisation off), modulo the size of a huge page."""
    passed_over: list[str]
    """Why others that would have come first were not taken."""

    @property
    def reason(self) -> str:
        """Reason for which it is this one."""
        return "; ".join([_ORIGINS[self.origin], *self.passed_over])


def find(qemu: Path | None = None) -> Emulator:
    """The emulator to record with.

    That is `qemu` if it is given, else the one of the package pagelab-qemu, else the first
    `qemu-x86_64` in PATH; the last two only if they load the plugin. Raises NoEmulatorError.
    """
    try:
        facts = json.loads(_core.emulator(json.dumps(candidates(qemu))))
    except _core.Error as error:
        raise NoEmulatorError(str(error)) from error
    return Emulator(**facts | {"path": Path(facts["path"])})


def candidates(qemu: Path | None = None) -> dict[str, Any]:
    """Places to look, for `_core`."""
    return {
        "qemu": None if qemu is None else str(qemu),
        "bundled": bundled(),
        "plugins": str(files.programs()),
    }


def bundled() -> str | None:
    """The emulator of the package pagelab-qemu; None when that is not installed."""
    if importlib.util.find_spec("pagelab_qemu") is None:
        return None
    package = importlib.import_module("pagelab_qemu")
    return str(package.PATH)
