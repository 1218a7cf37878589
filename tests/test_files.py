"""Where a checkout and an installed package look for files, in copies of the package."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pagelab
from pagelab import files

ASK = """
from pagelab import files
from pagelab.linux import layout
print(files.checkout(), files.experiments(), files.build(), layout.find().patches, sep="\\n")
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A copy of the package as a wheel lays it out; the folder on sys.path."""
    package = tmp_path / "site" / "pagelab"
    source = Path(pagelab.__file__).parent
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("*.so", "plugins", "data"))
    for module in source.glob("*.so"):
        (package / module.name).symlink_to(module)
    for name in ("linux/patches", "experiments"):
        (package / "data" / name).mkdir(parents=True)
    return package.parent


def ask(site: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if key != "XDG_CACHE_HOME"}
    return subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {[str(site), *sys.path]!r}{ASK}"],
        env=kept | environment,
        cwd=site.parent,
        capture_output=True,
        text=True,
    )


def test_a_checkout_has_its_files_and_builds_in_itself() -> None:
    root = Path(__file__).parents[1]
    assert files.checkout() == root
    assert (files.linux() / "patches" / "series").is_file()
    assert (files.experiments() / "dpt" / "paper.toml").is_file()
    assert files.build() == root / "build"


@pytest.mark.parametrize(
    ("environment", "cache"),
    [
        ({"HOME": "/home/someone"}, "/home/someone/.cache/pagelab"),
        ({"HOME": "/home/someone", "XDG_CACHE_HOME": "/big"}, "/big/pagelab"),
        ({"HOME": "/home/someone", "XDG_CACHE_HOME": "big"}, "/home/someone/.cache/pagelab"),
    ],
)
def test_a_wheel_has_its_files_and_builds_in_the_cache(
    installed: Path, environment: dict[str, str], cache: str
) -> None:
    data = installed / "pagelab" / "data"
    answer = ask(installed, **environment)
    assert answer.stdout.splitlines() == [
        "None",
        str(data / "experiments"),
        cache,
        str(data / "linux" / "patches"),
    ], answer.stderr


def test_a_package_without_its_files_says_so(installed: Path) -> None:
    shutil.rmtree(installed / "pagelab" / "data" / "experiments")
    answer = ask(installed)
    assert answer.returncode != 0
    assert "this installation of pagelab is not whole" in answer.stderr


def test_a_module_of_another_processor_is_named(installed: Path) -> None:
    """One whose ELF header says AArch64, as in files copied from another machine."""
    (module,) = (installed / "pagelab").glob("*.so")
    header = bytearray(module.read_bytes()[:4096])
    header[18:20] = (183).to_bytes(2, "little")  # e_machine: EM_AARCH64
    module.unlink()
    module.write_bytes(header)
    answer = ask(installed)
    assert answer.returncode != 0
    last = answer.stderr.splitlines()[-1]
    assert "compiled module does not load here" in last
    assert "x86-64 Linux with glibc 2.34" in last
