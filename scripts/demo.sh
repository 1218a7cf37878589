#!/bin/sh
# The main job on a real program: sqlite3 fills a table, builds an index over it in random order
# and looks rows up through it. Prints the table and the path of the report.
set -eu

: "${BIN:=.venv/bin}"
ROWS=${ROWS:-2000000}

sql="
PRAGMA cache_size = -2000000;
CREATE TABLE t (id INTEGER PRIMARY KEY, key INTEGER, value TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $ROWS)
  INSERT INTO t SELECT i, (i * 2654435761) % 4294967296, 'value ' || i FROM n;
CREATE INDEX by_key ON t(key);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $ROWS / 4)
  SELECT count(*), sum(length(t.value)) FROM n
  JOIN t ON t.key = ((n.i * 40503) % $ROWS * 2654435761) % 4294967296;
"
echo "Comparing page tables on: sqlite3, an index over $ROWS rows"
# The program makes some 9 billion accesses; a tenth of them, in pieces over its whole
# length, keeps the demo to a few minutes.
exec "$BIN/pagelab" compare --sample 40M:400M --limit 2G "$@" -- sqlite3 :memory: "$sql"
