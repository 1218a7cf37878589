"""A real Slurm of one node, from Debian's packages, started by the test."""

import getpass
import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from processes import PATIENCE, RUNS, Start, free_port, kept, until

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo")
CONF = """
ClusterName=pagelab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=1,batch_sched_delay=1
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@pytest.fixture
def slurm(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A cluster whose tools find it in the environment; skipped where it cannot be started."""
    path = os.environ["PATH"] + ":/usr/sbin"
    missing = [name for name in NEEDED if shutil.which(name, path=path) is None]
    if missing:
        pytest.skip(f"no {', '.join(missing)}: install slurm-wlm and munge")
    if os.getuid() != 0:
        pytest.skip("slurmd starts jobs as their users, which takes root")
    folder = tmp_path_factory.mktemp("slurm")
    folder.chmod(0o755)
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    host = socket.gethostname().partition(".")[0]
    conf = folder / "slurm.conf"
    ports = (free_port(), free_port())
    conf.write_text(
        CONF.format(
            host=host, ports=ports, user=getpass.getuser(), folder=folder, cpus=os.cpu_count()
        )
    )
    monkeypatch.setenv("SLURM_CONF", str(conf))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{path}")
    munged = [
        *("munged", "--foreground", "--force", f"--key-file={key}"),
        *(f"--{what}={folder}/munge.{ending}" for what, ending in
          (("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed"))),
    ]  # fmt: skip
    started = []
    with (folder / "out").open("wb") as out:

        def begin(*command: str) -> None:
            process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
            started.append(process)

        begin(*munged)
        until((folder / "munge.socket").exists)
        begin("slurmctld", "-D", "-f", str(conf))
        begin("slurmd", "-D", "-f", str(conf), "-N", host)

        def idle() -> bool:
            said = subprocess.run(
                ["sinfo", "--noheader", "--format=%T"], capture_output=True, text=True, check=False
            )
            return said.stdout.strip() == "idle"

        try:
            until(idle)
            yield folder
        finally:
            subprocess.run(["scancel", "--me"], check=False, capture_output=True)
            for process in reversed(started):
                process.terminate()
            for process in started:
                process.wait(timeout=PATIENCE)


def test_a_job_array(tmp_path: Path, slurm: Path, start: Start, undisturbed: bytes) -> None:
    emitted = start("--store", "store", "-o", "out", "--emit", "slurm", "--shards", "3")
    script, told = emitted.communicate()
    assert emitted.returncode == 0, told
    (tmp_path / "small.sbatch").write_text(script)
    said = subprocess.run(
        ["sbatch", "--wait", "--mem-per-cpu=0", "small.sbatch"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    logs = "".join(file.read_text() for file in sorted(tmp_path.glob("slurm-*.out")))
    assert said.returncode == 0, said.stderr + logs
    assert kept(tmp_path) == RUNS
    process = start("--store", "store", "-o", "out")
    _, told = process.communicate()
    assert f"{RUNS} of {RUNS} runs are kept already" in told
    assert (tmp_path / "out" / "sweep.parquet").read_bytes() == undisturbed


def test_dasks_workers_in_jobs(
    tmp_path: Path, slurm: Path, start: Start, undisturbed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("dask_jobqueue")
    config = tmp_path / "dask"
    config.mkdir()
    (config / "jobqueue.yaml").write_text(
        "jobqueue:\n  slurm:\n    cores: 1\n    memory: 1GiB\n    walltime: '00:30:00'\n"
        "    interface: lo\n    job-directives-skip: ['--mem=']\n"
        f"    log-directory: {tmp_path}\n"
    )
    monkeypatch.setenv("DASK_CONFIG", str(config))
    process = start("--store", "store", "-o", "out", "--slurm", "2")
    _, told = process.communicate()
    logs = "".join(file.read_text() for file in sorted(tmp_path.glob("slurm-*")))
    assert process.returncode == 0, told + logs
    assert (tmp_path / "out" / "sweep.parquet").read_bytes() == undisturbed
