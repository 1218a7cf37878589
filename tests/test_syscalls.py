"""System calls under the emulator of our own answer as natively, or as docs/syscalls.csv says."""

import csv
import subprocess
from pathlib import Path

import pytest

import pagelab
from pagelab import emulator

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(emulator.bundled() is None, reason="pagelab-qemu is not installed")


def said(source: str, folder: Path, *, emulated: bool) -> list[str]:
    """The lines that a program of tests/record prints."""
    program = folder / source.removesuffix(".c")
    if not program.exists():
        source_path = ROOT / "tests" / "record" / source
        words = ["gcc", "-O1", "-pthread", str(source_path), "-o", str(program)]
        subprocess.run(words, check=True)
    before = [str(emulator.bundled())] if emulated else []
    done = subprocess.run(
        [*before, str(program)], capture_output=True, text=True, check=False, timeout=120
    )
    return [*done.stdout.splitlines(), f"status {done.returncode}"]


def test_each_call_answers_as_the_table_says(tmp_path: Path) -> None:
    with (ROOT / "docs" / "syscalls.csv").open(newline="") as file:
        rows = [(row["number"], row["call"], row["answer"]) for row in csv.DictReader(file)]
    native, emulated = (
        dict(line.split(" ", 1) for line in said("syscalls.c", tmp_path, emulated=how))
        for how in (False, True)
    )
    assert native.keys() == emulated.keys()
    assert len(rows) > len(emulated)
    wrong = []
    for number, name, answer in rows:
        if number not in emulated:
            continue
        natively, here = native[number], emulated[number]
        if answer.startswith("`ENOSYS`"):
            right = here == "ENOSYS"
        else:
            # A call with two faults may name either.
            right = natively == "ENOSYS" or (
                here != "ENOSYS" and (natively == "ok") == (here == "ok")
            )
        if not right:
            wrong.append(f"{name}: {answer}, but {here} (natively {natively})")
    assert not wrong


@pytest.mark.parametrize("source", ["advice.c", "vfork.c", "changed_handlers.c"])
def test_programs_see_what_they_see_natively(source: str, tmp_path: Path) -> None:
    native = said(source, tmp_path, emulated=False)
    assert native[-1] == "status 0"
    assert said(source, tmp_path, emulated=True) == native


def test_what_is_granted_otherwise_is_said(tmp_path: Path) -> None:
    lines = said("otherwise.c", tmp_path, emulated=True)
    assert lines[:3] == ["brk 1", "limits 0", "signal -1"]
    recorded = pagelab.record([tmp_path / "otherwise"], tmp_path / "o.trace")
    answers = {each.call: (each.error, each.times) for each in recorded.refused}
    expected = {
        # glibc's setrlimit.
        "prlimit64(RLIMIT_AS)": ("without effect", 1),
        "prlimit64(RLIMIT_STACK)": ("without effect", 1),
        "kill": ("EINVAL", 1),
    }
    if "no hugetlb pages" not in lines:
        expected["mmap(MAP_HUGETLB)"] = ("recorded as ordinary memory", 1)
    assert expected.items() <= answers.items()
