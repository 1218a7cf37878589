"""A small sweep, what it gives undisturbed, and the command that runs it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dask_cluster import Cluster
from processes import Start

TESTS = Path(__file__).parents[1]
HELD = Path(__file__).with_name("held.py")
# Sixteen runs of a few tenths of a second.
SWEEP = """
replicates = 4
[set]
"memory.memory_bytes" = 1073741824
[vary]
workload = ["random-updates:footprint=64M,updates=300000", "pointer-chase:pages=4000,loads=500000"]
design = ["radix", "dpt"]
"""


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Starts `pagelab sweep` on the small sweep, with these options; `held` as held.py says."""
    (tmp_path / "small.toml").write_text(SWEEP)

    def run(*options: str, before: str = "", held: bool = False) -> subprocess.Popen[str]:
        program = [str(HELD)] if held else ["-m", "pagelab"]
        command = [sys.executable, *program, "sweep", "small.toml", *options]
        if before:
            command = ["sh", "-c", before + ' exec "$@"', "sh", *command]
        return subprocess.Popen(
            command,
            cwd=tmp_path,
            env=os.environ | {"COLUMNS": "80", "PYTHONPATH": str(TESTS)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return run


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The table that nothing has disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "small.toml").write_text(SWEEP)
    subprocess.run(
        [sys.executable, "-m", "pagelab", "sweep", "small.toml", "-o", "out", "-q"],
        cwd=folder,
        check=True,
        stdout=subprocess.PIPE,
    )
    return (folder / "out" / "sweep.parquet").read_bytes()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster without processes, which ends with the test."""
    made = Cluster(tmp_path)
    yield made
    made.close()
