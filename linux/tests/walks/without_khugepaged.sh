# SPDX-License-Identifier: GPL-2.0
# Runs a program while khugepaged sleeps, which would make pages huge again that the program has just split, before it
# has looked at them: a processor that checks each access takes its time.

echo 1000000000 > /sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs || exit 1
exec "$@"
