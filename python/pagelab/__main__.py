"""Entry point: runs a command and turns errors into messages and exit codes."""

import codecs
import errno
import io
import os
import sys
from typing import NoReturn

from pagelab import __version__, _core
from pagelab.errors import PagelabError, UsageError, exit_code

# Errors of writing to standard output when nothing more goes into it.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def main() -> None:
    """Runs the command line. docs/compare.md lists the exit codes."""
    closed = _occupy_standard_streams()
    codecs.register_error("pagelab", _as_it_can_be_written)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="pagelab")
    if not os.environ.get("COLUMNS", "").strip("0"):
        # To Rich it is a width, to others that none is known.
        os.environ.pop("COLUMNS", None)
    try:
        try:
            _run()
        finally:
            # Here and not at the interpreter's end, which has no message for what goes wrong.
            sys.stdout.flush()
    except (PagelabError, _core.Error) as error:
        _fail(str(error), exit_code(error))
    except UnicodeEncodeError as error:
        # A file's name that is no text: standard output takes everything.
        _fail(f"{error.object} is not text in UTF-8; give it another name", UsageError.exit_code)
    except BrokenPipeError:
        _end_of_pipe()
    except SystemExit as error:
        # Rich and click have an exit status of their own for it.
        if isinstance(error.__context__, BrokenPipeError):
            _end_of_pipe()
        raise
    except OSError as error:
        # One about a file names it.
        full = error.errno in _FULL or (closed and error.errno == errno.EBADF)
        if error.filename is not None or not full:
            raise
        _discard()
        _fail(f"cannot write to standard output: {error.strerror}", exit_code(error))


def _occupy_standard_streams() -> bool:
    """Opens what is closed of standard input, output and error; whether output was.

    Otherwise the next files that are opened are those, and what is printed goes into them.
    """
    # Printing when output is closed is an error, as with any program.
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free is this one. Programs that are started need it, too.
            os.set_inheritable(os.open(os.devnull, mode), True)
    # Python has none for what was closed when it started.
    closed = sys.stdout is None
    if closed:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    return closed


def _as_it_can_be_written(error: UnicodeError) -> tuple[bytes, int]:
    """Encodes what a standard stream's encoding lacks, as JSON has it, so that JSON stays the same.

    Names of files need not be text: their bytes are printed as they are.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    import json

    written = b""
    for character in error.object[error.start : error.end]:
        byte = ord(character) - 0xDC00
        escaped = 0x80 <= byte <= 0xFF
        written += bytes([byte]) if escaped else json.dumps(character)[1:-1].encode()
    return written, error.end


def _run() -> None:
    if sys.argv[1:] in (["version"], ["--version"]):
        # Scripts ask for it, and the command line takes five times as long to import.
        print(f"pagelab {__version__}")
        return
    from pagelab.cli import app

    app()


def _fail(message: str, status: int) -> NoReturn:
    print(f"pagelab: {message}", file=sys.stderr)
    sys.exit(status)


def _end_of_pipe() -> NoReturn:
    """The reader has seen enough (`pagelab trace cat T | head`)."""
    _discard()
    sys.exit(141)


def _discard() -> None:
    """Points standard output elsewhere, so that the interpreter's last flush does not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
