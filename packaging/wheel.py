"""Builds pagelab's wheel with all that it needs, and checks what the wheel's name promises.

    wheel.py FOLDER         writes FOLDER/pagelab-VERSION-cp311-abi3-PLATFORM.whl

maturin makes a wheel of the module and the Python sources. Added to it are: the recorder's plugin
and the probe without debug information, experiments/ and linux/, manual pages, completion for
shells, and a bill of materials (PEP 770). Run by `make wheel`, which has built the programs.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import manpages
import sbom
from typer.completion import get_completion_script

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "python" / "pagelab" / "plugins"
# Where each shell looks below a prefix that has bin/pagelab.
COMPLETIONS = {
    "bash": "bash-completion/completions/pagelab",
    "zsh": "zsh/site-functions/_pagelab",
    "fish": "fish/vendor_completions.d/pagelab.fish",
}
# A wheel of its own, for its licence. Only the wheel asks for it: a checkout may do with the
# distribution's emulator.
EMULATOR = "pagelab-qemu>=10.0"
# With the emulator's wheel: 20 MB.
MOST_BYTES = 16 << 20


def main() -> int:
    """Runs the command line."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        print(build(Path(sys.argv[1]).resolve()))
    except subprocess.CalledProcessError as error:
        print(f"wheel: `{' '.join(map(str, error.cmd))}` failed", file=sys.stderr)
        return 1
    except WheelError as error:
        print(f"wheel: {error}", file=sys.stderr)
        return 1
    return 0


class WheelError(Exception):
    """What is wrong, for a person."""


def build(folder: Path) -> Path:
    """The wheel, moved into `folder` when it has passed its checks; older ones there go."""
    with tempfile.TemporaryDirectory(prefix="pagelab-wheel-") as temporary:
        work = Path(temporary)
        _run("maturin", "build", "--quiet", "--release", "--locked", "-i", sys.executable,
             "--out", work / "bare")  # fmt: skip
        (bare,) = (work / "bare").glob("*.whl")
        _run("wheel", "unpack", "--dest", work / "tree", bare)
        (tree,) = (work / "tree").iterdir()
        complete(tree)
        _run("wheel", "pack", "--dest-dir", work, tree)
        (wheel,) = work.glob("*.whl")
        check(wheel)
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("pagelab-*.whl"):
            old.unlink()
        return Path(shutil.move(wheel, folder / wheel.name))


def complete(tree: Path) -> None:
    """Adds to an unpacked wheel what maturin does not put there."""
    package = tree / "pagelab"
    (info,) = tree.glob("*.dist-info")
    share = tree / info.name.replace(".dist-info", ".data") / "data" / "share"
    for name in ("experiments", "linux"):
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(ROOT / name, package / "data" / name, ignore=ignored)
    shutil.copytree(PROGRAMS, package / "plugins", dirs_exist_ok=True)
    for binary in [*package.glob("*.so"), *(package / "plugins").iterdir()]:
        _run("strip", "--strip-unneeded", binary)
    manpages.write(share / "man" / "man1")
    for shell, place in COMPLETIONS.items():
        script = get_completion_script(
            prog_name="pagelab", complete_var="_PAGELAB_COMPLETE", shell=shell
        )
        (share / place).parent.mkdir(parents=True)
        (share / place).write_text(script)
    metadata = info / "METADATA"
    first = "Requires-Dist:"
    metadata.write_text(metadata.read_text().replace(first, f"{first} {EMULATOR}\n{first}", 1))
    bills = info / "sboms"
    bills.mkdir()
    (bills / "pagelab.cdx.json").write_text(json.dumps(sbom.bill(), indent=1))


def check(wheel: Path) -> None:
    """Raises when the C library that it needs is newer than its name says, or it is too large."""
    # maturin has looked at the module only; auditwheel looks at all that is compiled.
    said = _run("auditwheel", "show", wheel)
    found = re.search(r'platform\s+tag:\s+"(\w+)"', said)
    if found is None or found[1] not in wheel.name:
        raise WheelError(f"{wheel.name} is not what it says it is:\n{said}")
    if (size := wheel.stat().st_size) > MOST_BYTES:
        raise WheelError(f"{wheel.name} has {size >> 20} MB; at most {MOST_BYTES >> 20} are wanted")


def _run(command: str, *arguments: str | Path) -> str:
    # Tools that were installed beside this interpreter come before the system's.
    beside = Path(sys.executable).parent / command
    argv = [beside if beside.exists() else command, *arguments]
    return subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
