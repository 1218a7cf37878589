"""A server that is run until its load has ended, and measured by what the load says."""

import math
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from pagelab.advising.resident import descendants
from pagelab.environment import given
from pagelab.errors import PagelabError, UsageError
from pagelab.measuring import native, probe
from pagelab.measuring.native import Run

# A load begins when its server listens, or after so long; one that fails sooner than that may have
# come too early, and is tried again.
_STARTING_SECONDS = 20.0
_BETWEEN_TRIES = 0.1
# A server is asked to end, and made to after so long.
_ENDING_SECONDS = 10.0


@dataclass(frozen=True)
class Load:
    """A command that works a server, and the pattern of the figure that it prints.

    The last match counts: its first group, or all of it. Without a pattern the server's processor
    time is what is compared.
    """

    command: list[str]
    metric: re.Pattern[str] | None = None

    @property
    def options(self) -> list[str]:
        """The options of `advise` that say it."""
        metric = [] if self.metric is None else ["--metric", self.metric.pattern]
        return ["--load", shlex.join(self.command), *metric]

    def rate(self, output: str) -> float | None:
        """The figure in what it has printed. Raises PagelabError without one."""
        if self.metric is None:
            return None
        found = [
            match[1] if match.re.groups else match[0] for match in self.metric.finditer(output)
        ]
        last = found[-1].strip() if found else ""
        try:
            rate = float(last.replace(",", ""))
        except ValueError:
            rate = math.nan
        if not (math.isfinite(rate) and rate > 0):
            said = f"{last!r} is no figure" if found else "nothing matches"
            end = output.strip()[-200:]
            raise PagelabError(
                f"{said} of --metric {self.metric.pattern} in what {self.command[0]} printed: {end}"
            )
        return rate


def parse(command: list[str], metric: str | None) -> Load:
    """The load of these options; raises UsageError where they say none."""
    if not command:
        raise UsageError("--load needs a command")
    try:
        return Load(command, None if metric is None else re.compile(metric))
    except re.error as error:
        raise UsageError(f"--metric {metric} is no pattern: {error}") from error


def serve(
    command: list[str],
    environment: Mapping[str, str],
    load: Load,
    policy: native.Policy,
    *,
    seconds: float,
    started: Callable[[int], AbstractContextManager[object]],
) -> Run:
    """One run of a server, which ends when its load has.

    Raises PagelabError when the server ends before, when the load fails, or when both take longer
    than `seconds`.
    """
    with native.running(command, environment, policy) as server, started(server.pid):
        begin, output = _worked(server, command, load, seconds)
        wall = time.monotonic() - begin
        rate = load.rate(output)
        _end(server)
        usage = native.ended(server)
    return Run(usage.ru_utime, usage.ru_stime, wall, usage.ru_minflt, begin, rate=rate)


def _worked(
    server: subprocess.Popen[bytes], command: list[str], load: Load, seconds: float
) -> tuple[float, str]:
    """When the load began that did not fail, and what it has printed."""
    first = time.monotonic()
    while time.monotonic() < first + _STARTING_SECONDS and not (
        _has_ended(server) or _listener(server.pid)
    ):
        time.sleep(_BETWEEN_TRIES)
    while True:
        begin = time.monotonic()
        status, output = _run(load, first + seconds - begin)
        if _has_ended(server):
            native.ended(server)
            how = probe.how_ended(server.returncode)
            raise PagelabError(
                f"{command[0]} {how} before its load had ended: a server that is advised must stay "
                "in the foreground"
            )
        if status == 0:
            return begin, output
        if time.monotonic() - first > _STARTING_SECONDS:
            raise PagelabError(_failed(load, status, output))
        time.sleep(_BETWEEN_TRIES)


@contextmanager
def working(load: Load) -> Iterator[None]:
    """Works a server that the block starts, once it listens, and asks it to end when that is done.

    The load is ended with the block, if that is sooner. Raises PagelabError after a block in which
    it could not begin, or failed each time.
    """
    # Some of what runs already may listen: the server that multiprocessing forks from does.
    others = frozenset(descendants(os.getpid()))
    ended = Event()
    failure = ["the server opened no socket that --load could connect to"]

    def work() -> None:
        first = None
        while not ended.wait(_BETWEEN_TRIES):
            server = _listener(os.getpid(), others)
            if server is None:
                continue
            first = first or time.monotonic()
            status, output = _run(load, math.inf, ended)
            if status and _listener(os.getpid(), others) is not None:
                failure[:] = [_failed(load, status, output)]
                if time.monotonic() - first <= _STARTING_SECONDS:
                    continue
            else:
                failure.clear()
            with suppress(ProcessLookupError):
                os.kill(server, signal.SIGTERM)
            return

    thread = Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if failure:
        raise PagelabError(failure[0])


def _failed(load: Load, status: int, output: str) -> str:
    return f"the load {load.command[0]} ended with status {status}: {output.strip()[-200:]}"


def _listener(pid: int, others: Collection[int] = ()) -> int | None:
    """A process, or one that it has started, that has a socket which others can connect to.

    None of `others` is meant.
    """
    folder = Path(f"/proc/{pid}/net")
    # Columns and values of proc_pid_net(5): the state of TCP's listeners, the flag of Unix ones.
    listening = {
        row[inode]
        for name, column, value, inode in (
            ("tcp", 3, "0A", 9),
            ("tcp6", 3, "0A", 9),
            ("unix", 3, "00010000", 6),
        )
        for row in map(str.split, _read(folder / name).splitlines()[1:])
        if row[column] == value
    }
    return next(
        (
            process
            for process in descendants(pid)
            if process not in others
            for target in _files(process)
            if target.startswith("socket:[") and target[8:-1] in listening
        ),
        None,
    )


def _files(pid: int) -> Iterator[str]:
    """The targets of a process's open files."""
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                yield str(entry.readlink())


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _run(load: Load, seconds: float, ended: Event | None = None) -> tuple[int, str]:
    """Status and output of a load; one that runs when something has `ended` is killed.

    Raises PagelabError when it takes longer than so many seconds.
    """
    over = time.monotonic() + seconds
    with subprocess.Popen(
        load.command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=given(),
        process_group=0,
    ) as process:
        try:
            while True:
                try:
                    output, _ = process.communicate(timeout=_BETWEEN_TRIES)
                    return process.returncode, output.decode(errors="replace")
                except subprocess.TimeoutExpired:
                    if ended is not None and ended.is_set():
                        return 0, ""
                    if time.monotonic() > over:
                        raise PagelabError(
                            f"the load {load.command[0]} had not ended after {seconds:.0f} s: give "
                            "it more with --time, or less to do"
                        ) from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def _end(server: subprocess.Popen[bytes]) -> None:
    """Asks a server to end, and makes it and what is left of its processes."""
    os.kill(server.pid, signal.SIGTERM)
    over = time.monotonic() + _ENDING_SECONDS
    while not _has_ended(server) and time.monotonic() < over:
        time.sleep(0.01)
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)


def _has_ended(server: subprocess.Popen[bytes]) -> bool:
    """True if it has; it is left to be waited for, which says what it has used."""
    return os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
