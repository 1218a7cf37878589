# SPDX-License-Identifier: GPL-2.0
# The KUnit tests of the arithmetic, in the running kernel.
set -e
python3 - "$KERNEL_BUILD" <<'END'
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for module in ("lib/kunit/kunit.ko", "mm/dpt/dpt_kunit.ko"):
    fd = os.open(f"{sys.argv[1]}/{module}", os.O_RDONLY)
    if libc.syscall(313, fd, b"", 0):  # finit_module
        sys.exit(f"{module}: {os.strerror(ctypes.get_errno())}")
END
results=/sys/kernel/debug/kunit/dpt/results
cat "$results"
grep -q '^ok 1 dpt' "$results"
