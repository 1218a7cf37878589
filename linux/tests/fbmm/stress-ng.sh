#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# stress-ng's stressors of memory, which check what they read.

. "$(dirname "$0")/same.sh"

stress() # STRESSORS...
{
	# Some take what there is. How much was done in the time differs.
	same "stress-ng $*" stress-ng "
		ulimit -v 400000
		stress-ng --verify --timeout 3 --temp-path . --oom-avoid $* 2>&1 |
			grep -iE 'successful|fail|error|corrupt' |
			sed -E 's/^.*\] //; s/ in [0-9.]+s.*\$//'"
}

stress --vm 2 --vm-bytes 48M --vm-method all
stress --vm 1 --vm-bytes 16M --vm-populate --vm-locked
stress --mmap 2 --mmap-bytes 16M
stress --mmap 1 --mmap-bytes 16M --mmap-async --mmap-mprotect
stress --mremap 2 --mremap-bytes 16M
stress --malloc 2 --malloc-bytes 32M --malloc-pthreads 2
stress --brk 1 --bigheap 1
# Not --madvise: as root it makes memory errors.
stress --mlock 1 --mincore 1
stress --mmapmany 1
stress --fork 1 --fork-vm
stress --vm-rw 1 --vm-rw-bytes 4M --vm-splice 1
stress --memthrash 1 --pthread 1

finish
