#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The KUnit tests of what each memory file system decides, in the running kernel.
set -e
insmod "$KERNEL_BUILD/lib/kunit/kunit.ko"
insmod "$MANAGERS/mfs/mfs.ko"
failed=0
for folder in "$MANAGERS"/*/; do
	type=$(basename "$folder")
	[ "$type" != mfs ] || continue
	insmod "$MANAGERS/$type/${type}_kunit.ko"
	results=/sys/kernel/debug/kunit/$type/results
	cat "$results"
	grep -q "^ok 1 $type" "$results" && ! grep -q '# SKIP' "$results" || failed=1
	# Nothing holds it any more, and it has given all pages back.
	rmmod "${type}_kunit"
done
exit $failed
