"""A program to be run in a guest and here, under the same conditions."""

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pagelab.agreeing import stack

_TUNABLES = "GLIBC_TUNABLES"


def alike(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment with which a program does the same in a guest and under the recorder.

    The recorder's emulator has no restartable sequences (rseq(2)). With them the kernel writes to a
    program's memory of its own accord: after a fork each write copies a page.
    """
    tunables = filter(None, [environment.get(_TUNABLES), "glibc.pthread.rseq=0"])
    found = {**environment, _TUNABLES: ":".join(tunables)}
    return found | {stack.VARIABLE: str(stack.LIMIT)}


@dataclass(frozen=True)
class Program:
    """A command, and what a shell does before it, which is counted nowhere.

    The first word is a path, so that nothing is looked for. `folder` is where both run, on a file
    system in memory if the program writes files; None: where pagelab was started.
    """

    name: str
    command: list[str]
    environment: Mapping[str, str]
    before: str = ""
    folder: Path | None = None

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """The conditions of a guest, here: environment, folder, stack, nothing to read or say."""
        stay = [os.dup(stream) for stream in range(3)]
        before, limits = dict(os.environ), resource.getrlimit(resource.RLIMIT_STACK)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.environ.clear()
        os.environ.update(self.environment)
        try:
            if self.folder:
                shutil.rmtree(self.folder, ignore_errors=True)
                self.folder.mkdir()
            if self.before:
                subprocess.run(["sh", "-ec", self.before], check=True, cwd=self.folder)
            for stream in range(3):
                os.dup2(nothing, stream)
            resource.setrlimit(resource.RLIMIT_STACK, (stack.LIMIT, limits[1]))
            with chdir(self.folder or Path.cwd()):
                yield
        finally:
            for stream, old in enumerate(stay):
                os.dup2(old, stream)
            resource.setrlimit(resource.RLIMIT_STACK, limits)
            os.environ.clear()
            os.environ.update(before)
            for descriptor in (nothing, *stay):
                os.close(descriptor)
