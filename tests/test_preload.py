"""Memory and code that programs have by the preloaded library, natively."""

import os
import subprocess
from pathlib import Path

import pytest

from pagelab import advice, files

SOURCE = Path(__file__).parent / "code" / "preloaded.c"
# Of 8 MiB, but for one.
PAGES = 2047

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="its code is x86-64")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("preload") / "preloaded"
    subprocess.run(["gcc", "-O1", "-w", SOURCE, "-o", program], check=True)
    return program


def _said(program: Path, what: str, **environment: str) -> list[str]:
    given = os.environ | {"LD_PRELOAD": str(files.preloaded())} | environment
    return subprocess.run(
        [program, what], env=given, check=True, capture_output=True, text=True
    ).stdout.splitlines()


def _site(program: Path) -> str:
    """The place that malloc returns to, by what the compiler made."""
    command = ["objdump", "--disassemble=take", "--no-show-raw-insn", str(program)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    (call,) = [at for at, line in enumerate(lines) if "call" in line and "<malloc@plt>" in line]
    return f"preloaded+{lines[call + 1].split(':')[0].strip()}"


def _resident(program: Path, way: str) -> list[int]:
    return [int(one) for one in _said(program, "memory", PAGELAB_SITES=f"{way}:{_site(program)}")]


def test_a_sites_memory_is_there_at_once(program: Path) -> None:
    # A page or two are the allocator's own.
    assert max(map(int, _said(program, "memory"))) < 4
    first, again = _resident(program, "populate")
    assert first == PAGES
    # What was given back is filled anew, but for its ends.
    assert again >= PAGES - 2


def test_another_sites_memory_is_as_before(program: Path) -> None:
    said = _said(program, "memory", PAGELAB_SITES="populate:preloaded+1;other+2")
    assert max(map(int, said)) < 4


@pytest.mark.skipif(advice.huge_pages() is None, reason="the kernel has no huge pages")
def test_huge_pages_at_once_need_no_setting_of_the_kernel(program: Path) -> None:
    assert min(_resident(program, "collapse")) >= PAGES - 2 * 512


def test_code_is_moved_and_goes_on(program: Path) -> None:
    assert _said(program, "code") == [f"42 {program}"]
    assert _said(program, "code", PAGELAB_CODE="huge") == ["42 none"]
