"""Runs cases on this machine: a process a processor, each of which may die without harm.

Every worker has a connection of its own, whose other end no process but the worker has, so that a
death is known, and of which case: that case is run again, and the others go on. (An executor of
the standard library keeps the writing end of the results open itself. A worker that dies while it
writes one leaves it waiting for the rest for ever.) Memory is handed out before a case starts.
"""

import multiprocessing
import os
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing import connection
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from pagelab.errors import InterruptedRunError, PagelabError
from pagelab.experiment.board import Board
from pagelab.experiment.case import Case, Ended, Failed
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
    """Receiver of an executor's findings."""

    def finished(self, case: Case, ended: Ended) -> None:
        """A case has come to its end."""


class _NotStartedError(PagelabError):
    """A worker that died before it was given its case, which is not to blame for it."""

    def __init__(self) -> None:
        super().__init__(
            f"{MOST_DEATHS} processes in a row died while they started: what they say is above. "
            "What was finished is kept, and the same command goes on from there"
        )


# Answer to a case: the worker's place, and what it found or raised; None when it has died.
_Answer = tuple["_Slot", Ended | BaseException | None]


class _Slot:
    """A place for one worker process, which is started when there is work for it."""

    def __init__(self, number: int, told: Any, answers: SimpleQueue[_Answer]) -> None:
        self.number = number
        self._told = told
        self._answers = answers
        self._tasks: SimpleQueue[Case | None] | None = None

    def submit(self, case: Case) -> None:
        """Starts a case; a new process takes the place of one that died."""
        self._told[3 * self.number] = self._told[3 * self.number + 1] = 0
        if self._tasks is None:
            ours, theirs = _CONTEXT.Pipe()
            process = _CONTEXT.Process(target=_serve, args=(theirs, self._told, self.number))
            try:
                process.start()
            except EOFError:
                # The process that starts them was killed, by Ctrl-C while it began itself.
                ours.close()
                theirs.close()
                self._answers.put((self, _NotStartedError()))
                return
            except OSError as error:
                raise PagelabError(
                    f"cannot start processes: {error}; their sockets are in TMPDIR "
                    f"({tempfile.gettempdir()}), which may have some 70 characters"
                ) from error
            theirs.close()
            self._tasks = SimpleQueue()
            attend = threading.Thread(target=self._attend, args=(self._tasks, ours), daemon=True)
            attend.start()
        self._tasks.put(case)

    def _attend(self, tasks: SimpleQueue[Case | None], worker: Connection) -> None:
        """Hands cases to the worker, and on what it answers, until there are no more or it dies."""
        with worker:
            try:
                worker.recv()
            except (EOFError, OSError):
                self._answers.put((self, _NotStartedError()))
                return
            while (case := tasks.get()) is not None:
                try:
                    worker.send((case.backend, case.task))
                    answer = worker.recv()
                except (EOFError, OSError):
                    self._answers.put((self, None))
                    return
                except Exception as error:  # what cannot be pickled
                    answer = error
                self._answers.put((self, answer))

    def close(self) -> None:
        """Ends the process, when it is through with its case, without waiting for it."""
        if self._tasks is not None:
            self._tasks.put(None)
            self._tasks = None


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
    answers: SimpleQueue[_Answer] = SimpleQueue()
    slots = [_Slot(number, told, answers) for number in range(workers)]
    free = list(slots)
    running: dict[_Slot, Case] = {}
    deaths: dict[str, int] = {}
    not_started = 0
    try:
        while queue or running:
            if stop.wanted:
                queue.clear()
                for number in range(workers):
                    told[3 * number + 2] = 1
            used = sum(case.memory for case in running.values())
            while queue and free and (not running or used + queue[0].memory <= memory):
                case, slot = queue.popleft(), free.pop()
                used += case.memory
                board.started(case)
                slot.submit(case)
                running[slot] = case
            done = _within(_POLL_SECONDS, answers)
            for slot, case in running.items():
                board.at(case, int(told[3 * slot.number]), int(told[3 * slot.number + 1]) or None)
            for slot, answer in done:
                case = running.pop(slot)
                free.append(slot)
                not_started = not_started + 1 if isinstance(answer, _NotStartedError) else 0
                if isinstance(answer, _NotStartedError) and not_started < MOST_DEATHS:
                    slot.close()
                    board.lost(case)
                    queue.appendleft(case)
                elif answer is None:
                    slot.close()
                    board.lost(case)
                    deaths[case.key] = deaths.get(case.key, 0) + 1
                    if deaths[case.key] < MOST_DEATHS:
                        queue.appendleft(case)
                    else:
                        sink.finished(case, Failed(TOO_MANY_DEATHS, {}))
                elif isinstance(answer, InterruptedRunError):
                    board.stopped(case)
                elif isinstance(answer, BaseException):
                    raise answer
                else:
                    sink.finished(case, answer)
    finally:
        for number in range(workers):
            told[3 * number + 2] = 1
        for slot in slots:
            slot.close()


def _within(seconds: float, answers: SimpleQueue[_Answer]) -> list[_Answer]:
    """Answers that have come by then, as soon as there is something."""
    found = []
    try:
        found.append(answers.get(timeout=seconds))
        while True:
            found.append(answers.get_nowait())
    except Empty:
        return found


def available_memory() -> int:
    """Bytes that can be had without swapping; unlimited where the system does not say.

    No more than is left of the limits of containers and batch jobs: what takes more is killed.
    """
    try:
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8", errors="replace")
    except OSError:
        groups = ""
    return min([_available_here(), *_left_of_limits(groups, Path("/sys/fs/cgroup"))])


# Limit, use, and of that what is given back when it is needed, in each version of cgroups(7).
_LIMITS = {
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def _left_of_limits(groups: str, mounted: Path) -> Iterator[int]:
    """Rest of the memory of each control group: those of a process, and those around them."""
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in _LIMITS:
            continue
        limit, use, file_cache = _LIMITS[controllers]
        top = mounted / controllers
        place = top / path.lstrip("/")
        for folder in (place, *place.parents):
            if not folder.is_relative_to(top):
                break
            # The own group is the top where a container does not see what is around it.
            with suppress(OSError, ValueError):
                most = int((folder / limit).read_text())
                used = int((folder / use).read_text())
                counts = dict(map(str.split, (folder / "memory.stat").read_text().splitlines()))
                yield max(most - used + int(counts.get(file_cache, 0)), 0)


def _available_here() -> int:
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


def _serve(parent: Connection, told: Any, place: int) -> None:
    """In a worker: does what the parent asks for, and ends with it. Signals are the parent's."""
    global _told, _place
    _told, _place = told, 3 * place
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    process = multiprocessing.parent_process()
    assert process is not None

    def end_with_parent() -> None:
        connection.wait([process.sentinel])
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    with suppress(OSError):  # the parent has gone
        parent.send("started")
    while True:
        try:
            backend, task = parent.recv()
        except EOFError:
            return
        answer: Ended | BaseException
        try:
            answer = work(backend, task, _progress)
        except (PagelabError, KeyboardInterrupt, SystemExit) as raised:
            answer = raised
        try:
            parent.send(answer)
        except OSError:  # the parent has gone
            return


def _progress(done: int, total: int | None, text: str = "") -> bool:
    _told[_place], _told[_place + 1] = done, total or 0
    return not _told[_place + 2]
