"""Many runs: what a run is, where results are kept, and what carries runs out.

`pagelab reproduce` and `pagelab sweep` turn files into cases (`case.py`), and `run.py` finds the
result of each: in the store, or by an executor, which may be this machine's processors
(`local.py`) or other machines (`cluster.py`).
"""
