# SPDX-License-Identifier: GPL-2.0
"""Load memcached from several processes at once; print what it holds at the end.

Each process has keys of its own and keeps a plain copy, so the output is the same every time.
"""

import hashlib
import os
import random
import socket
import subprocess
import time
from pathlib import Path

SOCKET = "memcached.sock"
PROCESSES = 4
STEPS = 3000
KEYS = 400


def value(seed: int) -> bytes:
    """Up to 8 KB that depend on the seed."""
    return hashlib.sha256(str(seed).encode()).digest() * (1 + seed % 256)


def connect() -> socket.socket:
    """A connection, as soon as the server has one."""
    for _ in range(300):
        client = socket.socket(socket.AF_UNIX)
        try:
            client.connect(SOCKET)
        except OSError:
            client.close()
            time.sleep(0.1)
        else:
            return client
    raise TimeoutError("memcached does not answer")


def load(process: int) -> str:
    """Set, read and delete; a digest of what the keys are at the end."""
    client = connect()
    replies = client.makefile("rb")
    choose = random.Random(process)
    copy: dict[str, bytes] = {}

    def get(key: str) -> bytes | None:
        client.sendall(f"get {key}\r\n".encode())
        line = replies.readline()
        if line == b"END\r\n":
            return None
        data = replies.read(int(line.split()[3]) + 2)[:-2]
        assert replies.readline() == b"END\r\n"
        return data

    for _ in range(STEPS):
        key = f"{process}:{choose.randrange(KEYS)}"
        what = choose.random()
        if what < 0.4:
            data = copy[key] = value(choose.randrange(1 << 20))
            client.sendall(f"set {key} 0 0 {len(data)}\r\n".encode() + data + b"\r\n")
            assert replies.readline() == b"STORED\r\n"
        elif what < 0.5:
            client.sendall(f"delete {key}\r\n".encode())
            expected = b"DELETED\r\n" if copy.pop(key, None) else b"NOT_FOUND\r\n"
            assert replies.readline() == expected
        else:
            assert get(key) == copy.get(key), key
    digest = hashlib.sha256()
    for number in range(KEYS):
        digest.update(get(f"{process}:{number}") or b"none")
    return digest.hexdigest()


def main() -> None:
    """Start the server, load it, stop it."""
    server = subprocess.Popen(
        ["memcached", "-s", SOCKET, "-m", "128", "-t", "4", "-u", "root"],
        stderr=subprocess.DEVNULL,
    )
    children = []
    for process in range(PROCESSES):
        pid = os.fork()
        if not pid:
            Path(f"digest.{process}").write_text(load(process))
            os._exit(0)
        children.append(pid)
    for process, pid in enumerate(children):
        assert os.waitpid(pid, 0)[1] == 0, process
        print(process, Path(f"digest.{process}").read_text())
    client = connect()
    client.sendall(b"stats\r\nquit\r\n")
    stats = dict(line.split()[1:3] for line in client.makefile("rb") if line.startswith(b"STAT"))
    print({name: int(stats[name.encode()]) for name in ("cmd_set", "curr_items", "evictions")})
    server.terminate()
    print(server.wait())


main()
