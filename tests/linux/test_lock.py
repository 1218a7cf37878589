"""Two builds in one folder take turns, and who waits says for whom."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from processes import until

HOLD = """
import sys
from pathlib import Path
from pagelab.linux.lock import only_one
with only_one(Path(sys.argv[1])), only_one(Path(sys.argv[1])):
    print("mine", flush=True)
    sys.stdin.readline()
"""

BUILD = """
import sys
from pathlib import Path
from pagelab.linux.lock import only_one
from pagelab.linux.process import capture
with only_one(Path(sys.argv[1])):
    capture(["sh", "-c", 'echo $$ > "$0"; exec sleep 1000', sys.argv[2]])
"""


def _start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_second_waits_and_says_for_whom(tmp_path: Path) -> None:
    first = _start(tmp_path / "linux")
    assert first.stdout is not None
    assert first.stdout.readline() == "mine\n"
    second = _start(tmp_path / "linux")
    assert second.stderr is not None
    assert f"process {first.pid} " in second.stderr.readline()
    first.kill()
    first.communicate()
    assert second.communicate("\n")[0] == "mine\n"
    assert second.returncode == 0


def test_other_folders_are_not_waited_for(tmp_path: Path) -> None:
    first, second = _start(tmp_path / "linux"), _start(tmp_path / "linux-bisect")
    for process in (first, second):
        out, said = process.communicate("\n")
        assert (out, said, process.returncode) == ("mine\n", "", 0)


def test_what_goes_on_building_when_pagelab_was_killed_is_waited_for(tmp_path: Path) -> None:
    said = tmp_path / "number"
    first = subprocess.Popen([sys.executable, "-c", BUILD, tmp_path / "linux", said])
    until(lambda: said.exists() and said.read_text().endswith("\n"))
    first.kill()
    first.wait()
    second = _start(tmp_path / "linux")
    assert second.stderr is not None
    assert second.stderr.readline().startswith(f"waiting: process {first.pid} ")
    os.kill(int(said.read_text()), signal.SIGKILL)
    assert second.communicate("\n")[0] == "mine\n"
