# SPDX-License-Identifier: GPL-2.0
"""The FolioMap paper's Python program (Fig. 5, appendix A), for one folio size or all.

A process makes an array, eight children add up a part each; then it writes all of the array and
has it added up again. Large folios that the first children shared are either reused by that
write or copied.

Usage: shared_sum.py MEGABYTES ROUNDS [FOLIO_KB]
"""

import multiprocessing
import struct
import sys
import time
from pathlib import Path

import numpy
from lab import PAGE, SIZES_KB, allow, report

PROCESSES = 8

array = numpy.ones(1)


def add_up(part: tuple[int, int]) -> float:
    """The sum of a part, in a child."""
    return numpy.sum(array[part[0] : part[1]])


def sum_in_children() -> int:
    """The sum of the array, every child a part."""
    length = len(array) // PROCESSES
    parts = [(start, start + length) for start in range(0, len(array), length)]
    with multiprocessing.Pool(processes=PROCESSES) as pool:
        return int(sum(pool.map(add_up, parts)))


def frames() -> list[int]:
    """The page frames behind the array."""
    start = array.ctypes.data // PAGE
    count = array.nbytes // PAGE
    with Path("/proc/self/pagemap").open("rb") as pagemap:
        pagemap.seek(start * 8)
        entries = struct.unpack(f"{count}Q", pagemap.read(count * 8))
    return [entry & ((1 << 55) - 1) for entry in entries]


def run(folio_kb: int, size: int) -> None:
    """The paper's program, once."""
    global array
    allow(folio_kb)
    array = numpy.ones(1)
    start = time.monotonic_ns()
    array = numpy.ones(size // 8)
    assert sum_in_children() == len(array)
    # Not part of the program; its time is taken off.
    looked = time.monotonic_ns()
    before = frames()
    start += time.monotonic_ns() - looked
    array[0 : len(array)] = 0
    looked = time.monotonic_ns()
    copies = sum(old != new for old, new in zip(before, frames(), strict=True))
    start += time.monotonic_ns() - looked
    assert sum_in_children() == 0
    report("python", folio_kb, size // PAGE, time.monotonic_ns() - start, copies)


def main() -> None:
    """Run the program for the folio sizes asked for."""
    global array
    size = int(sys.argv[1]) << 20
    rounds = int(sys.argv[2])
    # Once for nothing, to have all code in memory.
    array = numpy.ones(PROCESSES)
    sum_in_children()
    for folio_kb in [int(sys.argv[3])] if len(sys.argv) > 3 else SIZES_KB:
        for _ in range(rounds):
            run(folio_kb, size)


if __name__ == "__main__":
    main()
