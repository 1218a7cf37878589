"""How much memory there is, and how much a run says that it will need."""

import subprocess
import sys
from pathlib import Path

import pytest

from pagelab import workloads
from pagelab.experiment.backends import simulate
from pagelab.experiment.local import _left_of_limits, available_memory
from pagelab.sources import parse_workload, together
from pagelab.window import Window

GIB = 1 << 30


def group(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(f"{content}\n")


def test_limits_of_control_groups_are_kept(tmp_path: Path) -> None:
    group(tmp_path / "a", memory__max="max", memory__current=1, memory__stat="anon 1\n")
    stat = f"anon {GIB}\ninactive_file {GIB}"
    group(tmp_path / "a/b", memory__max=8 * GIB, memory__current=3 * GIB, memory__stat=stat)
    # It has no limit of its own.
    group(tmp_path / "a/b/c")
    assert list(_left_of_limits("0::/a/b/c\n", tmp_path)) == [6 * GIB]
    # As seen in a container: the group itself is the top.
    group(tmp_path, memory__max=2 * GIB, memory__current=3 * GIB, memory__stat="anon 1")
    assert list(_left_of_limits("0::/../x\n", tmp_path))[-1:] == [0]
    assert list(_left_of_limits("0::/\n", tmp_path)) == [0]


def test_limits_of_the_first_version(tmp_path: Path) -> None:
    used = {"memory__usage_in_bytes": 3 * GIB, "memory__stat": f"total_inactive_file {GIB}"}
    group(tmp_path / "memory/job", memory__limit_in_bytes=4 * GIB, **used)
    group(tmp_path / "memory", memory__limit_in_bytes=1 << 62, **used)
    groups = "3:cpuset:/\n4:memory:/job\n1:name=systemd:/a:b\n"
    assert min(_left_of_limits(groups, tmp_path)) == 2 * GIB


def test_there_is_memory() -> None:
    assert available_memory() > 0


def said(*programs: str, copies: int = 1) -> int:
    described = [parse_workload(program).describe(Window()) for program in programs]
    source = together(described, copies)
    return simulate.case("", "radix", "dpt-paper", ["memory.memory_bytes=64GiB"], source).memory


def test_programs_that_keep_their_data_need_more() -> None:
    least = said("stream")
    assert least == simulate.PROCESS_BYTES + 64 * GIB // 256
    assert said("bfs") == said("bfs:footprint=8GiB") == least + 8 * GIB // 64
    assert said("bfs:footprint=4GiB", copies=2) == said("bfs")
    # Every program is one or the other.
    for name in simulate._KEEP_NOTHING:
        assert callable(getattr(workloads, name.replace("-", "_")))


SMALL = "windows=2,warm_up=1000,measured=10000,region=100000"


@pytest.mark.parametrize("program", ["bfs:footprint=7GiB", "kv:footprint=3GiB", "stream"])
def test_no_run_takes_more_than_it_says(program: str) -> None:
    ask = (
        "from pathlib import Path\n"
        "from pagelab.experiment.backends import simulate\n"
        "from pagelab.sources import parse_workload\n"
        "from pagelab.window import Window\n"
        f"source = parse_workload('{program}{',' if ':' in program else ':'}{SMALL}')\n"
        "keys = ['memory.memory_bytes=16GiB', 'memory.utilisation=0.0']\n"
        "case = simulate.case('', 'radix', 'dpt-paper', keys, source.describe(Window()))\n"
        "assert simulate.run(case.task, lambda *_: True)['accesses']\n"
        # getrusage(2) has what the process was before it became this program, too.
        "status = Path('/proc/self/status').read_text()\n"
        "print(case.memory, int(status.partition('VmHWM:')[2].split()[0]) * 1024)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", ask], check=True, capture_output=True, text=True
    ).stdout
    most, taken = map(int, told.split())
    assert taken < most
