"""A program in a guest and in the simulator: what memory management did in each.

The kernel's numbers are its own counters (/proc/vmstat, the statistics of each folio size,
getrusage(2)) and the calls of its functions, which a plugin of the emulator counts. The
simulator's are those of the program recorded on this machine, at the same addresses, with the same
environment and files.
"""
