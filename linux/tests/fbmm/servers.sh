#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Servers of several threads or processes under load.

here=$(dirname "$0")
. "$here/same.sh"

same "memcached, four clients" memcached "python3 $here/memcached.py"

same "redis, its own benchmark" redis-benchmark '
	redis-server --port 0 --unixsocket r.sock --dir . --save "" >/dev/null 2>&1 &
	i=0; while [ ! -S r.sock ] && [ $i -lt 100 ]; do sleep 0.2; i=$((i + 1)); done
	redis-benchmark -s r.sock -c 20 -n 4000 -d 512 -q -t set,get,incr,lpush,sadd,hset >/dev/null
	redis-cli -s r.sock get counter:__rand_int__
	redis-cli -s r.sock llen mylist
	redis-cli -s r.sock shutdown nosave; wait'

PATH=$PATH:$(echo /usr/lib/postgresql/*/bin)
# Not as root. The clients add the same amounts in whatever order.
same "PostgreSQL: initdb and pgbench" postgres '
	chown postgres . && exec setpriv --reuid=postgres --regid=postgres --clear-groups sh -c "
		initdb -D data -U pg --no-locale -E UTF8 --no-sync >/dev/null || exit
		pg_ctl -D data -w -t 200 -o \"-k /tmp/work -h \\\"\\\" -F -c shared_buffers=16MB\" \
			-l log start >/dev/null || { cat log; exit 1; }
		export PGHOST=/tmp/work PGUSER=pg PGDATABASE=postgres
		pgbench -i -q -s 1 >/dev/null 2>&1 || exit
		pgbench -n -c 4 -j 2 -t 100 --random-seed=1 >/dev/null || exit
		psql -At -c \"select count(*), sum(delta) from pgbench_history\" \
			-c \"select sum(abalance) from pgbench_accounts\" \
			-c \"select sum(bbalance) from pgbench_branches\" \
			-c \"select md5(string_agg(aid || filler, 0::text order by aid)) from pgbench_accounts\"
		grep -E \"PANIC|FATAL|crash|signal\" log
		pg_ctl -D data -w stop >/dev/null"'

finish
