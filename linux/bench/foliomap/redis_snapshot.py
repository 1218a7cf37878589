# SPDX-License-Identifier: GPL-2.0
"""Redis after a snapshot (the FolioMap paper's Fig. 4), scaled down.

Redis is filled and told to save in the background, which forks. When the child is gone, a client
overwrites keys: large folios that the child shared are reused or copied. The fork's time is what
Redis took for it; that of the operations is the server's own, in user and kernel mode, not that of
the clients or the child. Copies are its minor faults that were not answered by reuse.

Usage: redis_snapshot.py KEYS OPERATIONS ROUNDS [FOLIO_KB...]
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lab import PAGE, allow, report

SOCKET = "/tmp/redis.sock"
VALUE = 100  # bytes


def cli(*words: str) -> str:
    """What the server answers to one command."""
    done = subprocess.run(["redis-cli", "-s", SOCKET, *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"redis-cli {words}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def info(key: str) -> float:
    """One figure of the server's own statistics."""
    match = re.search(rf"^{key}:([\d.]+)", cli("info"), re.MULTILINE)
    if match is None:
        raise SystemExit(f"redis says nothing of {key}")
    return float(match.group(1))


def cpu_ns() -> int:
    """The CPU time the server has used."""
    return int((info("used_cpu_user") + info("used_cpu_sys")) * 1e9)


def minor_faults(pid: int) -> int:
    """Page faults of a process that needed no input."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


def reused() -> int:
    """Write faults anywhere that were answered without a copy."""
    match = re.search(r"^pgreuse (\d+)$", Path("/proc/vmstat").read_text(), re.MULTILINE)
    return int(match.group(1)) if match else 0


def overwrites(keys: int, operations: int) -> bytes:
    """Commands that overwrite existing keys in order, as the paper's clients do."""
    value = b"x" * VALUE
    return b"".join(b"SET key:%d %b\r\n" % (number % keys, value) for number in range(operations))


def snapshot(folio_kb: int, pid: int) -> None:
    """One snapshot, from the fork to the child's end.

    Redis takes the fork's time by the clock. There is one CPU, and the scheduler may run the child
    before the parent has read the clock again; a real-time parent with an ordinary child stays.
    """
    pages = int(info("used_memory_rss")) // PAGE
    os.sched_setscheduler(pid, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    cli("bgsave")
    os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))
    while info("rdb_bgsave_in_progress"):
        time.sleep(0.1)
    report("redis_fork", folio_kb, pages, int(info("latest_fork_usec")) * 1000, 0)


def overwrite(folio_kb: int, pid: int, commands: bytes, operations: int) -> None:
    """Send the commands and see what they cost the server."""
    faults, reuse, start = minor_faults(pid), reused(), cpu_ns()
    subprocess.run(
        ["redis-cli", "-s", SOCKET, "--pipe"], input=commands, stdout=subprocess.DEVNULL, check=True
    )
    elapsed = cpu_ns() - start
    copies = minor_faults(pid) - faults - (reused() - reuse)
    report("redis_set", folio_kb, operations, elapsed, max(copies, 0))


def measure(folio_kb: int, keys: int, operations: int) -> None:
    """One server's life with one folio size."""
    allow(folio_kb)
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        server = subprocess.Popen(
            ["redis-server", "--unixsocket", SOCKET, "--port", "0", "--dir", directory,
             "--save", "", "--disable-thp", "no", "--enable-debug-command", "yes",
             "--logfile", "/dev/null"]
        )  # fmt: skip
        try:
            # No limit here: a guest's clock that counts instructions leaps while all wait.
            while not Path(SOCKET).exists() and server.poll() is None:
                time.sleep(0.1)
            cli("debug", "populate", str(keys), "key", str(VALUE))
            commands = overwrites(keys, operations)
            snapshot(folio_kb, server.pid)
            overwrite(folio_kb, server.pid, commands, operations)
        finally:
            server.kill()
            server.wait()
            Path(SOCKET).unlink(missing_ok=True)


def main() -> None:
    """Measure the folio sizes asked for."""
    keys, operations, rounds, *sizes = map(int, sys.argv[1:])
    for folio_kb in sizes or [4, 64]:
        for _ in range(rounds):
            measure(folio_kb, keys, operations)


if __name__ == "__main__":
    main()
