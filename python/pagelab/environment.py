"""The environment of programs that are run for the user: the one that this process was given."""

import os
from pathlib import Path

# Values that Python sets LC_CTYPE to, at its start, where the locale is C (PEP 538).
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")


def added() -> list[str]:
    """Variables that nobody has set but Python itself: they change what `wc -m` counts."""
    if os.environ.get("LC_CTYPE") not in _COERCED or os.environ.get("LC_ALL"):
        return []
    try:
        given = Path("/proc/self/environ").read_bytes()
    except OSError:
        return []
    # As it was at exec(), whatever has been changed since (proc_pid_environ(5)).
    names = [variable.partition(b"=")[0] for variable in given.split(b"\0")]
    return [] if b"LC_CTYPE" in names else ["LC_CTYPE"]


def given() -> dict[str, str]:
    """The environment without these."""
    without = added()
    return {name: value for name, value in os.environ.items() if name not in without}
