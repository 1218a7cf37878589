# SPDX-License-Identifier: GPL-2.0
"""Processors and memory that go and come back while programs run.

A processor that comes back walks what it is told then. Memory with tables does not go. What was set
apart to go (movablecore=) has none.
"""

import errno
import os
import struct
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

CPU = Path("/sys/devices/system/cpu/cpu1/online")
MEMORY = Path("/sys/devices/system/memory")
STATS = Path("/sys/kernel/debug/dpt/stats")
ROUNDS = 3
PAGE_TABLE, RESERVED = 1 << 26, 1 << 32  # of /proc/kpageflags
NUMBERS = "".join(f"{number}\n" for number in range(1, 3001))
PROGRAMS = (
    "sort -R numbers | sort --parallel=2 -S 8M -n | cmp - numbers",
    "stress-ng --vm 2 --vm-bytes 12M --verify --vm-ops 40 --quiet --temp-path . --no-rand-seed",
    "i=0; while [ $i -lt 8 ]; do /bin/true || exit 1; i=$((i + 1)); done",
)


class Programs:
    """Each again and again, until told to stop; what failed is remembered."""

    def __init__(self) -> None:
        self.runs = [0] * len(PROGRAMS)
        self.failed: list[str] = []
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(number,)) for number in range(len(PROGRAMS))
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int) -> None:
        while not self._stop.is_set():
            done = subprocess.run(
                ["sh", "-ec", PROGRAMS[number]], capture_output=True, text=True, check=False
            )
            if done.returncode:
                self.failed.append(f"{PROGRAMS[number]}: {done.returncode} {done.stderr}")
            self.runs[number] += 1

    def wait(self) -> None:
        """Until each has ended once more."""
        goal = [runs + 1 for runs in self.runs]
        while any(runs < wanted for runs, wanted in zip(self.runs, goal, strict=True)):
            if self.failed:
                return
            threading.Event().wait(0.05)

    def stop(self) -> list[str]:
        """No more; what failed."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        return self.failed


def frames_of(block: Path, bytes_a_block: int) -> list[int]:
    """The flags of a block's frames."""
    frames = bytes_a_block // 4096
    first = int((block / "phys_index").read_text(), 16) * frames
    with Path("/proc/kpageflags").open("rb") as file:
        file.seek(first * 8)
        data = file.read(frames * 8)
    return [flags for (flags,) in struct.iter_unpack("=Q", data)]


def processors(programs: Programs) -> str:
    """One goes and comes back."""
    for _ in range(ROUNDS):
        CPU.write_text("0")
        programs.wait()
        assert CPU.read_text().strip() == "0"
        CPU.write_text("1")
        programs.wait()
        assert CPU.read_text().strip() == "1"
    return f"{ROUNDS} times"


def take_away(block: Path) -> int:
    """A block of memory: 0, or why it stays."""
    try:
        (block / "state").write_text("offline")
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def apart() -> bool:
    """Whether some memory was set apart to go."""
    return "movablecore=" in Path("/proc/cmdline").read_text()


def memory(programs: Programs) -> str:
    """Block by block: each that goes comes back."""
    size = int((MEMORY / "block_size_bytes").read_text(), 16)
    blocks = sorted(MEMORY.glob("memory[0-9]*"))
    gone = refused = had = ours = 0
    for block in blocks:
        frames = frames_of(block, size)
        before = sum(bool(flags & PAGE_TABLE) for flags in frames)
        movable = "Movable" in (block / "valid_zones").read_text().split()
        assert not (movable and before), f"{before} tables in {block.name}, which is to go"
        # What the kernel has taken since it booted is reserved, and stays: has_unmovable_pages()
        if movable and any(flags & RESERVED for flags in frames):
            ours += 1
            movable = False
        # What somebody holds just now does not move.
        for _ in range(5 if movable else 1):
            error = take_away(block)
            if error != errno.EBUSY:
                break
            programs.wait()
        assert not (movable and error == errno.EBUSY), f"{block.name} stays"
        if error:
            # EINVAL is what a block with holes says, whatever it has.
            assert error in (errno.EBUSY, errno.EINVAL), os.strerror(error)
            assert (block / "state").read_text().strip() == "online"
            refused += 1
            had += before > 0
            continue
        assert (block / "state").read_text().strip() == "offline"
        programs.wait()
        (block / "state").write_text("online")
        programs.wait()
        gone += 1
    assert gone or not apart(), "no memory is set apart"
    return (
        f"{gone} of {len(blocks)} blocks of {size >> 20} MB went, "
        f"{refused} were refused, {had} of which had tables; "
        f"of those set apart, the kernel had a part of {ours} since it booted"
    )


def main() -> int:
    """Each part with programs of its own."""
    os.chdir("/tmp")
    Path("numbers").write_text(NUMBERS)
    kinds: tuple[Callable[[Programs], str], ...] = (processors, memory)
    failed = False
    for number, kind in enumerate(kinds, start=1):
        programs = Programs()
        try:
            said = kind(programs)
        finally:
            wrong = programs.stop()
        print(f"{'not ok' if wrong else 'ok'} {number} {kind.__name__}: {said}; {programs.runs}")
        for line in wrong:
            print(f"# {line}")
        failed = failed or bool(wrong)
    counted = dict(line.split() for line in STATS.read_text().splitlines())
    bad = [name for name in ("unplaced",) if int(counted.get(name, 0))]
    print(f"{'not ok' if bad else 'ok'} 3 each table has a place: {bad}")
    return int(failed or bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
