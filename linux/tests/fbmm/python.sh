#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Python's own tests of mmap, subprocess and multiprocessing say the same with a memory
# file system as default as without.

. "$(dirname "$0")/same.sh"

# Those that need more than a guest has, a network for example, fail with and without.
if ! /usr/bin/python3 -c "import test.test_mmap" 2>/dev/null; then
	skip "python's own tests" "libpython3.*-testsuite is not installed"
else
	for suite in test_mmap test_subprocess \
		"test_multiprocessing_fork -m WithProcessesTest*"; do
		same "python's $suite" /usr/bin/python3 "
			timeout 1200 /usr/bin/python3 -m test $suite >said 2>&1
			status=\$?
			grep ' OK\\| failed\\|^Tests result\\|^Result\\|^FAIL\\|^ERROR' said
			exit \$status"
	done
fi

finish
