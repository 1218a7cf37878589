"""One command in one guest: its output comes through, and every bad end is told apart."""

import os
import select
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from pagelab.errors import UsageError
from pagelab.linux import guest
from pagelab.linux.guest import Ending, Machine
from pagelab.linux.layout import VERSION


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


@pytest.mark.parametrize("own", ["/tmp", "/var/tmp", "/dev/shm"])
def test_a_current_folder_that_the_guest_would_hide(machine: Machine, own: str) -> None:
    with tempfile.TemporaryDirectory(dir=own) as folder, tempfile.NamedTemporaryFile(dir=own) as no:
        (Path(folder) / "there").write_text("seen\n")
        script = f"cat there; touch there 2>/dev/null && exit 1; touch {own}/mine; ls {no.name}"
        result = guest.run(machine, ["sh", "-c", script], cwd=Path(folder))
        assert result.stdout == b"seen\n", result.describe()
        assert b"No such file" in result.stderr
        assert not Path(own, "mine").exists()


def test_folders_to_keep_in_sight(tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    (lab / "build").mkdir(parents=True)
    if not any(own in lab.parents for own in guest.OWN):
        pytest.skip("temporary files are elsewhere")
    assert guest._below_own(lab, lab / "build", Path("/usr"), Path("/tmp")) == [lab]
    assert guest._below_own(lab / "build", lab / "build") == [lab / "build"]
    assert guest._below_own(lab / "not there") == []


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


# Whether the kernel gets stuck without linux/guest/oom-guard.c depends on what is left last.
@pytest.mark.parametrize("memory", [232, 256, 320])
def test_running_out_of_memory_is_named(machine: Machine, memory: int) -> None:
    # Many small touches: one large request would be refused up front.
    eat = "l = []\nwhile True: l.append(bytes(range(256)) * 4096)"
    script = f"echo 1 > /proc/sys/vm/overcommit_memory; exec python3 -c '{eat}'"
    result = guest.run(replace(machine, memory=memory), ["sh", "-c", script])
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


def test_a_shell_can_be_used_and_left(machine: Machine) -> None:
    primary, secondary = os.openpty()
    command = [sys.executable, "-m", "pagelab", "linux", "boot", "--memory=256", "--cpus=1"]
    with subprocess.Popen(command, stdin=secondary, stdout=secondary, stderr=secondary) as shell:
        os.close(secondary)
        seen = _read_until(primary, b"# ")
        os.write(primary, b"echo Linux $(uname -r); exit 3\n")
        seen += _read_until(primary, None)
        status = shell.wait()
    os.close(primary)
    assert f"Linux {VERSION}." in seen.decode(errors="replace")
    assert status == 3


def _read_until(terminal: int, end: bytes | None) -> bytes:
    """What a terminal shows up to `end`, or until it is closed; for two minutes at most."""
    seen = b""
    while end is None or not seen.endswith(end):
        ready, _, _ = select.select([terminal], [], [], 120)
        try:
            chunk = os.read(terminal, 4096) if ready else b""
        except OSError:  # the other side has gone
            chunk = b""
        if not chunk:
            break
        seen += chunk
    return seen


@pytest.mark.parametrize(
    "wrong",
    [{"cpus": 0}, {"cpus": 3, "nodes": 2}, {"accel": "xen"}],
)
def test_machines_that_cannot_exist_are_refused(wrong: dict[str, int | str]) -> None:
    with pytest.raises(UsageError):
        Machine(image=Path("x"), init=Path("y"), **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cpus", "ending", "started", "attempts"),
    [
        (2, Ending.PANIC, False, 2),
        (2, Ending.LOST, False, 2),
        (2, Ending.PANIC, True, 1),
        (2, Ending.LOST, True, 1),
        (2, Ending.HANG, False, 1),
        (1, Ending.PANIC, False, 1),
        (2, Ending.EXIT, True, 1),
    ],
)
def test_a_boot_that_emulation_breaks_is_tried_once_more(
    cpus: int, ending: Ending, started: bool, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[None] = []

    def attempt(*_: object) -> tuple[guest.Result, bool]:
        made.append(None)
        return guest.Result(ending, None, []), started

    monkeypatch.setattr(guest, "_attempt", attempt)
    few = guest.Machine(image=Path("bzImage"), init=Path("init"), cpus=cpus, accel="tcg")
    assert guest.run(few, ["true"]).ending is ending
    assert len(made) == attempts


def test_a_boot_whose_walks_differ_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    consoles = [
        ["[    1.0] Kernel panic - not syncing: Attempted to kill init!"],
        ["dpt: the walks of 0x1000 differ on CPU 0"],
        ["[    1.0] never read"],
    ]

    def attempt(*_: object) -> tuple[guest.Result, bool]:
        return guest.Result(Ending.LOST, None, consoles.pop(0)), False

    monkeypatch.setattr(guest, "_attempt", attempt)
    few = guest.Machine(image=Path("bzImage"), init=Path("init"), cpus=2, accel="tcg")
    assert guest.run(few, ["true"]).console == ["dpt: the walks of 0x1000 differ on CPU 0"]
    # What differs first is not tried again, nor is a second attempt.
    consoles.insert(0, ["dpt: the walks of 0x2000 differ on CPU 1"])
    assert guest.run(few, ["true"]).console == ["dpt: the walks of 0x2000 differ on CPU 1"]
    assert consoles == [["[    1.0] never read"]]
    # Why the first one did not boot is told.
    assert "Attempted to kill init!" in capsys.readouterr().err
