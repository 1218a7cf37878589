"""Published figures again: `pagelab reproduce`.

A paper that is simulated has a folder in experiments/: `system.toml` says on what machine and over
which workloads, every other file is one figure or table with what the paper says of it.
"""
