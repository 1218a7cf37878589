#!/bin/sh
# The main job on a program that everybody has: sort puts the lines of a log in order. Would larger
# pages help it, or another page table? Prints the table, the answer and the path of the report.
set -eu

: "${BIN:=.venv/bin}"
LINES=${LINES:-400000}

log=$(mktemp)
trap 'rm -f "$log" "$log.sorted"' EXIT
awk -v lines="$LINES" 'BEGIN {
    srand(1)
    for (i = 0; i < lines; i++)
        printf "%08x 10.%d.%d.%d GET /item/%d HTTP/1.1 200 %d\n", rand() * 4294967295,
            rand() * 256, rand() * 256, rand() * 256, rand() * 1000000, rand() * 100000
}' >"$log"
echo "Comparing page sizes on: sort, $LINES lines of a log"
# One thread, and bytes in their own order, so that every run is the same.
LC_ALL=C "$BIN/pagelab" compare --pages 4K,2M "$@" -- sort --parallel=1 -o "$log.sorted" "$log"
