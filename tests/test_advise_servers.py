"""Servers are advised by what a load makes of them."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import commands

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
ASKS = """
import os, socket, sys
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
print("rate:", peer.recv(9).decode())
os.unlink(sys.argv[1])
"""


def _serve(tmp_path: Path, *options: str, load: str = ASKS) -> subprocess.CompletedProcess[str]:
    place = str(tmp_path / "socket")
    return commands.pagelab(
        *("advise", "-q", "--json", "--time", "5", "--out", str(tmp_path / "out"), *options),
        *("--load", shlex.join([sys.executable, "-c", load, place])),
        *("--", sys.executable, "-c", SERVER, place, "64"),
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
