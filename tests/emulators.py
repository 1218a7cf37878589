"""Which tests can record here."""

import pytest

from pagelab import emulator
from pagelab.emulator import NoEmulatorError


def _why_not() -> str | None:
    try:
        emulator.find()
    except NoEmulatorError as error:
        return str(error)
    return None


_WHY_NOT = _why_not()

needs_recorder = pytest.mark.skipif(_WHY_NOT is not None, reason=_WHY_NOT or "")
