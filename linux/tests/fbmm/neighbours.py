# SPDX-License-Identifier: GPL-2.0
"""What one process of a memory file system can do to the others, which is little."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MANAGERS = Path(os.environ["MANAGERS"])
RUN = os.environ["FBMM_RUN"]
MOUNT = Path("/run/a")
POOL = 64  # MB
MAP = """
import ctypes, mmap, os, sys
def take(mb, flags=0):
    return mmap.mmap(-1, mb << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | flags)
"""
# Twice its memory cgroup, of which nothing that is swapped out is in the page cache any more.
READ = f"""{MAP}
import random
memory = take(int(sys.argv[1]))
pages = range(0, len(memory), 4096)
for page in pages:
    memory[page:page + 8] = page.to_bytes(8, "little")
for _ in range(3):
    os.sync()
    open("/proc/sys/vm/drop_caches", "w").write("1")
    for page in random.Random(1).sample(pages, len(pages) // 2):
        assert memory[page:page + 8] == page.to_bytes(8, "little"), page
"""
POPULATE = f"""{MAP}
print("begins", flush=True)
sys.stdin.readline()
take(int(sys.argv[1]), 0x8000)
"""
WRITE = f"""{MAP}
memory = take(int(sys.argv[1]))
for page in range(0, len(memory), 4096):
    memory[page] = 1
"""
# Mappings that cannot be one, then children.
FORK = f"""{MAP}
memory = take(8)
at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
protect = ctypes.CDLL(None, use_errno=True).mprotect
protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
for page in range(0, len(memory), 8192):
    memory[page] = 1
    assert protect(at + page, 4096, 1) == 0, os.strerror(ctypes.get_errno())
files = lambda: int(open("/sys/kernel/mm/fbmm/files").read())
before = files()
child = os.fork()
if not child:
    assert all(memory[page] == 1 for page in range(0, len(memory), 8192))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(files() - before)
"""
tests = 0


def ok(what: str) -> None:
    """One more result."""
    global tests
    tests += 1
    print(f"ok {tests} {what}", flush=True)


@contextlib.contextmanager
def group(file: str, limit: str):
    """A memory cgroup with a limit."""
    path = ROOT / "one"
    path.mkdir()
    (path / file).write_text(limit)
    try:
        yield path
    finally:
        (path / "cgroup.kill").write_text("1")
        while "populated 1" in (path / "cgroup.events").read_text():
            pass
        path.rmdir()


def start(program: str, megabytes: int, path: Path | None = None) -> subprocess.Popen[str]:
    """A process with memory of the mount."""
    enter = f"echo $$ >{path}/cgroup.procs && " if path else ""
    command = [RUN, str(MOUNT), sys.executable, "-c", program, str(megabytes)]
    return subprocess.Popen(
        ["sh", "-c", f'{enter}exec "$@"', "sh", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@contextlib.contextmanager
def mounted(options: str):
    """A basicmfs."""
    MOUNT.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "basicmfs", "-o", options, "none", MOUNT], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", MOUNT], check=True)


def swap_from_disk() -> None:
    """What is read from a disk is not charged to the cgroup for whose memory it is read."""
    swap = Path("/run/swap")
    with swap.open("wb") as file:
        file.truncate(256 << 20)
    command = ["losetup", "--show", "-f", swap]
    disk = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    with mounted(f"size=256M,swap={disk}"), group("memory.max", str(24 << 20)) as one:
        process = start(READ, 48, one)
        assert process.wait(timeout=240) == 0
        assert "oom_kill 0" in (one / "memory.events").read_text()
    subprocess.run(["losetup", "-d", disk], check=True)
    ok("a full memory cgroup gets back what is on a disk")


def throttled() -> None:
    """A process that sleeps in each of its faults keeps nobody from having pages swapped out."""
    with (
        mounted(f"size={POOL}M,swap=/run/swap"),
        group("memory.high", "0") as one,
    ):
        slow = start(POPULATE, POOL // 2)
        assert slow.stdin is not None
        assert slow.stdout is not None
        assert slow.stdout.readline() == "begins\n"
        (one / "cgroup.procs").write_text(str(slow.pid))
        slow.stdin.write("\n")
        slow.stdin.flush()
        fast = start(WRITE, 2 * POOL)
        assert fast.wait(timeout=120) == 0
        slow.kill()
        slow.wait()
    ok("who is above memory.high does not hold up others")


def killed_elsewhere() -> None:
    """A cgroup that has nothing of the mount's takes none of its pages out."""
    with mounted(f"size={POOL}M,swap=/run/swap"), group("memory.max", str(16 << 20)) as one:
        keeper = start(WRITE + "print('has', flush=True)\nsys.stdin.readline()", POOL // 2)
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == "has\n"
        counter = next(Path("/sys/fs/basicmfs").glob("*/swapouts"))
        before = counter.read_text()
        fill = f"echo $$ >{one}/cgroup.procs && exec head -c 32M /dev/zero >/run/filled"
        assert subprocess.run(["sh", "-c", fill]).returncode != 0
        assert counter.read_text() == before
        keeper.kill()
        keeper.wait()
    Path("/run/filled").unlink()
    ok("nothing goes for a memory cgroup that has nothing there")


def children() -> None:
    """A child's mappings are in as many files as its parent's."""
    with mounted(f"size={POOL}M"):
        process = start(FORK, 0)
        out = process.communicate(timeout=240)[0]
        assert process.returncode == 0
        assert int(out) <= 8, out
    ok("a child has as many files as its parent")


def files() -> None:
    """Files without pages are kernel memory, too."""
    pages = os.sysconf("SC_PHYS_PAGES")
    made = 0
    with mounted(f"size={POOL}M"):
        with contextlib.suppress(OSError):
            while made < pages:
                os.close(os.open(MOUNT / str(made), os.O_CREAT | os.O_WRONLY))
                made += 1
        assert pages // 4 < made <= pages // 2, (made, pages)
    ok("there cannot be any number of files")


def chooser() -> None:
    """What is open in somebody else's name chooses no memory."""
    own = Path("/proc/self/fbmm_mount_dir")
    with mounted(f"size={POOL}M"), own.open("wb", buffering=0) as file:
        os.setegid(65534)
        try:
            file.write(str(MOUNT).encode())
        except PermissionError:
            ok("a set-group-ID program's memory is not its caller's choice")
        os.setegid(0)
        assert not own.read_text()
        assert file.write(b"\n") == 1


def main() -> None:
    """A result a line."""
    for module in ("mfs", "basicmfs"):
        subprocess.run(["insmod", MANAGERS / module / f"{module}.ko"], check=True)
    (ROOT / "cgroup.subtree_control").write_text("+memory")
    swap_from_disk()
    throttled()
    killed_elsewhere()
    children()
    files()
    chooser()
    print("1..6")


main()
