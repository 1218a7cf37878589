"""A Dask cluster of real processes on this machine."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from processes import free_port


class Cluster:
    """A scheduler and workers, each a process that the test may kill and start again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        """Of the scheduler."""
        return f"tcp://127.0.0.1:{self.port}"

    def scheduler(self) -> subprocess.Popen[bytes]:
        """Starts the scheduler, always at the same port."""
        options = ("--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard", "--no-show")
        return self._start("scheduler", *options)

    def worker(self, *options: str) -> subprocess.Popen[bytes]:
        """Starts a worker of one thread under a nanny."""
        common = ("--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1")
        return self._start("worker", self.address, *common, *options)

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / "dask.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *command],
                cwd=self.folder,
                env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def close(self) -> None:
        """Ends all, with what they have started."""
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
