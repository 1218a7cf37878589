# SPDX-License-Identifier: GPL-2.0
"""Core dumps have the memory of a memory file system as they have anonymous memory.

Run under fbmm-run; without, it tests itself.
"""

import mmap
import os
import resource
import signal
import struct
import subprocess
import sys
from pathlib import Path

PAGE = mmap.PAGESIZE
PT_LOAD = 1
PRIVATE, FILES = 1, 4  # /proc/PID/coredump_filter: core(5)
SIZE = 64 << 20
TOUCHED = (0, 100, 16383)

# Touches three pages of 64 MB and tells where they are; with "fork" it is a child that crashes,
# which has not touched them.
CRASH = f"""
import ctypes, mmap, os, signal, sys
memory = mmap.mmap(-1, {SIZE}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for page in {TOUCHED}:
    memory[page * {PAGE}:page * {PAGE} + 8] = b"page" + page.to_bytes(4, "little")
open("/proc/self/coredump_filter", "w").write(sys.argv[1])
print(ctypes.addressof(ctypes.c_char.from_buffer(memory)), flush=True)
if sys.argv[2] == "fork" and (pid := os.fork()):
    os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != -signal.SIGSEGV)
os.kill(os.getpid(), signal.SIGSEGV)
"""


def crash(core: Path, coredump_filter: int, how: str) -> int:
    """Let a process dump its core; where the 64 MB are."""
    core.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", CRASH, hex(coredump_filter), how],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == (0 if how == "fork" else -signal.SIGSEGV), done
    return int(done.stdout)


def read(core: Path, address: int, size: int) -> bytes | None:
    """Memory from a core; None if it is not in there."""
    with core.open("rb") as file:
        header = file.read(64)
        table = struct.unpack_from("<Q", header, 32)[0]
        entry, count = struct.unpack_from("<HH", header, 54)
        for index in range(count):
            file.seek(table + index * entry)
            kind, _, offset, start, _, stored, _, _ = struct.unpack("<IIQQQQQQ", file.read(56))
            if kind == PT_LOAD and start <= address < start + stored:
                file.seek(offset + address - start)
                return file.read(size)
    return None


def main() -> None:
    """A result a line."""
    core = Path("/tmp/core")
    os.chdir("/tmp")
    Path("/proc/sys/kernel/core_pattern").write_text(str(core))
    Path("/proc/sys/kernel/core_uses_pid").write_text("0")
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    for number, how in enumerate(("alone", "fork"), start=1):
        address = crash(core, PRIVATE, how)
        for page in TOUCHED:
            found = read(core, address + page * PAGE, 8)
            assert found == b"page" + page.to_bytes(4, "little"), (how, page, found)
        assert read(core, address + 50 * PAGE, PAGE) == bytes(PAGE)
        # Pages that were never touched are holes, and the dump did not make them pages.
        assert core.stat().st_blocks * 512 < SIZE // 2, core.stat()
        print(f"ok {number} a process's memory is in its core: {how}", flush=True)

    address = crash(core, FILES, "alone")
    assert read(core, address, 8) is None
    print("ok 3 and is not where coredump_filter leaves private memory out")
    print("1..3")


main()
