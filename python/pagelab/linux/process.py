"""Run other programs, with their failures turned into one readable error."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from pagelab.errors import PagelabError
from pagelab.linux.lock import held


def capture(
    argv: Sequence[str | Path], cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Standard output of a program that must succeed.

    Raises:
        PagelabError: it is not installed, or failed; names it and quotes the end of its errors.

    """
    try:
        done = subprocess.run(
            argv,
            cwd=cwd,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            errors="replace",
            pass_fds=held(),
        )
    except FileNotFoundError as error:
        raise PagelabError(f"{argv[0]} is not installed") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-15:]
        command = " ".join(str(word) for word in argv)
        raise PagelabError("\n".join([f"`{command}` failed ({done.returncode}):", *said]))
    return done.stdout
