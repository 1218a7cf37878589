"""Runs cases on this machine: a process a processor, each of which may die without harm.

Every worker is an executor of one process, so that a death is known to be of one case: that case
is run again, and the others go on. Memory is handed out before a case starts.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from typing import Any, Protocol

from pagelab.experiment.board import Board
from pagelab.experiment.case import Case, Ended, Failed, InterruptedRunError
from pagelab.experiment.work import work
from pagelab.jobs import Stop, available_processors

# So often may workers die over one case: then it is the case, not the machine.
MOST_DEATHS = 10
TOO_MANY_DEATHS = f"{MOST_DEATHS} processes died over it; it may want more memory than there is"
_POLL_SECONDS = 0.2
# Spawned, not forked: this process has threads. The server imports pagelab once for all workers.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["pagelab.experiment.work"])


class Sink(Protocol):
    """Where an executor hands over what it found."""

    def finished(self, case: Case, ended: Ended) -> None:
        """A case has come to its end."""

    def forget(self, case: Case) -> None:
        """What was handed over for a case is wrong; it will be handed over again."""


class _Slot:
    """A place for one worker process, which is started when there is work for it."""

    def __init__(self, number: int, told: Any) -> None:
        self.number = number
        self._told = told
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, case: Case) -> Future[Ended]:
        """Starts a case; a new process takes the place of one that died."""
        self._told[3 * self.number] = self._told[3 * self.number + 1] = 0
        self._pool = self._pool or ProcessPoolExecutor(
            1, _CONTEXT, initializer=_begin, initargs=(self._told, self.number)
        )
        return self._pool.submit(work, case.backend, case.task, _progress)

    def died(self) -> None:
        """Forgets the process."""
        self.close()
        self._pool = None

    def close(self) -> None:
        """Ends the process without waiting for it."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


def run(
    cases: Iterable[Case],
    sink: Sink,
    board: Board,
    stop: Stop,
    workers: int | None = None,
    memory: int | None = None,
) -> None:
    """Runs all cases, as many at once as there are workers (all processors) and memory for.

    The sink is told in this thread of each, as soon as it has ended.
    """
    queue = deque(cases)
    workers = min(workers or available_processors(), len(queue)) or 1
    memory = memory or available_memory()
    # For each worker: done, total, and whether to stop.
    told = _CONTEXT.RawArray("d", 3 * workers)
    free = [_Slot(number, told) for number in range(workers)]
    slots = list(free)
    running: dict[Future[Ended], tuple[_Slot, Case]] = {}
    deaths: dict[str, int] = {}
    try:
        while queue or running:
            if stop.wanted:
                queue.clear()
                for number in range(workers):
                    told[3 * number + 2] = 1
            used = sum(case.memory for _, case in running.values())
            while queue and free and (not running or used + queue[0].memory <= memory):
                case, slot = queue.popleft(), free.pop()
                used += case.memory
                board.started(case)
                running[slot.submit(case)] = slot, case
            done, _ = wait(running, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
            for slot, case in running.values():
                board.at(case, int(told[3 * slot.number]), int(told[3 * slot.number + 1]) or None)
            for future in done:
                slot, case = running.pop(future)
                free.append(slot)
                try:
                    sink.finished(case, future.result())
                except InterruptedRunError:
                    board.stopped(case)
                except BrokenProcessPool:
                    slot.died()
                    board.lost(case)
                    deaths[case.key] = deaths.get(case.key, 0) + 1
                    if deaths[case.key] < MOST_DEATHS:
                        queue.appendleft(case)
                    else:
                        sink.finished(case, Failed(TOO_MANY_DEATHS, {}))
    finally:
        for number in range(workers):
            told[3 * number + 2] = 1
        for slot in slots:
            slot.close()


def available_memory() -> int:
    """Bytes that can be had without swapping; unlimited where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="utf-8") as lines:  # noqa: PTH123
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 1 << 62


_told: Any = None
_place = 0


def _begin(told: Any, place: int) -> None:
    """In a new worker: it leaves signals to its parent, and ends with it."""
    global _told, _place
    _told, _place = told, 3 * place
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _progress(done: int, total: int | None, text: str = "") -> bool:
    _told[_place], _told[_place + 1] = done, total or 0
    return not _told[_place + 2]
