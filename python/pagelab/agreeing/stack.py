"""A limit of the stack with which mappings have the same addresses in a guest and recorded here.

They begin below as much as the stack may take (`mmap_base()` in arch/x86/mm/mmap.c) with the vdso
and its data, whose size is the kernel's: the recorder's emulator has it from this machine's. It is
told of a smaller stack, so that what follows begins where it does in the guest.
"""

import re
from pathlib import Path

# More than is left free for any stack, 128 MiB.
LIMIT = 132 << 20
# The emulator's variable for a size of the stack other than the limit. Programs find it in both.
VARIABLE = "QEMU_STACK_SIZE"

_VDSO = re.compile(r"^(\w+)-(\w+) .*\[(?:vdso|vvar\w*)\]$", re.MULTILINE)


def vdso_bytes(maps: str) -> int:
    """Bytes of the vdso and its data in a /proc/PID/maps."""
    return sum(int(end, 16) - int(start, 16) for start, end in _VDSO.findall(maps))


def emulated(vdso: int) -> int:
    """The stack that the emulator is told of where a guest's vdso has so many bytes."""
    return LIMIT - vdso_bytes(Path("/proc/self/maps").read_text()) + vdso
