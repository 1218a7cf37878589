"""Entry point: runs a command and turns errors into messages and exit codes."""

import errno
import io
import os
import sys
from typing import NoReturn

from pagelab import __version__, _core
from pagelab.errors import PagelabError, UsageError

# What writing to standard output ends with when nothing more goes into it.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def main() -> None:
    """Runs the command line. docs/compare.md lists the exit codes."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names of files need not be text: they are printed as they are.
        sys.stdout.reconfigure(errors="surrogateescape")
    try:
        try:
            _run()
        finally:
            # Here and not at the interpreter's end, which has no message for what goes wrong.
            sys.stdout.flush()
    except PagelabError as error:
        _fail(str(error), error.exit_code)
    except _core.Error as error:
        _fail(str(error), PagelabError.exit_code)
    except UnicodeEncodeError as error:
        _fail(f"{error.object!a} is not text in UTF-8; give it another name", UsageError.exit_code)
    except BrokenPipeError:
        # The reader has seen enough (`pagelab trace cat T | head`).
        _discard()
        sys.exit(141)
    except OSError as error:
        # One about a file names it.
        if error.filename is not None or error.errno not in _FULL:
            raise
        _discard()
        _fail(f"cannot write to standard output: {error.strerror}", PagelabError.exit_code)


def _run() -> None:
    if sys.argv[1:] in (["version"], ["--version"]):
        # Scripts ask for it, and the command line takes five times as long to import.
        print(f"pagelab {__version__}")
        return
    from pagelab.cli import app

    app()


def _fail(message: str, exit_code: int) -> NoReturn:
    print(f"pagelab: {message}", file=sys.stderr)
    sys.exit(exit_code)


def _discard() -> None:
    """Points standard output elsewhere, so that the interpreter's last flush does not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
