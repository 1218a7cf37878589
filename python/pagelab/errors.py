"""Errors that end a command with a message instead of a traceback."""

from collections.abc import Iterable
from difflib import get_close_matches


class PagelabError(Exception):
    """Something a user can understand and act on: what failed, where, and what to do.

    `exit_code` is what the command line exits with.
    """

    exit_code = 1


class UsageError(PagelabError):
    """The command line, or a file it names, asks for something that does not exist."""

    exit_code = 2


class InterruptedRunError(PagelabError):
    """The user ended it before there was anything to show. The exit code is a shell's."""

    exit_code = 130


def unknown(kind: str, name: str, valid: Iterable[str]) -> UsageError:
    """The error for a name that is not one of `valid`: lists them and the nearest match.

    >>> print(unknown("design", "dtp", ["radix", "dpt", "ideal"]))
    unknown design 'dtp'; did you mean 'dpt'? Valid: radix, dpt, ideal
    """
    names = list(valid)
    near = get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    hint = f"; did you mean '{near[0]}'?" if near else "."
    return UsageError(f"unknown {kind} '{name}'{hint} Valid: {', '.join(names)}")
