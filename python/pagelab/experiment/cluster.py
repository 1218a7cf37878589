"""Runs cases on a Dask cluster: what a worker's death or a lost scheduler costs.

Dask schedules; here is what it leaves to its user. A task whose worker died is asked for again, as
often as MOST_DEATHS, and a scheduler that went away is waited for.
"""

import logging
import subprocess
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError
from queue import Empty, Queue
from typing import Any

from pagelab import units
from pagelab.errors import PagelabError, UsageError
from pagelab.experiment.board import Board
from pagelab.experiment.case import Case, Ended, Failed
from pagelab.experiment.local import MOST_DEATHS, TOO_MANY_DEATHS, Sink
from pagelab.experiment.work import work
from pagelab.jobs import Stop

# Cases that are handed to the scheduler at once: enough for any cluster to be busy.
_IN_FLIGHT = 2000
_POLL_SECONDS = 0.5
_ANSWER_SECONDS = 60.0
# So old may be what is known of the workers there are.
_WORKERS_SECONDS = 2.0
# So long a scheduler may be away.
_PATIENCE_SECONDS = 600.0
# A worker that declares this resource gets runs that fit into it.
MEMORY = "MEMORY"


class Cluster:
    """A connection to a scheduler, made anew when it is lost; for one caller at a time."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._client: Any = None
        # Futures come back here from Dask's own thread.
        self._inbox: Queue[Any] = Queue()
        self._flying: dict[Any, Case] = {}
        self._deaths: dict[str, int] = {}
        self._said = False
        self._attempts = 0
        self._known: dict[str, Any] = {}
        self._asked_at = -_WORKERS_SECONDS

    def run(self, cases: list[Case], sink: Sink, board: Board, stop: Stop) -> None:
        """Runs all cases. Raises PagelabError when the scheduler does not come back."""
        self._queue = deque(cases)
        self._sink, self._board = sink, board
        board.under_way = "handed to Dask"
        self._ready()
        try:
            while (self._queue or self._flying) and not stop.wanted:
                while self._queue and len(self._flying) < _IN_FLIGHT:
                    self._submit(self._queue.popleft())
                try:
                    self._take(self._inbox.get(timeout=_POLL_SECONDS))
                except Empty:
                    self._ready()
        finally:
            if self._client.status == "running":
                self._client.cancel(list(self._flying))

    def close(self) -> None:
        """Ends the connection."""
        if self._client is not None:
            self._client.close()

    def _ready(self) -> None:
        """Waits until there is a scheduler; what a lost one was asked is asked again."""
        if self._client is not None and self._client.status == "running":
            return
        until = time.monotonic() + _PATIENCE_SECONDS
        if self._client is not None:
            self._client.close(timeout=1)
            self._queue.extendleft(self._flying.values())
            for case in self._flying.values():
                self._board.lost(case)
            self._flying.clear()
        while True:
            try:
                self._client = self._connect()
                self._asked_at = -_WORKERS_SECONDS
                return
            except (OSError, TimeoutError) as error:
                if time.monotonic() > until:
                    raise PagelabError(
                        f"the scheduler is gone: {error}; what was finished is kept, and the same "
                        "command goes on from there"
                    ) from error
                time.sleep(1)

    def _submit(self, case: Case) -> None:
        self._attempts += 1
        self._say_if_too_large(case)
        future = self._client.submit(
            work,
            case.backend,
            case.task,
            # Asked again, it is another task: Dask would remember the first one's failure.
            key=f"{case.label} {case.key[:8]}-{self._attempts}",
            pure=False,
            resources={MEMORY: case.memory} if self._memory_is_declared() else None,
        )
        self._flying[future] = case
        self._board.started(case)
        future.add_done_callback(self._inbox.put)

    def _take(self, future: Any) -> None:
        case = self._flying.pop(future, None)
        if case is None:
            return
        ended = self._answer(future)
        if ended is not None:
            self._sink.finished(case, ended)
            return
        self._board.lost(case)
        error = future.exception() if future.status == "error" else None
        if error is not None and type(error).__name__ != "KilledWorker":
            raise (
                error
                if isinstance(error, PagelabError)
                else PagelabError(f"{case.label}: a worker could not run it: {error!r}")
            )
        if error is not None:
            self._deaths[case.key] = self._deaths.get(case.key, 0) + 1
            if self._deaths[case.key] >= MOST_DEATHS:
                self._sink.finished(case, Failed(TOO_MANY_DEATHS, {}))
                return
        else:
            self._ready()
        self._queue.append(case)

    def _answer(self, future: Any) -> Ended | None:
        """Contents of a finished future; `None` when the scheduler took it with it."""
        if future.status != "finished":
            return None
        try:
            found: Ended = future.result(timeout=_ANSWER_SECONDS)
        except (OSError, TimeoutError, CancelledError):
            return None
        return found

    def _workers(self) -> dict[str, Any]:
        """Last statement of the scheduler about its workers, by address."""
        now = time.monotonic()
        if now > self._asked_at + _WORKERS_SECONDS:
            self._asked_at = now
            try:
                # Not `scheduler_info()`: it returns what the client's heartbeat, which asks for
                # no workers, may have put there in the meantime.
                asked = self._client.sync(self._client.scheduler.identity, n_workers=-1)
                self._known = asked["workers"]
            except (OSError, TimeoutError, CancelledError):
                self._known = {}
        return self._known

    def _say_if_too_large(self, case: Case) -> None:
        """Says, once, that a case waits for a worker that there is not."""
        if self._said or not self._memory_is_declared():
            return
        if any(one["resources"][MEMORY] >= case.memory for one in self._workers().values()):
            return
        self._said = True
        self._board.say(
            f"{case.label} needs {units.size(case.memory)}, and no worker declares as much "
            f"{MEMORY}: it waits for one"
        )

    def _memory_is_declared(self) -> bool:
        workers = self._workers().values()
        return bool(workers) and all(MEMORY in worker["resources"] for worker in workers)


def at(address: str) -> Cluster:
    """The cluster of the scheduler at an address.

    Raises UsageError when Dask is not installed or the address is none, and PagelabError when
    nobody answers there.
    """
    distributed = _distributed()
    _check_address(address)

    def connect() -> Any:
        return distributed.Client(address, timeout="10s", set_as_default=False)

    try:
        connect().close()
    except (OSError, ValueError, TypeError) as error:
        # A TypeError is about TLS that is not configured.
        raise PagelabError(f"no Dask scheduler answers at {address}: {error}") from error
    return Cluster(connect)


def _check_address(address: str) -> None:
    """Raises UsageError for what is no address: Dask's client would take 20 s and a traceback."""
    from distributed import comm

    try:
        # The others have no port.
        if comm.parse_address(address)[0] not in ("inproc", "ucx"):
            comm.get_address_host_port(address)
    except ValueError as error:
        raise UsageError(
            f"--dask {address}: {error}; write it as HOST:PORT or tcp://HOST:PORT"
        ) from error


