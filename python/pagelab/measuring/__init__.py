"""Measuring the machine: runs the probe, keeps its result, draws it.

The measuring itself is done by one static binary, `pagelab-probe` (crates/probe), so that no
interpreter is in the measured process and a guest can run it unchanged.
"""
