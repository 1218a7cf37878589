#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The kernel's memory leak detector finds nothing after each memory file system
# was mounted, used, unmounted and unloaded.

leaks=/sys/kernel/debug/kmemleak
[ -e $leaks ] || { echo "1..0 # SKIP the kernel has no $leaks"; exit 4; }

cat >/run/work.py <<'END'
import mmap, os, subprocess
memory = mmap.mmap(-1, 24 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.write(b"x" * len(memory))
for child in range(4):
    if os.fork() == 0:
        memory[child << 20] = child
        memory.resize(32 << 20)
        os._exit(memory[(child << 20) + 1] != ord("x"))
    memory[child << 21] = 7
assert all(os.wait()[1] == 0 for child in range(4))
memory.madvise(mmap.MADV_DONTNEED, 1 << 20, 4 << 20)
memory.resize(8 << 20)
subprocess.run(["sort", "/etc/services"], stdout=subprocess.DEVNULL, check=True)
END

use() # TYPE OPTIONS
{
	insmod "$MANAGERS/$1/$1.ko" && mkdir -p /run/a &&
		! mount -t "$1" -o nonsense none /run/a 2>/dev/null &&
		mount -t "$1" ${2:+-o "$2"} none /run/a &&
		"$FBMM_RUN" /run/a python3 /run/work.py &&
		umount /run/a && rmmod "$1"
}

insmod "$MANAGERS/mfs/mfs.ko" || exit 1
echo scan >$leaks
echo clear >$leaks
truncate -s 256M /run/swap
for round in 1 2; do
	use basicmfs size=128M,shrink || exit 1
	for mount in $MOUNTS; do
		options=${mount#*:}
		[ "$options" != "$mount" ] || options=
		use "${mount%%:*}" "$options" || exit 1
	done
done
rmmod mfs || exit 1
# What is younger than five seconds is not reported; a detector that gave up takes no scan. What only
# looked leaked, on its way to be freed, is not there the next time.
for _ in 1 2 3; do
	sleep 6
	echo scan >$leaks && echo scan >$leaks || exit 1
	found=$(cat $leaks)
	[ "$found" ] || break
done
if [ "$found" ]; then
	echo "$found"
	echo "not ok 1 nothing is leaked"
	exit 1
fi
echo "ok 1 nothing is leaked"
echo "1..1"
