"""Memory that the host of a guest has not given yet.

Its first touch ends in a fault of the host beside the guest's own. In a guest that had run for an
hour, a program's 256 MiB in huge pages took 20 ms of kernel time or 350, depending on where they
lay, and a median of a few rounds was of either.
"""

import mmap
from collections.abc import Callable

from pagelab import units
from pagelab.measuring.result import Environment

# madvise(2): fault pages in, writable; Linux 5.14.
_POPULATE_WRITE = 23
_PIECE = 1 << 30


def have_it_given(here: Environment, say: Callable[[str], None]) -> int:
    """Touches as much of a guest's free memory as a measurement may use; how many bytes.

    Nothing where there is no hypervisor. What cannot be had is left.
    """
    if not here.hypervisor or not here.budget:
        return 0
    size = here.budget // _PIECE * _PIECE
    pieces: list[mmap.mmap] = []
    touched = 0
    say(f"touching {units.size(size)}, so that the host has given them")
    try:
        while touched < size:
            piece = mmap.mmap(-1, _PIECE)
            pieces.append(piece)
            piece.madvise(mmap.MADV_HUGEPAGE)
            piece.madvise(_POPULATE_WRITE)
            touched += _PIECE
    except OSError:
        # No such advice, or no memory after all.
        pass
    finally:
        for piece in pieces:
            piece.close()
    return touched
