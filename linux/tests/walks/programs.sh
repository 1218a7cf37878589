# SPDX-License-Identifier: GPL-2.0
#
# Programs that check what they compute, for a processor that checks each translation.
# Usage: programs.sh [SECONDS a stressor] [PART: the programs' work divided by so much]
# With a part of ten or more, what takes long to start is left out, and half of the stressors.

seconds=${1:-2}
part=${2:-1}
lines=$((60000 / part))
functions=$((150 / part))
rows=$((8000 / part))
keys=$((5000 / part))
values=$((6000 / part))
export lines functions rows keys values
count=0
failed=0
mkdir -p /tmp/work

checked() # WHAT PROGRAM SCRIPT: its status is the judgement
{
	count=$((count + 1))
	if ! command -v "$2" >/dev/null; then
		echo "ok $count $1 # SKIP $2 is not installed"
	elif (cd /tmp/work && sh -e -c "$3") >/tmp/said 2>&1; then
		echo "ok $count $1"
	else
		echo "not ok $count $1"
		tail -n 12 /tmp/said | sed 's/^/# /'
		failed=$((failed + 1))
	fi
	rm -rf /tmp/work/*
}

checked "sort puts back what sort has mixed" sort '
	seq 1 $lines >in
	sort -R --random-source=/bin/bash in >mixed
	! cmp -s in mixed
	sort --parallel=2 -S 16M -n mixed | cmp - in'

long() { [ "$part" -lt 10 ]; }

long && checked "xz gives back what it was given" xz '
	seq 1 $lines >in
	xz -T2 -1 <in | xz -d | cmp - in'

long && checked "gcc: optimised or not, a program computes the same" gcc '
	{ echo "#include <stdio.h>"; echo "int f(int a) { return a ^ 5; }"
	  i=0; while [ $i -lt $functions ]; do echo "int f$i(int a) { return a * $i + f(a); }"; i=$((i + 1)); done
	  echo "int main(void) { printf(\"%d\", f$((functions - 1))(7) + f5(3)); return 0; }"; } >t.c
	gcc -O0 t.c -o slow && gcc -O2 t.c -o fast
	[ "$(./slow)" = "$(./fast)" ] && [ "$(./fast)" = $(((functions - 1) * 7 + 2 + 5 * 3 + 6)) ]'

checked "perl: the order of a hash changes nothing" perl '
	for seed in 1 2; do
		PERL_HASH_SEED=$seed perl -e "my %h; \$h{\$_ % 1009} .= \$_ for 1..\$ENV{lines};
			print join(q( ), map { \$_ . length \$h{\$_} } sort keys %h)" >$seed
	done
	[ -s 1 ] && cmp 1 2'

checked "sqlite3: with an index and without" sqlite3 '
	sqlite3 t.db "create table t(a, b);
		with recursive n(i) as (select 1 union all select i + 1 from n where i < $rows)
			insert into t select i, i * 7919 % 8009 from n;"
	ask="select sum(x.a * y.b) from t x join t y on x.a = y.b"
	sqlite3 t.db "$ask" >without
	sqlite3 t.db "create index b on t(b); create index a on t(a); $ask" >with
	[ -s with ] && cmp with without
	[ "$(sqlite3 t.db "pragma integrity_check")" = ok ]'

checked "redis, with a snapshot by fork()" redis-server '
	redis-server --port 0 --unixsocket r.sock --dir . --daemonize no >/dev/null 2>&1 &
	i=0; while [ ! -S r.sock ] && [ $i -lt 300 ]; do sleep 0.2; i=$((i + 1)); done
	redis-cli -s r.sock eval "for i = 1, $keys do redis.call(\"set\", \"k\" .. i, string.rep(i, 10)) end return 1" 0
	redis-cli -s r.sock bgsave
	redis-cli -s r.sock eval "for i = 1, $keys do redis.call(\"append\", \"k\" .. i, \"x\") end return 1" 0
	i=0; while redis-cli -s r.sock info persistence | grep -q "bgsave_in_progress:1" && [ $i -lt 300 ]; do sleep 0.2; i=$((i + 1)); done
	redis-cli -s r.sock info persistence | grep last_bgsave_status:ok
	[ "$(redis-cli -s r.sock get k77)" = 77777777777777777777x ]
	redis-cli -s r.sock shutdown nosave; wait; [ -s dump.rdb ]'

checked "python: threads and processes" python3 '
	cat >t.py <<EOF
import hashlib, os, threading
def work(n):
    return hashlib.md5(repr([i * n for i in range($values)]).encode()).hexdigest()
once = [work(n) for n in range(4)]
found = {}
threads = [threading.Thread(target=lambda n=n: found.update({n: work(n)})) for n in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
assert [found[n] for n in range(4)] == once
for n in range(3):
    pid = os.fork()
    if not pid:
        os._exit(0 if work(n) == once[n] else 1)
    assert os.waitpid(pid, 0)[1] == 0
EOF
	/usr/bin/python3 t.py'

# stress-ng looks at what it wrote. Older ones do not know all of these.
known=$(stress-ng --help 2>/dev/null)
stress() # STRESSOR WORKERS OPTIONS...
{
	case $known in *" --$1 N"*) ;; *) echo "# stress-ng does not know $1"; return ;; esac
	checked "stress-ng --$*" stress-ng "
		ulimit -v 400000
		stress-ng --verify --timeout $seconds --temp-path . --oom-avoid --no-rand-seed --$*"
}

size() { case $known in *"$1 "*) echo "$1 $2" ;; esac; }

stress vm 2 --vm-bytes 24M --vm-method all
long && stress vm 1 --vm-bytes 16M --vm-populate --vm-locked
stress mmap 2 --mmap-bytes 16M
long && stress mmap 1 --mmap-bytes 16M --mmap-async --mmap-mprotect
stress mremap 2 --mremap-bytes 16M
stress malloc 2 --malloc-bytes 32M --malloc-pthreads 2
long && stress brk 1
long && stress bigheap 1 $(size --bigheap-bytes 64M)
long && stress stack 1
long && stress mlock 1
long && stress mincore 1
long && stress mmapmany 1
stress munmap 1
stress pagemove 1 --pagemove-bytes 16M
stress fork 2
long && stress vm-rw 1 --vm-rw-bytes 4M
long && stress vm-splice 1
long && stress memthrash 1
# By itself it starts 1,024 threads before it counts, which a guest on a busy machine does not do in its time.
long && stress pthread 1 --pthread-max 32

echo "1..$count"
cat /sys/kernel/debug/dpt/stats | sed 's/^/# /'
[ $failed = 0 ]
