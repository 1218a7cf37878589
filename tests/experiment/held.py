"""`pagelab` whose runs are held once a few results are kept, until the file `go` is there.

So a test that breaks off a sweep does so in the middle of it, however fast the machine is. Workers
import this too: those of a sweep as their main module, those of Dask as their `--preload`. The
folder `busy` has a file for each process that has begun a run, named by its number.
"""

import os
import time
from pathlib import Path
from typing import Any

from pagelab.experiment.backends import BACKENDS, simulate
from pagelab.experiment.progress import Progress, silent
from processes import HELD_AT, kept

HERE = Path.cwd()


def _held(task: dict[str, Any], progress: Progress = silent) -> dict[str, Any]:
    busy = HERE / "busy"
    busy.mkdir(exist_ok=True)
    (busy / str(os.getpid())).touch()
    while kept(HERE) >= HELD_AT and not (HERE / "go").exists() and progress(0, None):
        time.sleep(0.02)
    return simulate.run(task, progress)


BACKENDS["simulate"] = _held

if __name__ == "__main__":
    from pagelab.__main__ import main

    main()
