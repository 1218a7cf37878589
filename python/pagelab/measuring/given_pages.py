"""Page sizes between 4 KB and 2 MB, which no process can choose for itself alone.

A kernel with multi-size THP (Linux 6.8) has a setting for each of them, for all processes. The
probe changes these, with leave, and undoes its changes however it or this process ends.
"""

import subprocess
from types import TracebackType

from pagelab import units
from pagelab.errors import PagelabError
from pagelab.measuring import probe
from pagelab.pages import SIZES

# What the kernel was set to, by the name of the size that it is used for.
OWN = "2M"


class GivenPages:
    """Which pages the kernel gives to whom huge pages are given.

    As a context: on leaving it the kernel's settings are as they were.
    """

    def __init__(self) -> None:
        self._given = OWN
        self._probe: subprocess.Popen[str] | None = None

    def give(self, size: str) -> None:
        """One of `SIZES` from 16K to 1M and no other, or 2M, for what the kernel was set to.

        Raises PagelabError when the kernel has no such setting or this user may not change it.
        """
        if size == self._given:
            return
        assert size in SIZES
        process = self._probe or self._start()
        wanted = "own" if size == OWN else str(units.parse_size(size) >> 10)
        try:
            print(wanted, file=process.stdin, flush=True)
            answer = process.stdout.readline() if process.stdout else ""
        except BrokenPipeError:
            answer = ""
        if answer.strip() != "ok":
            raise PagelabError(self._end() or f"{probe.NAME} did not say that {size} is given")
        self._given = size

    def _start(self) -> subprocess.Popen[str]:
        command = [str(probe.find()), "folio-sizes", "--allow-tuning", "--end-with-parent"]
        pipe = subprocess.PIPE
        try:
            # A session of its own: an interrupt at the terminal is for this process, which ends it.
            self._probe = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
            )
        except OSError as error:
            raise PagelabError(f"cannot run {command[0]}: {error.strerror}") from error
        return self._probe

    def _end(self) -> str:
        """Has the settings undone; what the probe said before it ended."""
        process, self._probe, self._given = self._probe, None, OWN
        if process is None:
            return ""
        # The end of its input is the end of its work; its guard has undone everything by then.
        _, said = process.communicate()
        return said.strip().rpartition("\n")[2]

    def __enter__(self) -> "GivenPages":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        said = self._end()
        if said and error is None:
            raise PagelabError(said)
