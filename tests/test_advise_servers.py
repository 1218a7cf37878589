"""Servers are advised by what a load makes of them."""

import json
import shlex
import signal
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import canned
import commands
from emulators import needs_recorder
from pagelab import results
from pagelab.advising import serving, why
from pagelab.errors import PagelabError
from pagelab.measuring.native import Run
from processes import PATIENCE, until

# Serves a number on a Unix socket: how often it was asked, with memory of its own.
SERVER = """
import socket, sys
kept = bytearray(int(sys.argv[2]) << 20)
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
while True:
    peer, _ = listener.accept()
    sum(range(200_000))
    peer.sendall(b"42")
    peer.close()
"""
# Server without memory of its own, in a program that begins sooner.
SHORT_SERVER = """
use IO::Socket::UNIX;
$listener = IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 1);
while ($peer = $listener->accept) {
    $sum += $_ for 1 .. 50_000;
    print $peer "42";
    close $peer;
}
"""
ASKS = """
import os, socket, sys
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
print("rate:", peer.recv(9).decode())
os.unlink(sys.argv[1])
"""


def _serve(
    tmp_path: Path,
    *options: str,
    load: str = ASKS,
    server: tuple[str, ...] = (sys.executable, "-c", SERVER),
) -> subprocess.CompletedProcess[str]:
    place = str(tmp_path / "socket")
    return commands.pagelab(
        *("advise", "-q", "--json", "--time", "5", "--out", str(tmp_path / "out"), *options),
        *("--load", shlex.join([sys.executable, "-c", load, place])),
        *("--", *server, place, "64"),
    )


def test_a_server_is_run_until_its_load_has_ended(tmp_path: Path) -> None:
    done = _serve(tmp_path, "--metric", "rate: ([0-9]+)")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    runs = found["unchanged"]["runs"]
    assert {run["rate"] for run in runs} == {42.0}
    assert found["noise"]["median"] == 1.0
    assert all(one["faster"]["median"] == 1.0 for one in found["tried"])
    # Its times are known though it is ended by a signal.
    assert all(run["user"] > 0 and run["faults"] > 16384 / 2 for run in runs)


def test_a_server_or_load_that_fails_is_said(tmp_path: Path) -> None:
    nothing = _serve(tmp_path, "--metric", "speed: ([0-9]+)")
    assert nothing.returncode == 125
    assert "nothing matches of --metric speed: ([0-9]+)" in nothing.stderr
    assert "rate: 42" in nothing.stderr
    ended = commands.pagelab(
        *("advise", "-q", "--time", "5", "--load", "sleep 0.1", "--", "sh", "-c", "exit 3"),
    )
    assert ended.returncode == 125
    assert "sh ended with status 3 before its load had ended" in ended.stderr
    endless = _serve(tmp_path, load="import time; time.sleep(1000)")
    assert endless.returncode == 125
    assert "had not ended after" in endless.stderr
    assert commands.pagelab("advise", "--metric", "x", "--", "true").returncode == 2
    assert commands.pagelab("advise", "--load", "/nothing/here", "--", "true").returncode == 127


@needs_recorder
def test_the_model_speaks_of_a_server_under_its_load(tmp_path: Path) -> None:
    done = _serve(tmp_path, "--why", "-m", "zen3", server=("perl", "-e", SHORT_SERVER))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    faults = found["model"]["perf"]["expected"]["page-faults"]["unchanged"]
    measured = statistics.median(run["faults"] for run in found["unchanged"]["runs"])
    # Its starter has some faults, too.
    assert faults == pytest.approx(measured, rel=0.2)
    # 50,000 numbers are added for each that asks, by one instruction at the very least.
    model = json.loads((tmp_path / "out" / "model" / "result.json").read_text())
    assert model["runs"][0]["instructions"] > 50_000


def test_a_load_that_never_begins_or_fails_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        pytest.raises(PagelabError, match="opened no socket"),
        serving.working(serving.parse(["true"], None)),
    ):
        pass
    monkeypatch.setattr(serving, "_STARTING_SECONDS", 0)
    server = [sys.executable, "-c", SERVER, str(tmp_path / "socket"), "0"]
    with (
        pytest.raises(PagelabError, match="false ended with status 1"),
        serving.working(serving.parse(["false"], None)),
    ):
        ended = subprocess.run(server, check=False, timeout=PATIENCE)
    assert ended.returncode == -signal.SIGTERM


def test_a_process_that_listened_before_is_not_the_server(tmp_path: Path) -> None:
    earlier = tmp_path / "earlier"
    place = str(tmp_path / "socket")
    server = [sys.executable, "-c", SERVER, place, "0"]
    with subprocess.Popen([sys.executable, "-c", SERVER, str(earlier), "0"]) as other:
        try:
            until(earlier.exists)
            with serving.working(serving.parse([sys.executable, "-c", ASKS, place], None)):
                ended = subprocess.run(server, check=False, timeout=PATIENCE)
            assert ended.returncode == -signal.SIGTERM
            assert other.poll() is None
        finally:
            other.kill()


def test_time_that_the_model_has_not_is_said() -> None:
    base = results.Run.model_validate(canned.run("radix"))
    known = base.share("faults") + base.share("zeroing")

    def said(share: float) -> list[str]:
        runs = [Run(user=1 - share, system=share, wall=1.0, faults=100)] * 3
        return [*why._in_kernel(runs, base)]

    assert said(known) == said(known + 0.05) == [*why._in_kernel([], base)] == []
    (sentence,) = said(0.6)
    assert f"takes 60% of the program's time here, and {known:.0%} in the model" in sentence
