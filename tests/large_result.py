"""Runs two cases, whose results are larger than what a worker can write before it is read.

The worker's file in the folder `busy`, named by its number, says that it has begun; it goes on
when the file `go` is there. It is killed when it has handed over the first result, so that it dies
between two runs. Prints how long the results are, and how many workers have died.
"""

import os
import signal
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from pagelab.experiment import local
from pagelab.experiment.backends import BACKENDS
from pagelab.experiment.board import Board
from pagelab.experiment.case import Case, Ended, Result
from pagelab.experiment.progress import Progress, silent
from pagelab.jobs import Stop
from processes import alive, until

LENGTH = 1 << 26


def _large(task: dict[str, Any], progress: Progress = silent) -> dict[str, Any]:
    folder = Path("busy")
    folder.mkdir(exist_ok=True)
    (folder / str(os.getpid())).touch()
    while not Path("go").exists():
        time.sleep(0.02)
    return {"text": "x" * LENGTH}


class _Lengths:
    def finished(self, case: Case, ended: Ended) -> None:
        assert isinstance(ended, Result)
        print(f"{len(ended.data['text'])} characters")
        if case.label == "first":
            worker = ended.host["process"]
            os.kill(worker, signal.SIGKILL)
            until(lambda: not alive(worker))


BACKENDS["large"] = _large

if __name__ == "__main__":
    board = Board(2, 0, Console(stderr=True))
    cases = [Case("large", label, {}, label) for label in ("first", "second")]
    local.run(cases, _Lengths(), board, Stop(), workers=1)
    print(f"{board.deaths} died")
