"""A probe that goes on and answers each line that it is given with one."""

import os
import subprocess

from pagelab.errors import PagelabError, cannot
from pagelab.measuring import probe


class Serving:
    """Runs a subcommand of the probe from the first question on."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._probe: subprocess.Popen[str] | None = None

    def ask(self, line: str) -> str:
        """The answer. Raises PagelabError with what the probe said instead; it has then ended."""
        process = self._probe or self._start()
        try:
            print(line, file=process.stdin, flush=True)
            answer = process.stdout.readline() if process.stdout else ""
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise PagelabError(self.end() or f"{probe.NAME} {self._arguments[0]} did not answer")
        return answer.strip()

    def end(self) -> str:
        """Has the probe end, and what it changed undone; the last line of what it said."""
        process, self._probe = self._probe, None
        if process is None:
            return ""
        # The end of its input is the end of its work; its guard has undone everything by then.
        _, said = process.communicate()
        return said.strip().rpartition("\n")[2]

    def _start(self) -> subprocess.Popen[str]:
        command = [str(probe.find()), *self._arguments, f"--end-with-parent={os.getpid()}"]
        pipe = subprocess.PIPE
        with cannot("run", command[0]):
            # A session of its own: an interrupt at the terminal is for this process, which ends it.
            self._probe = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
            )
        return self._probe
