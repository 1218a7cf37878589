"""A job array for sbatch, for those who run sweeps without Dask."""

import shlex
from collections.abc import Sequence
from pathlib import Path


def script(file: Path, store: Path, out: Path, shards: int, asked: Sequence[str] = ()) -> str:
    """A script for sbatch: each job of the array runs its share, one run at a time.

    `asked` are options that every job is given, too.

    All machines must see the file, the store and the traces. Afterwards the command without
    --shard collects what they kept. Lines for a queue or an account go below the first ones.
    """
    command = [
        # Traces are beside the file that was named, not beside the one that it may be a link to.
        "pagelab", "sweep", str(file.absolute()), "--store", str(store.absolute()),
        "--out", str(out.absolute()), *asked, "--quiet", "--jobs",
    ]  # fmt: skip
    return f"""#!/bin/sh
#SBATCH --job-name={shlex.quote("pagelab-" + file.stem)}
#SBATCH --array=1-{shards}
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=2G
#SBATCH --requeue

{shlex.join(command)} "${{SLURM_CPUS_PER_TASK:-1}}" --shard "$SLURM_ARRAY_TASK_ID/{shards}"
"""
