"""Errors that end a command with a message instead of a traceback."""

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pagelab import _core

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import ValidationError


class PagelabError(Exception):
    """Something a user can understand and act on: what failed, where, and what to do.

    `exit_code` is what the command line exits with.
    """

    exit_code = 1


class UsageError(PagelabError):
    """The command line, or a file it names, asks for something that does not exist."""

    exit_code = 2


class RunError(PagelabError):
    """A run that came to no result, for a reason of its own."""


class InterruptedRunError(PagelabError):
    """The user ended it before there was anything to show: a command, or a run of one.

    The exit code is a shell's: of SIGINT, or of the signal that `jobs` was sent.
    """

    exit_code = 130


# As of env(1), timeout(1) and others that run a program and pass its status on.
OWN_FAILURE = 125


def exit_code(error: Exception) -> int:
    """Exit status of the command line after `error`."""
    return getattr(error, "exit_code", PagelabError.exit_code)


def runs_a_program(command: Callable[..., None]) -> Callable[..., None]:
    """Has failures of pagelab itself exit with `OWN_FAILURE` where `command` is given a program.

    1 may be what the program has ended with. A mistake in the command line stays one: nothing ran.
    """

    @functools.wraps(command)
    def run(**options: Any) -> None:
        try:
            command(**options)
        except (PagelabError, _core.Error, OSError) as error:
            given = options.get("program") or options.get("command")
            if given and exit_code(error) == PagelabError.exit_code:
                # Also of what has no class of ours.
                error.exit_code = OWN_FAILURE  # type: ignore[union-attr]
            raise

    return run


@contextmanager
def cannot(verb: str, file: "Path | str") -> Iterator[None]:
    """Raises PagelabError for an OSError of what is done here: `cannot write FILE: why`."""
    try:
        yield
    except OSError as error:
        raise PagelabError(f"cannot {verb} {file}: {error.strerror}") from error


def fault(error: "ValidationError") -> str:
    """The first fault that a model finds in what was read, and where: `runs.0: Field required`."""
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "top level"
    return f"{place}: {first['msg']}"


def unknown(kind: str, name: str, valid: Iterable[str]) -> UsageError:
    """The error for a name that is not one of `valid`: lists them and the nearest match.

    >>> print(unknown("design", "dtp", ["radix", "dpt", "ideal"]))
    unknown design 'dtp'; did you mean 'dpt'? Valid: radix, dpt, ideal
    """
    names = list(valid)
    near = get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    hint = f"; did you mean '{near[0]}'?" if near else "."
    return UsageError(f"unknown {kind} '{name}'{hint} Valid: {', '.join(names)}")
