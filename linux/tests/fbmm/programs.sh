#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Programs that know nothing of memory file systems give the same output with one
# as default as without.

. "$(dirname "$0")/same.sh"

same "sqlite3 sorts and joins" sqlite3 '
	sqlite3 t.db "create table t(a, b);
		with recursive n(i) as (select 1 union all select i + 1 from n where i < 50000)
			insert into t select i, i * 7919 % 50021 from n;
		create index b on t(b); select sum(x.a * y.b) from t x join t y on x.a = y.b;
		select count(*), md from (select a % 97 md from t) group by md order by md limit 5"'

same "gcc compiles" gcc '
	i=0; while [ $i -lt 400 ]; do echo "int f$i(int a) { return a * $i + f(a); }"; i=$((i + 1)); done >t.h
	{ echo "#include <stdio.h>"; echo "int f(int a) { return a ^ 5; }"; cat t.h
	  echo "int main(void) { printf(\"%d\", f399(7)); return 0; }"; } >t.c
	gcc -O2 -c t.c -o t.o && md5sum t.o && gcc t.o -o t && ./t'

same "sort with threads" sort '
	seq 1 200000 | sort --parallel=4 -S 32M -R --random-source=/bin/true 2>/dev/null | sort -n | md5sum'

same "xz with threads" xz '
	seq 1 200000 | xz -T2 -3 | xz -d | md5sum'

same "perl" perl '
	perl -e "my %h; \$h{\$_ % 1009} .= \$_ for 1..200000; print length(join q(), map { \$h{\$_} } sort keys %h), qq(\\n)"'

same "redis, with a snapshot by fork()" redis-server '
	redis-server --port 0 --unixsocket r.sock --dir . --daemonize no >/dev/null 2>&1 &
	i=0; while [ ! -S r.sock ] && [ $i -lt 100 ]; do sleep 0.2; i=$((i + 1)); done
	redis-cli -s r.sock eval "for i = 1, 20000 do redis.call(\"set\", \"k\" .. i, string.rep(i, 10)) end return 1" 0
	redis-cli -s r.sock bgsave >/dev/null
	redis-cli -s r.sock eval "for i = 1, 20000 do redis.call(\"append\", \"k\" .. i, \"x\") end return 1" 0
	i=0; while redis-cli -s r.sock info persistence | grep -q "bgsave_in_progress:1" && [ $i -lt 100 ]; do sleep 0.2; i=$((i + 1)); done
	redis-cli -s r.sock info persistence | grep last_bgsave_status
	redis-cli -s r.sock dbsize; redis-cli -s r.sock get k777
	redis-cli -s r.sock shutdown nosave; wait; ls dump.rdb'

same "python: numbers, strings, threads, processes" python3 '
	cat >t.py <<END
import hashlib, multiprocessing, os, subprocess, threading
def work(n):
    return hashlib.md5(repr([i * n for i in range(20000)]).encode()).hexdigest()
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(3) as pool:
        print(pool.map(work, range(6)))
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    [t.start() for t in threads]; [t.join() for t in threads]
    print(subprocess.run(["echo", "child"], capture_output=True).stdout)
END
	python3 t.py'

finish
