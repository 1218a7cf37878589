# SPDX-License-Identifier: GPL-2.0
# Programs with dpt=on: fork and exec many times, and what uses memory in many ways. Nothing may
# be placed elsewhere, and what has ended leaves no tables.
set -e
stats=/sys/kernel/debug/dpt/stats
value() { awk -v name="$1" '$1 == name { found = $2 } END { print found + 0 }' $stats; }

i=0
while [ $i -lt 60 ]; do
	/bin/true
	[ "$(echo $i | cat | sed 's/x/y/')" = $i ]
	i=$((i + 1))
done
python3 -c '
import os, mmap
data = {n: str(n) * 3 for n in range(20000)}
for _ in range(5):
    pid = os.fork()
    if not pid:
        os._exit(0 if all(data[n] == str(n) * 3 for n in data) else 1)
    assert os.waitpid(pid, 0)[1] == 0
m = mmap.mmap(-1, 64 << 20)
for at in range(0, len(m), 4096):
    m[at] = at >> 12 & 255
m.resize(128 << 20)
assert all(m[at] == at >> 12 & 255 for at in range(0, 64 << 20, 4096))
'
seconds=${1:-5}
# Older ones do not know all of these.
known=$(stress-ng --help)
size() { case $known in *"$1 "*) echo "$1 $2" ;; esac; }
sizes="$(size --vm-bytes 64M) $(size --bigheap-bytes 96M) $(size --mmap-bytes 64M)"
sizes="$sizes $(size --mremap-bytes 64M) $(size --pagemove-bytes 32M)"
for stressor in mmap mremap fork vm bigheap stack pagemove munmap; do
	case $known in *" --$stressor N"*) ;; *) echo "no $stressor"; continue ;; esac
	stress-ng --$stressor 2 --timeout "$seconds" $sizes --quiet --temp-path /tmp \
		--no-rand-seed || { echo "$stressor failed"; exit 1; }
done
cat $stats
[ "$(value unplaced)" = 0 ]
