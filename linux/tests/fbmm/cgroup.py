# SPDX-License-Identifier: GPL-2.0
"""Memory of a memory file system counts against memory cgroups, and their limits hold.

Run under fbmm-run; without, it tests itself.
"""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MB = 1 << 20
# Takes argv[1] MB, says so, and waits to be told to go on. Then all is still there.
TAKE = """
import mmap, sys
kinds = {"populate": 0x8000, "locked": 0x2000}
flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | sum(kinds[kind] for kind in sys.argv[2:])
memory = mmap.mmap(-1, int(sys.argv[1]) << 20, flags=flags)
for page in range(0, len(memory), 4096):
    memory[page:page + 8] = page.to_bytes(8, "little")
print("taken", flush=True)
sys.stdin.readline()
for page in range(0, len(memory), 4096):
    assert memory[page:page + 8] == page.to_bytes(8, "little"), page
"""
# The same, and then argv[2] MB of a file in tmpfs, which the kernel cannot reclaim here.
WRITE = TAKE.replace(
    'print("taken"',
    """
import pathlib
with pathlib.Path("/run/written").open("wb", buffering=0) as file:
    for _ in range(int(sys.argv[2])):
        file.write(bytes(1 << 20))
print("taken\"""",
).replace("sys.argv[2:]", "[]")
# Waits to be told to go on; argv[1] MB are there to be written by others.
LEND = """
import ctypes, mmap, sys
memory = mmap.mmap(-1, int(sys.argv[1]) << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
print(ctypes.addressof(ctypes.c_char.from_buffer(memory)), flush=True)
sys.stdin.readline()
"""
# Puts argv[1] MB into the pipe that is its standard error, and unmaps them.
SPLICE = """
import ctypes, mmap, sys
size = int(sys.argv[1]) << 20
memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.write(b"x" * size)
at = ctypes.c_char.from_buffer(memory)
part = (ctypes.c_size_t * 2)(ctypes.addressof(at), size)
assert ctypes.CDLL(None).vmsplice(2, part, ctypes.c_size_t(1), 0) == size
del at
memory.close()
print("taken", flush=True)
sys.stdin.readline()
"""
tests = 0


def ok(what: str) -> None:
    """One more result."""
    global tests
    tests += 1
    print(f"ok {tests} {what}", flush=True)


def group(name: str, limit: int) -> Path:
    """A cgroup with a limit of so many bytes."""
    path = ROOT / name
    path.mkdir()
    (path / "memory.max").write_text(str(limit))
    return path


def start(
    path: Path, *arguments: object, program: str = TAKE, pipe: int | None = None
) -> subprocess.Popen[str]:
    """A process in the cgroup that takes memory."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    script = f'echo $$ >{path}/cgroup.procs && exec "$@"'
    return subprocess.Popen(
        ["sh", "-c", script, "sh", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=pipe,
        text=True,
    )


def await_taken(process: subprocess.Popen[str]) -> None:
    """Until the process has its memory."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line == "taken\n", (line, process.wait())


def finish(process: subprocess.Popen[str]) -> int:
    """Let the process go on, and wait for its end."""
    with contextlib.suppress(BrokenPipeError):
        process.communicate("\n")
    return process.wait()


def current(path: Path) -> int:
    """What is charged to the cgroup, in bytes."""
    return int((path / "memory.current").read_text())


def field(path: Path, file: str, name: str) -> int:
    """A line of memory.stat or memory.events."""
    lines = (path / file).read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.split()[0] == name)


def await_stat(path: Path, name: str, least: int) -> None:
    """Until a line of memory.stat has so much: the kernel adds up a few pages late."""
    deadline = time.monotonic() + 10
    while field(path, "memory.stat", name) < least and time.monotonic() < deadline:
        time.sleep(0.1)
    assert field(path, "memory.stat", name) >= least, field(path, "memory.stat", name)


def remove(path: Path) -> None:
    """The cgroup is empty: what it was charged is given back."""
    # Of files that the processes read there may be pages left, and of each CPU's advance.
    with contextlib.suppress(OSError):
        (path / "memory.reclaim").write_text(str(64 * MB))
    deadline = time.monotonic() + 10
    while current(path) > MB and time.monotonic() < deadline:
        time.sleep(0.1)
    assert current(path) <= MB, current(path)
    path.rmdir()


