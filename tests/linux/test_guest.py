"""One command in one guest: its output comes through, and every bad end is told apart."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pagelab.errors import UsageError
from pagelab.linux import guest
from pagelab.linux.guest import Ending, Machine


def _children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_output_status_and_files_come_back(machine: Machine) -> None:
    before = _children()
    script = """
        echo to stdout; echo to stderr >&2
        echo kept > "$PAGELAB_OUT/file"
        touch /etc/pagelab-was-here 2>/dev/null && exit 1
        exit 7
    """
    result = guest.run(machine, ["sh", "-c", script])
    assert (result.ending, result.status) == (Ending.EXIT, 7)
    assert result.stdout == b"to stdout\n"
    assert result.stderr == b"to stderr\n"
    assert result.files == {"file": b"kept\n"}
    assert not Path("/etc/pagelab-was-here").exists()
    assert _children() == before


def test_arguments_are_not_interpreted_on_the_way(machine: Machine) -> None:
    hostile = ["a b", "$(id)", "'", '"', "*", "\\", "x\ny"]
    result = guest.run(machine, ["printf", "%s|", *hostile])
    assert result.stdout.decode() == "".join(f"{word}|" for word in hostile)


def test_a_panic_is_reported_with_the_console(machine: Machine) -> None:
    result = guest.run(machine, ["sh", "-c", "echo first; echo c > /proc/sysrq-trigger"])
    assert result.ending is Ending.PANIC
    assert result.status is None
    assert "sysrq triggered crash" in result.describe()


def test_a_hang_ends_at_the_time_limit(machine: Machine) -> None:
    before = _children()
    result = guest.run(replace(machine, timeout=8), ["sleep", "3600"])
    assert result.ending is Ending.HANG
    assert _children() == before


def test_running_out_of_memory_is_named(machine: Machine) -> None:
    # Many small touches: one large request would be refused up front.
    eat = "l = []\nwhile True: l.append(bytes(range(256)) * 4096)"
    script = f"echo 1 > /proc/sys/vm/overcommit_memory; exec python3 -c '{eat}'"
    result = guest.run(machine, ["sh", "-c", script])
    assert result.ending is Ending.OOM
    assert "--memory" in result.describe()


def test_nodes_and_cpus_are_what_was_asked_for(machine: Machine) -> None:
    wide = replace(machine, cpus=4, nodes=2, memory=512)
    result = guest.run(wide, ["sh", "-c", "nproc; cat /sys/devices/system/node/online"])
    assert result.stdout.decode().split() == ["4", "0-1"]


def test_a_kernel_that_cannot_find_init_is_a_panic(machine: Machine) -> None:
    result = guest.run(replace(machine, init=Path("/nonexistent")), ["true"])
    assert result.ending is Ending.PANIC
    assert "/nonexistent" in result.describe()


def test_a_file_that_is_no_kernel(machine: Machine, tmp_path: Path) -> None:
    fake = tmp_path / "bzImage"
    fake.write_bytes(b"not a kernel")
    result = guest.run(replace(machine, image=fake), ["true"])
    assert result.ending is Ending.LOST
    assert result.console


@pytest.mark.parametrize(
    "wrong",
    [{"cpus": 0}, {"cpus": 1, "nodes": 2}, {"icount": True, "cpus": 2}, {"accel": "xen"}],
)
def test_machines_that_cannot_exist_are_refused(wrong: dict[str, int | str]) -> None:
    with pytest.raises(UsageError):
        Machine(image=Path("x"), init=Path("y"), **wrong)  # type: ignore[arg-type]
