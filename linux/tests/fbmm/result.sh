# SPDX-License-Identifier: GPL-2.0
#
# Sourced by tests of mounting and unmounting.

count=0
failed=0

result() # WHAT COMMAND...
{
	what=$1
	shift
	count=$((count + 1))
	if "$@" >/run/said 2>&1; then
		echo "ok $count $what"
	else
		echo "not ok $count $what"
		sed 's/^/# /' /run/said
		failed=$((failed + 1))
	fi
}

refused() # the command must fail, and not by a signal
{
	"$@"
	status=$?
	[ $status -gt 0 ] && [ $status -lt 126 ]
}

free_kb() # with what the lists of single CPUs hold back
{
	echo 3 >/proc/sys/vm/drop_caches
	awk '/^MemFree/ { kb = $2 } $1 == "count:" { kb += 4 * $2 } END { print kb }' \
		/proc/meminfo /proc/zoneinfo
}

mounted() # TYPE OPTIONS DIR
{
	mkdir -p "$3" && mount -t "$1" ${2:+-o "$2"} none "$3"
}

soon() # COMMAND...: it succeeds within some seconds
{
	tries=25
	until "$@"; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || return
		sleep 0.2
	done
}

free_again() # KB: but for 2 MB
{
	now=$(free_kb)
	[ $(($1 - now)) -lt 2048 ]
}

# Some memory comes back a little after its last user.
near() # KB: as much is free again
{
	soon free_again "$1"
	status=$?
	echo "$1 KB free before, $now KB after"
	return $status
}