def slurm(jobs: int) -> tuple[Cluster, Callable[[], None]]:
    """Workers in so many Slurm jobs, and what ends them.

    Queue, account, walltime, cores and memory of a job are in dask-jobqueue's own configuration,
    ~/.config/dask/jobqueue.yaml. Raises PagelabError where there is no Slurm.
    """
    _distributed()
    try:
        import dask_jobqueue
    except ImportError as error:
        raise UsageError("--slurm needs dask-jobqueue: pip install 'pagelab[dask]'") from error
    import dask

    _slurm_answers()
    given = dask.config.get("jobqueue.slurm", {})
    # A worker a thread: a job that is killed takes one run with it and no more.
    cores = given.get("cores") or 1
    made: Any = dask_jobqueue.SLURMCluster(
        cores=cores, processes=cores, memory=given.get("memory") or f"{2 * cores}GiB"
    )
    made.scale(jobs=jobs)
    cluster = Cluster(made.get_client)

    def close() -> None:
        cluster.close()
        made.close()

    return cluster, close


def _slurm_answers() -> None:
    """Raises PagelabError when it does not: dask-jobqueue would wait for workers for ever."""
    try:
        said = subprocess.run(["sinfo"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise PagelabError(f"--slurm cannot run sinfo: {error.strerror}") from error
    if said.returncode:
        last = said.stderr.strip().rpartition("\n")[2]
        raise PagelabError(f"Slurm does not answer here: {last}")


def _distributed() -> Any:
    # Lost connections are dealt with here, and not by its messages.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    try:
        import distributed
    except ImportError as error:
        raise UsageError("Dask is not installed: pip install 'pagelab[dask]'") from error
    return distributed
