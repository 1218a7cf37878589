"""Entry point: runs a command and turns errors into messages and exit codes."""

import os
import sys

from pagelab import __version__, _core
from pagelab.errors import PagelabError


def main() -> None:
    """Runs the command line. docs/compare.md lists the exit codes."""
    if sys.argv[1:] in (["version"], ["--version"]):
        # Scripts ask for it, and the command line takes five times as long to import.
        print(f"pagelab {__version__}")
        return
    from pagelab.cli import app

    try:
        app()
    except PagelabError as error:
        print(f"pagelab: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except _core.Error as error:
        print(f"pagelab: {error}", file=sys.stderr)
        sys.exit(PagelabError.exit_code)
    except BrokenPipeError:
        # The reader has seen enough (`pagelab trace cat T | head`). Point stdout elsewhere so
        # that the interpreter's last flush does not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


if __name__ == "__main__":
    main()
