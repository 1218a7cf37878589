#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Swap files of memory file systems: which are refused, what they hold, and what
# happens when they are full or cannot be written or read.

. "$(dirname "$0")/result.sh"

counter() # NAME
{
	cat /sys/fs/*mfs/*/"$1"
}

# The files of a process that has ended are freed after it is reaped.
empty()
{
	for try in 1 2 3 4 5 6 7 8 9 10; do
		[ "$(counter used) $(counter swapped)" = "0 0" ] && return
		sleep 0.2
	done
	echo "$(counter used) pages are used, $(counter swapped) swapped"
	return 1
}

unused()
{
	[ "$(counter used)" = 0 ]
}

# Writes so many MB and reads them again; SIGBUS if there is no room.
cat >/run/take.py <<'END'
import mmap, sys
memory = mmap.mmap(-1, int(sys.argv[1]) << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for page in range(0, len(memory), 4096):
    memory[page:page + 8] = page.to_bytes(8, "little")
for page in range(0, len(memory), 4096):
    assert memory[page:page + 8] == page.to_bytes(8, "little"), page
END

take() # MB
{
	"$FBMM_RUN" /run/a python3 /run/take.py "$1"
}

sigbus() # MB
{
	take "$1"
	[ $? = 135 ]
}

# Not SIGSEGV: what the process had comes back also where the kernel writes to it, as it
# does on its way back to the program when that has been interrupted: not every time.
sigbus_always() # MB
{
	for try in 1 2 3 4; do
		sigbus "$1" || return 1
	done
}

mkdir /run/files
mount -t tmpfs -o size=64M none /run/files
insmod "$MANAGERS/mfs/mfs.ko" && insmod "$MANAGERS/basicmfs/basicmfs.ko" || exit 1
# The first mount leaves caches behind that stay.
truncate -s 1M /run/files/first
mounted basicmfs size=1M,swap=/run/files/first /run/a
umount /run/a
rm /run/files/first
before=$(free_kb)

truncate -s 1000 /run/files/small
truncate -s 32M /run/files/swap
result "a swap file that is not there" refused mounted basicmfs size=16M,swap=/run/files/none /run/a
result "a directory" refused mounted basicmfs size=16M,swap=/run/files /run/a
result "a device that is no disk" refused mounted basicmfs size=16M,swap=/dev/zero /run/a
result "a file that is too small" refused mounted basicmfs size=16M,swap=/run/files/small /run/a
exec 3>>/run/files/swap
result "a file that somebody writes to" refused mounted basicmfs size=16M,swap=/run/files/swap /run/a
exec 3>&-
result "and nothing is lost by that" near "$before"

result "a swap file" mounted basicmfs size=16M,swap=/run/files/swap /run/a
result "is only one mount's" refused mounted basicmfs size=16M,swap=/run/files/swap /run/b
result "and nobody else's to write to" refused sh -c 'echo >>/run/files/swap'
result "or to cut" refused truncate -s 1M /run/files/swap
result "/proc/mounts names it" grep -q 'size=16384K,swap=/run/files/swap ' /proc/mounts
result "df has the memory and the file" [ "$(stat -f -c %b /run/a)" = $((48 * 256)) ]

result "more than there is memory" take 24
result "is swapped out" [ "$(counter swapouts)" -gt 1024 ]
result "and in" [ "$(counter swapins)" -gt 1024 ]
result "and gone with its process" empty
result "more than memory and file: SIGBUS" sigbus 64
result "which leaves nothing" empty
result "and the next one has all again" take 24
result "df has all again" [ "$(stat -f -c %f /run/a)" = $((48 * 256)) ]
result "unmount" umount /run/a
result "the file is as any other again" sh -c ': >/run/files/swap && rm /run/files/swap'
result "nothing is lost" near "$before"

# A sparse file, and no room for more than a part of it
truncate -s 256M /run/files/swap
dd if=/dev/zero of=/run/files/filler bs=1M count=56 2>/dev/null
dmesg -C
result "a swap file that cannot become as large as it is" \
	mounted basicmfs size=16M,swap=/run/files/swap /run/a
result "is used as far as it goes" take 12
result "then SIGBUS" sigbus 48
result "the kernel says so once" [ "$(dmesg | grep -c 'basicmfs: writing')" = 1 ]
result "nothing is left" empty
result "and it can be used again" take 12
rm /run/files/filler
result "to its end, when there is room" take 48
result "nothing is left of that" empty
result "unmount it" umount /run/a

disk=$(losetup --show -f /run/files/swap)
result "a disk" mounted basicmfs size=16M,swap="$disk" /run/a
result "is used" take 48
result "and is only one mount's" refused mounted basicmfs size=16M,swap="$disk" /run/b
result "unmount what uses the disk" umount /run/a
losetup -d "$disk"

# A disk that loses what was written
cat >/run/lost.py <<'END'
import mmap, os, sys
from pathlib import Path
memory = mmap.mmap(-1, 24 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for page in range(0, len(memory), 4096):
    memory[page] = 1
os.sync()
os.truncate("/run/files/swap", 0)
Path("/proc/sys/vm/drop_caches").write_text("3")
for page in range(0, len(memory), 4096):
    assert memory[page] == 1, page
END
disk=$(losetup --show --direct-io=on -f /run/files/swap)
result "another disk" mounted basicmfs size=16M,swap="$disk" /run/a
"$FBMM_RUN" /run/a python3 /run/lost.py
result "a page that cannot be read is SIGBUS" [ $? = 135 ]
result "the kernel says so" sh -c 'dmesg | grep "basicmfs: reading"'
result "nothing is left of that, too" empty
truncate -s 256M /run/files/swap
result "and the disk can be used again" take 48
result "unmount what used the disk" umount /run/a
losetup -d "$disk"
rm /run/files/swap

result "unload" rmmod basicmfs

# The others: 16 MB each, in pages of all kinds
for each in bwmfs:weights=1,size=16M bwmfs:weights=1,huge,size=16M contigmfs:size=16M \
	tieredmfs:local=4M,remote=12M tieredmfs:local=4M,remote=12M,huge; do
	name=${each%%:*} options=${each#*:}
	truncate -s 32M /run/files/swap
	insmod "$MANAGERS/$name/$name.ko"
	if [ "$name" != tieredmfs ]; then
		result "$each without swap is no more than it says" mounted "$name" "$options" /run/a
		result "as df says" [ "$(stat -f -c %b /run/a)" = 4096 ]
		result "and SIGBUS" sigbus 24
		result "nothing is left then" soon unused
		result "unmount it again" umount /run/a
		result "swap without a size" refused mounted "$name" \
			"$(echo "$options,swap=/run/files/swap" | sed 's/size=16M,//')" /run/a
	else
		result "tieredmfs has no size" refused mounted "$name" "$options,size=8M" /run/a
	fi
	result "$each" mounted "$name" "$options,swap=/run/files/swap" /run/a
	result "says so" grep -q "$name.*,swap=/run/files/swap " /proc/mounts
	result "has the memory and the file" [ "$(stat -f -c %b /run/a)" = $((48 * 256)) ]
	result "takes more than its memory" take 24
	result "which is swapped out" [ "$(counter swapouts)" -gt 1024 ]
	result "and in" [ "$(counter swapins)" -gt 1024 ]
	result "and gone" empty
	result "more than both: SIGBUS" sigbus_always 64
	result "is gone, too" empty
	result "all can be had again" take 24
	result "unmount it" umount /run/a
	result "unload it" rmmod "$name"
	rm /run/files/swap
done
result "unload the library" rmmod mfs
result "all memory is back" near "$before"
dmesg | grep -E 'WARNING|BUG' && failed=1

echo "1..$count"
[ $failed = 0 ]
