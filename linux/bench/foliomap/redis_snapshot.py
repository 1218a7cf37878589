# SPDX-License-Identifier: GPL-2.0
"""Redis after a snapshot (the FolioMap paper's Fig. 4), scaled down.

Redis is filled and told to save in the background, which forks. When the child is gone, a client
overwrites keys: large folios that the child shared are reused or copied. Fork time is what Redis
reports itself; copies are the server's minor faults that were not answered by reuse.

Usage: redis_snapshot.py KEYS OPERATIONS [FOLIO_KB...]
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lab import PAGE, allow, report

SOCKET = "/tmp/redis.sock"


def cli(*words: str) -> str:
    """What the server answers to one command."""
    done = subprocess.run(["redis-cli", "-s", SOCKET, *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"redis-cli {words}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def info(key: str) -> int:
    """One figure of the server's own statistics."""
    match = re.search(rf"^{key}:(\d+)", cli("info"), re.MULTILINE)
    if match is None:
        raise SystemExit(f"redis says nothing of {key}")
    return int(match.group(1))


def minor_faults(pid: int) -> int:
    """Page faults of a process that needed no input."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


def reused() -> int:
    """Write faults anywhere that were answered without a copy."""
    match = re.search(r"^pgreuse (\d+)$", Path("/proc/vmstat").read_text(), re.MULTILINE)
    return int(match.group(1)) if match else 0


def overwrites(keys: int, operations: int) -> bytes:
    """Commands that overwrite existing keys in order, as the paper's clients do."""
    return b"".join(b"SETRANGE key:%d 0 x\r\n" % (number % keys) for number in range(operations))


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
            cli("debug", "populate", str(keys), "key", "100")
            memory = info("used_memory_rss")
            cli("bgsave")
            while info("rdb_bgsave_in_progress"):
                time.sleep(0.1)
            pages = memory // PAGE
            report("redis_fork", folio_kb, pages, info("latest_fork_usec") * 1000, 0)

            faults, reuse = minor_faults(server.pid), reused()
            start = time.monotonic_ns()
            subprocess.run(
                ["redis-cli", "-s", SOCKET, "--pipe"],
                input=overwrites(keys, operations),
                stdout=subprocess.DEVNULL,
                check=True,
            )
            elapsed = time.monotonic_ns() - start
            copies = minor_faults(server.pid) - faults - (reused() - reuse)
            report("redis_set", folio_kb, operations, elapsed, max(copies, 0))
        finally:
            server.kill()
            server.wait()
            Path(SOCKET).unlink(missing_ok=True)


def main() -> None:
    """Measure the folio sizes asked for."""
    for folio_kb in [int(size) for size in sys.argv[3:]] or [4, 64]:
        measure(folio_kb, int(sys.argv[1]), int(sys.argv[2]))


if __name__ == "__main__":
    main()