def remote() -> None:
    """Another process writes to memory that was never touched."""
    one = group("one", 64 * MB)
    process = start(one, 16, program=LEND)
    assert process.stdout is not None
    at = int(process.stdout.readline())
    before = current(one)
    with Path(f"/proc/{process.pid}/mem").open("r+b", buffering=0) as memory:
        for page in range(0, 16 * MB, 4096):
            memory.seek(at + page)
            memory.write(b"x")
    # What maps memory at once has charged it by then.
    assert before >= 16 * MB or current(one) - before >= 15 * MB, (before, current(one))
    ok("what another process writes is charged to whose memory it is")
    assert finish(process) == 0
    remove(one)


def kept() -> None:
    """Pages that a pipe has when their process has unmapped them."""
    one = group("one", 64 * MB)
    ends = os.pipe()
    fcntl.fcntl(ends[0], fcntl.F_SETPIPE_SZ, MB)
    process = start(one, 1, program=SPLICE, pipe=ends[1])
    os.close(ends[1])
    await_taken(process)
    assert finish(process) == 0
    assert current(one) >= MB, current(one)
    ok("a page that a pipe has is charged when it is unmapped")
    assert len(os.read(ends[0], 2 * MB)) == MB
    os.close(ends[0])
    remove(one)
    ok("and given back with the pipe")


def killed(*kind: str) -> None:
    """Who takes more than its cgroup may have."""
    one, two = group("one", 64 * MB), group("two", 64 * MB)
    small, neighbour = start(one, 8), start(two, 8)
    await_taken(small)
    await_taken(neighbour)
    large = start(one, 96, *kind)
    assert finish(large) == -signal.SIGKILL, large.returncode
    assert field(one, "memory.events", "oom_kill") == 1
    assert field(two, "memory.events", "oom_kill") == 0
    assert small.poll() is None
    assert neighbour.poll() is None
    ok(f"who takes too much is killed, and nobody else {' '.join(kind)}")
    assert finish(small) == finish(neighbour) == 0
    remove(one)
    remove(two)
    ok("its memory is given back")


def counter(name: str) -> int:
    """A counter of the mount."""
    return int(next(Path("/sys/fs").glob(f"*mfs/*/{name}")).read_text())


def swapped(*kind: str) -> None:
    """The same, where pages are swapped out: those of the cgroup go."""
    one, two = group("one", 32 * MB), group("two", 32 * MB)
    neighbour = start(two, 8)
    await_taken(neighbour)
    before, out = current(two), counter("swapouts")
    large = start(one, 48, *kind)
    await_taken(large)
    assert current(one) <= 32 * MB, current(one)
    assert counter("swapouts") - out >= 16 * MB // 4096, (out, counter("swapouts"))
    assert current(two) >= before - MB, (before, current(two))
    assert finish(large) == 0
    assert field(one, "memory.events", "oom_kill") == 0
    ok(f"what is too much for a memory cgroup is swapped out {' '.join(kind)}")
    assert finish(neighbour) == 0
    remove(one)
    remove(two)
    ok("and all of it is given back")


def others() -> None:
    """Memory of another kind, when all that the cgroup may have is the mount's."""
    one = group("one", 32 * MB)
    process = start(one, 40, 12, program=WRITE)
    await_taken(process)
    await_stat(one, "shmem", 12 * MB)
    assert current(one) <= 32 * MB, current(one)
    assert finish(process) == 0
    assert field(one, "memory.events", "oom_kill") == 0
    ok("memory of another kind has pages swapped out, too")
    Path("/run/written").unlink()
    remove(one)


def locked() -> None:
    """What cannot be swapped out."""
    one = group("one", 16 * MB)
    large = start(one, 24, "locked")
    assert finish(large) == -signal.SIGKILL, large.returncode
    assert field(one, "memory.events", "oom_kill") == 1
    ok("who locks more than its memory cgroup may have is killed")
    remove(one)


def main() -> None:
    """A result a line."""
    (ROOT / "cgroup.subtree_control").write_text("+memory")
    one = group("one", 64 * MB)
    process = start(one, 24)
    await_taken(process)
    assert current(one) >= 24 * MB, current(one)
    mapped = field(one, "memory.stat", "file_mapped") + field(one, "memory.stat", "anon")
    assert mapped >= 24 * MB, mapped
    if Path("/proc/self/fbmm_mount_dir").read_text():
        assert field(one, "memory.stat", "fbmm") >= 24 * MB
    ok("pages are charged, and memory.stat knows them")
    assert finish(process) == 0
    remove(one)
    ok("all is given back at the end")

    remote()
    kept()
    swaps = any(Path("/sys/fs").glob("*mfs/*/swapouts"))
    for kind in ((), ("populate",)):
        (swapped if swaps else killed)(*kind)
    if swaps:
        others()
        locked()
    print(f"1..{tests}")


main()
