"""Runs cases on a Dask cluster: what a worker's death, a lost scheduler or a wrong answer costs.

Dask schedules; here is what it leaves to its user. A task whose worker died is asked for again, as
often as MOST_DEATHS; a scheduler that went away is waited for; and one result in so many is
computed again by another worker, or here if there never was one: it must be the same to the bit.
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

# One result in so many of each worker is computed again elsewhere, its first among them.
CHECK_EVERY = 100
# So often may a worker fail to check a result: then it is checked here.
_MOST_CHECKS = 3
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

# Answer of a worker: how the case ended, and its own address.
Found = tuple[Ended, str]


def work_here(backend: str, task: dict[str, Any]) -> Found:
    """Runs in a worker of Dask."""
    from distributed import get_worker

    return work(backend, task), str(get_worker().address)


# A case whose result is to be computed again, and that result.
_Due = tuple[Case, Ended]


class Cluster:
    """A connection to a scheduler, made anew when it is lost; for one caller at a time."""

    def __init__(self, connect: Callable[[], Any], check_every: int = CHECK_EVERY) -> None:
        self._connect = connect
        self._check_every = check_every
        self._client: Any = None
        # Futures come back here from Dask's own thread.
        self._inbox: Queue[Any] = Queue()
        self._flying: dict[Any, Case] = {}
        self._checks: dict[Any, tuple[Case, Ended, str]] = {}
        # For each result that is checked, by its case, how often that came to nothing.
        self._failed_checks: dict[str, int] = {}
        # Workers that have answered that a case fails.
        self._have_failed: set[str] = set()
        # Cases that may run in some workers only.
        self._bound: dict[Any, list[str]] = {}
        # For each worker, results that are to be checked as soon as there is another worker.
        self._due: dict[str, list[_Due]] = {}
        self._deaths: dict[str, int] = {}
        self._banned: set[str] = set()
        # Workers that fail where others do not.
        self._unfit: set[str] = set()
        # For each worker, the cases it answered, who has that, and whether they failed.
        self._answered: dict[str, list[tuple[Case, Sink, bool]]] = {}
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
            while (self._queue or self._flying or self._checks or self._due) and not stop.wanted:
                while self._queue and len(self._flying) < _IN_FLIGHT:
                    self._submit(self._queue.popleft())
                self._check_due()
                if not (self._flying or self._checks):
                    self._check_here()
                    continue
                try:
                    self._take(self._inbox.get(timeout=_POLL_SECONDS))
                except Empty:
                    self._ready()
                    self._ask_others()
        finally:
            if self._client.status == "running":
                self._client.cancel([*self._flying, *self._checks])

    def close(self) -> None:
        """Ends the connection."""
        if self._client is not None:
            self._client.close()

    def _ready(self) -> None:
        """Waits until there is a scheduler; what a lost one was asked is asked again."""
        if self._client is not None and self._client.status == "running":
            return
        until = time.monotonic() + _PATIENCE_SECONDS
        lost = self._client is not None
        while True:
            if lost:
                self._client.close(timeout=1)
                self._queue.extendleft(self._flying.values())
                for case in self._flying.values():
                    self._board.lost(case)
                for case, ended, worker in self._checks.values():
                    self._owe(worker, case, ended)
                self._flying.clear()
                self._checks.clear()
                self._bound.clear()
                lost = False
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

    def _submit(self, case: Case, workers: list[str] | None = None) -> Any:
        self._attempts += 1
        if workers is None:
            self._say_if_too_large(case)
        bound = workers or self._allowed()
        future = self._client.submit(
            work_here,
            case.backend,
            case.task,
            # Asked again, it is another task: Dask would remember the first one's failure.
            key=f"{case.label} {case.key[:8]}-{self._attempts}",
            pure=False,
            resources={MEMORY: case.memory} if self._memory_is_declared() else None,
            workers=bound,
        )
        if bound:
            self._bound[future] = bound
        if workers is None:
            self._flying[future] = case
            self._board.started(case)
        future.add_done_callback(self._inbox.put)
        return future

    def _ask_others(self) -> None:
        """Asks anew what only workers that are gone might run: Dask waits for them for ever."""
        there = set(self._allowed_workers())
        for future in [one for one, places in self._bound.items() if there.isdisjoint(places)]:
            if not there:
                return
            self._client.cancel([future])
            self._take(future)

    def _take(self, future: Any) -> None:
        self._bound.pop(future, None)
        check = self._checks.pop(future, None)
        case = check[0] if check else self._flying.pop(future, None)
        if case is None:
            return
        answer = self._answer(future)
        if answer is not None:
            ended, worker = answer
            if check:
                self._compare(case, check[1], check[2], ended, worker)
            else:
                self._ended(case, ended, worker)
            return
        error = future.exception() if future.status == "error" else None
        if check:
            # The worker that was to check died, or cannot.
            if error is not None:
                self._failed_checks[case.key] = self._failed_checks.get(case.key, 0) + 1
            self._owe(check[2], case, check[1])
            return
        self._board.lost(case)
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

    def _answer(self, future: Any) -> Found | None:
        """Contents of a finished future; `None` when the scheduler took it with it."""
        if future.status != "finished":
            return None
        try:
            found: Found = future.result(timeout=_ANSWER_SECONDS)
        except (OSError, TimeoutError, CancelledError):
            return None
        return found

    def _ended(self, case: Case, ended: Ended, worker: str) -> None:
        failed = isinstance(ended, Failed)
        if worker in self._banned or (failed and worker in self._unfit and self._fit_workers()):
            self._queue.append(case)
            self._board.lost(case)
            return
        self._sink.finished(case, ended)
        answered = self._answered.setdefault(worker, [])
        answered.append((case, self._sink, failed))
        every = self._check_every
        due = every > 0 and len(answered) % every == 1 % every
        # A machine that can run nothing fails in everything: its first failure is looked at.
        if failed and worker not in self._have_failed:
            self._have_failed.add(worker)
            due = every > 0
        if due:
            self._owe(worker, case, ended)
            self._check_due()

    def _owe(self, worker: str, case: Case, ended: Ended) -> None:
        self._due.setdefault(worker, []).append((case, ended))

    def _check_due(self) -> None:
        """Has results computed again for which there is another worker by now."""
        for worker in list(self._due):
            left = []
            for case, ended in self._due.pop(worker):
                others = self._elsewhere(worker, case)
                failed = self._failed_checks.get(case.key, 0)
                if not others or failed >= _MOST_CHECKS:
                    left.append((case, ended))
                elif worker not in self._banned:
                    self._checks[self._submit(case, others)] = case, ended, worker
            if left:
                self._due[worker] = left

    def _check_here(self) -> None:
        """Computes again, in this process, what nobody else was there to check."""
        for worker in list(self._due):
            for case, ended in self._due.pop(worker, []):
                if worker in self._banned:
                    break
                # That this machine can run what the worker cannot is no reason to doubt the rest.
                if isinstance(ended, Failed):
                    self._have_failed.discard(worker)
                    continue
                if not _agree(work(case.backend, case.task), ended):
                    self._distrust(worker, case)

    def _compare(self, case: Case, first: Ended, worker: str, second: Ended, other: str) -> None:
        if _agree(first, second):
            return
        for found, by in ((first, worker), (second, other)):
            if isinstance(found, Failed):
                self._cannot(by, case)
                return
        # A third opinion, from this process.
        third = work(case.backend, case.task)
        if isinstance(third, Failed):
            raise PagelabError(
                f"{worker} and {other} do not agree on {case.label}, and this machine cannot say "
                f"which of them is wrong: {third.error}"
            )
        for found, by in ((first, worker), (second, other)):
            if not _agree(found, third):
                self._distrust(by, case)

    def _cannot(self, worker: str, case: Case) -> None:
        """Asks others for what the worker failed in; it is asked nothing more if there are any.

        It may be short of memory or of room on a disk: what it computed counts.
        """
        if worker in self._banned or worker in self._unfit:
            return
        self._unfit.add(worker)
        answered = self._answered.get(worker, [])
        failed = [(case, sink) for case, sink, failed in answered if failed]
        self._answered[worker] = [one for one in answered if not one[2]]
        self._due[worker] = [
            one for one in self._due.get(worker, []) if not isinstance(one[1], Failed)
        ]
        self._board.say(
            f"{worker} fails in {case.label}, which another worker can run: its {len(failed)} "
            "failures are computed again elsewhere"
        )
        for again, sink in failed:
            sink.forget(again)
            if sink is self._sink:
                self._queue.append(again)

    def _distrust(self, worker: str, case: Case) -> None:
        """Nothing that the worker answered counts, and it is asked nothing more."""
        if worker in self._banned:
            return
        all_answered = self._answered.pop(worker, [])
        self._board.say(
            f"{worker} answered {case.label} wrongly: its {len(all_answered)} "
            "results are computed again elsewhere"
        )
        self._banned.add(worker)
        self._due.pop(worker, None)
        for answered, sink, _ in all_answered:
            sink.forget(answered)
            if sink is self._sink:
                self._queue.append(answered)
        if any(sink is not self._sink for _, sink, _ in all_answered):
            raise PagelabError(
                f"{worker} answers wrongly, and what it answered before was made use of: that is "
                "forgotten now, and the same command computes it again"
            )
        self._asked_at = -_WORKERS_SECONDS
        if self._workers() and not self._allowed_workers():
            raise PagelabError("no worker is left that answers rightly")
        self._client.retire_workers([worker])

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

    def _allowed_workers(self) -> list[str]:
        there = [worker for worker in self._workers() if worker not in self._banned]
        return [worker for worker in there if worker not in self._unfit] or there

    def _fit_workers(self) -> list[str]:
        return [one for one in self._allowed_workers() if one not in self._unfit]

    def _allowed(self) -> list[str] | None:
        return self._allowed_workers() if self._banned or self._unfit else None

    def _elsewhere(self, worker: str, case: Case) -> list[str]:
        """Workers of other hosts that a case fits into; of the same one, if there are no others."""
        # Bound to others, Dask would wait for one of these to grow.
        others = [one for one in self._large_enough(case) if one != worker]
        return [one for one in others if _host(one) != _host(worker)] or others

    def _large_enough(self, case: Case) -> list[str]:
        """Workers that a case fits into, as far as they say."""
        allowed = self._allowed_workers()
        if not self._memory_is_declared():
            return allowed
        workers = self._workers()
        return [one for one in allowed if workers[one]["resources"][MEMORY] >= case.memory]

    def _say_if_too_large(self, case: Case) -> None:
        """Says, once, that a case waits for a worker that there is not."""
        if self._said or not self._allowed_workers() or self._large_enough(case):
            return
        self._said = True
        self._board.say(
            f"{case.label} needs {units.size(case.memory)}, and no worker declares as much "
            f"{MEMORY}: it waits for one"
        )

    def _memory_is_declared(self) -> bool:
        workers = self._workers().values()
        return bool(workers) and all(MEMORY in worker["resources"] for worker in workers)


def _host(address: str) -> str:
    return address.rpartition("//")[2].rpartition(":")[0]


def _agree(one: Ended, other: Ended) -> bool:
    """Bit for bit. Why a case fails may be put in words of the machine's own."""
    if isinstance(one, Failed) or isinstance(other, Failed):
        return isinstance(one, Failed) and isinstance(other, Failed)
    return bool(one.data == other.data)


def at(address: str, check_every: int = CHECK_EVERY) -> Cluster:
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
    return Cluster(connect, check_every)


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


def slurm(jobs: int, check_every: int = CHECK_EVERY) -> tuple[Cluster, Callable[[], None]]:
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
    cluster = Cluster(made.get_client, check_every)

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
