"""Entry point: runs a command and turns errors into messages and exit codes."""

import os
import sys

from pagelab import _core
from pagelab.cli import app
from pagelab.errors import PagelabError


def main() -> None:
    """Runs the command line. docs/compare.md lists the exit codes."""
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
