# SPDX-License-Identifier: GPL-2.0
#
# Sourced by what compares programs under a memory file system with the same
# programs without. Run under fbmm-run: the children have its setting.

count=0
failed=0
mine=$(cat /proc/self/fbmm_mount_dir)
[ "$mine" ] || { echo "no memory file system is the default"; exit 1; }
[ -x "$FBMM_RUN" ] || { echo "no $FBMM_RUN"; exit 1; }
cd /tmp || exit 1

skip() # WHAT WHY
{
	count=$((count + 1))
	echo "ok $count $1 # SKIP $2"
}

same() # WHAT PROGRAM SCRIPT: output and status, with and without, in /tmp/work
{
	if ! command -v "$2" >/dev/null; then
		skip "$1" "$2 is not installed"
		return
	fi
	count=$((count + 1))
	for how in without with; do
		[ $how = with ] && dir=$mine || dir=
		mkdir -p /tmp/work
		(cd /tmp/work && "$FBMM_RUN" "$dir" sh -c "$3") >/tmp/$how 2>&1
		echo "status $?" >>/tmp/$how
		rm -rf /tmp/work
	done
	if grep -qx "status 124" /tmp/without; then	# timeout's
		echo "ok $count $1 # SKIP it takes too long without, too"
	elif cmp -s /tmp/with /tmp/without; then
		echo "ok $count $1: $(tail -n 1 /tmp/with)"
	else
		echo "not ok $count $1"
		diff /tmp/without /tmp/with | head -n 20 | sed 's/^/# /'
		failed=$((failed + 1))
	fi
	# What was compared
	sed 's/^/# /' /tmp/with | tail -n 12
}

finish()
{
	echo "1..$count"
	[ $failed = 0 ]
}
