"""Work of a worker on a case, wherever it is."""

import os
import socket
import time
from typing import Any

from pagelab.errors import PagelabError, RunError
from pagelab.experiment.backends import BACKENDS
from pagelab.experiment.case import Ended, Failed, Result
from pagelab.experiment.progress import Progress, silent


def work(backend: str, task: dict[str, Any], progress: Progress = silent) -> Ended:
    """Runs a task.

    Raises InterruptedRunError when it was asked to stop, and PagelabError when this machine cannot
    run what another one could: it has no such trace, another version, a full disk.
    """
    started = time.monotonic()
    host = {"machine": socket.gethostname(), "process": os.getpid()}
    try:
        data, error = BACKENDS[backend](task, progress), None
    except RunError as raised:
        data, error = {}, str(raised)
    except (PagelabError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as raised:  # a fault of ours, and a panic is no Exception
        data, error = {}, f"{type(raised).__name__}: {raised}"
    host |= {"seconds": round(time.monotonic() - started, 3)}
    return Result(data, host) if error is None else Failed(error, host)
