# SPDX-License-Identifier: GPL-2.0
"""Compile the memory manager of docs/write-a-memory-manager.md and run programs on it."""

import os
import re
import subprocess
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "write-a-memory-manager.md"
LIMIT = 150
TOUCH = "memory = bytearray(32 << 20); print(open('/proc/self/numa_maps').read())"


def blocks(language: str) -> str:
    """All code of a language on the page, in order."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return "\n".join(found)


def build(folder: Path) -> Path:
    """The module made from the page's code."""
    managers = Path(os.environ["MANAGERS"])
    code = blocks("c")
    assert code.count("\n") < LIMIT, f"{code.count(chr(10))} lines"
    (folder / "mfs").mkdir(parents=True)
    (folder / "mfs" / "mfs.h").write_text((managers / "mfs" / "mfs.h").read_text())
    source = folder / "onemfs"
    source.mkdir()
    (source / "onemfs.c").write_text(code)
    (source / "Kbuild").write_text(blocks("make"))
    symbols = f"KBUILD_EXTRA_SYMBOLS={managers / 'Module.symvers'}"
    run("make", "-C", os.environ["KERNEL_BUILD"], f"M={source}", symbols, "modules")
    return source / "onemfs.ko"


def run(*command: str, status: int = 0) -> str:
    """What a command prints that must end with that status."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, (command, done.returncode, done.stdout, done.stderr)
    return done.stdout


def use(module: Path) -> None:
    """Mount it, and let Python have its memory from it."""
    managers, fbmm_run = os.environ["MANAGERS"], os.environ["FBMM_RUN"]
    mount = ["mount", "-t", "onemfs", "-o"]
    Path("/run/node").mkdir()
    run("insmod", f"{managers}/mfs/mfs.ko")
    run("insmod", str(module))
    run(*mount, "node=9,size=1M", "none", "/run/node", status=32)
    run(*mount, "node=1", "none", "/run/node", status=32)
    run(*mount, "node=1,size=64M", "none", "/run/node")
    placed = run(fbmm_run, "/run/node", "/usr/bin/python3", "-c", TOUCH)
    pages = {
        node: sum(map(int, re.findall(rf"deleted.* N{node}=(\d+)", placed))) for node in (0, 1)
    }
    assert pages[1] >= 8192, pages
    assert pages[0] == 0, pages
    # 128 MB are more than there is: SIGBUS
    run(fbmm_run, "/run/node", "/usr/bin/python3", "-c", "bytearray(128 << 20)", status=-7)
    run("umount", "/run/node")
    run("rmmod", "onemfs")
    run("rmmod", "mfs")
    print("ok 1 the manager of the page gives memory of its node")


if __name__ == "__main__":
    use(build(Path("/tmp/page")))
