"""The wheels of build/wheels, installed into clean roots of distributions and used there.

Run by `make wheel-test`, as root, which debootstrap and namespaces need. What runs inside is an
ordinary user without network, compiler or apt-get, in an empty folder. PAGELAB_ROOTS names the
distributions ("trixie" by default, or "bookworm trixie jammy noble"); their roots stay under
build/roots. Ubuntu's keys are in Debian 13's package ubuntu-archive-keyring.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
WHEELS = ROOT / "build" / "wheels"
ROOTS = ROOT / "build" / "roots"
USER = 1000
# What pip takes wheels of; newest first does not matter to it.
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (34, 28, 27, 24, 17)] + [
    "manylinux2014_x86_64",
    "manylinux1_x86_64",
]


@dataclass(frozen=True)
class System:
    """A distribution's release: where it comes from, and its Python of 3.11 or newer."""

    suite: str
    python: str
    keyring: str
    mirror: str = "http://deb.debian.org/debian"
    interpreter: str = "python3"
    components: str = "main"
    updates: str = ""

    def __str__(self) -> str:
        """As tests are named."""
        return self.suite


UBUNTU = {
    "keyring": "/usr/share/keyrings/ubuntu-archive-keyring.gpg",
    "mirror": "http://archive.ubuntu.com/ubuntu",
    "components": "main,universe",
}
DEBIAN = {"keyring": "/usr/share/keyrings/debian-archive-keyring.gpg"}
SYSTEMS = [
    System("bookworm", "3.11", **DEBIAN),
    System("trixie", "3.13", **DEBIAN),
    # Its own Python is 3.10; 3.11 is beside it.
    System("jammy", "3.11", interpreter="python3.11", updates="jammy-updates", **UBUNTU),
    System("noble", "3.12", **UBUNTU),
]
WANTED = os.environ.get("PAGELAB_ROOTS", "trixie").split()

Shell = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session", params=[one for one in SYSTEMS if one.suite in WANTED], ids=str)
def system(request: pytest.FixtureRequest) -> System:
    """A release whose minimal root is under build/roots."""
    one: System = request.param
    if os.geteuid() != 0:
        pytest.skip("debootstrap and namespaces need root")
    if not Path(one.keyring).is_file():
        pytest.skip(f"there is no {one.keyring}")
    place = ROOTS / one.suite
    if not place.is_dir():
        part = ROOTS / f"{one.suite}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        bootstrap(one, part)
        part.rename(place)
    return one


def bootstrap(one: System, root: Path) -> None:
    """The distribution's smallest root, with Python."""
    packages = [one.interpreter, f"{one.interpreter}-venv"]
    subprocess.run(
        [
            "debootstrap",
            "--variant=minbase",
            f"--keyring={one.keyring}",
            f"--components={one.components}",
            *([] if one.updates else [f"--include={','.join(packages)}"]),
            *(one.suite, root, one.mirror),
            # An older debootstrap does not know a newer suite.
            f"/usr/share/debootstrap/scripts/{'gutsy' if one.components != 'main' else 'sid'}",
        ],
        check=True,
    )
    if one.updates:
        components = one.components.replace(",", " ")
        with (root / "etc/apt/sources.list").open("a") as sources:
            sources.write(f"deb {one.mirror} {one.updates} {components}\n")
        for command in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
            subprocess.run(["chroot", root, "apt-get", "--quiet", *command], check=True)


@pytest.fixture(scope="session")
def packages(system: System, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheels, and those of the packages they need in the versions of requirements.lock."""
    folder = tmp_path_factory.mktemp("packages")
    lock = (ROOT / "requirements.lock").read_text()
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(re.findall(r"^\w[\w.-]*==[^\\\n]*", lock, re.MULTILINE)))
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
            *("--only-binary=:all:", "--implementation=cp", f"--python-version={system.python}"),
            *(f"--platform={name}" for name in PLATFORMS),
            *("--find-links", WHEELS, "--constraint", constraints, "--dest", folder, "pagelab"),
        ],
        check=True,
    )
    constraints.unlink()
    folder.chmod(0o755)
    # Of pagelab those that were built here, whatever an index has.
    for wheel in folder.glob("pagelab*.whl"):
        assert wheel.read_bytes() == (WHEELS / wheel.name).read_bytes()
    return folder


@pytest.fixture(scope="session")
def shell(system: System, packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """Runs commands inside, with pagelab installed into a virtual environment on the PATH."""
    home = tmp_path_factory.mktemp("home")
    (home / "empty").mkdir()
    for path in (home, home / "empty"):
        os.chown(path, USER, USER)
    root = ROOTS / system.suite
    (root / "home/user").mkdir(parents=True, exist_ok=True)
    (root / "wheels").mkdir(exist_ok=True)
    enter = f"""
        set -e
        mount --make-rprivate /
        mount -t proc proc {root}/proc
        mount -t tmpfs -o mode=1777 tmpfs {root}/tmp
        mount -t tmpfs -o mode=1777 tmpfs {root}/dev/shm
        mount --bind {home} {root}/home/user
        mount --bind -o ro {packages} {root}/wheels
        mount --bind {root}/usr/bin/false {root}/usr/bin/apt-get
        exec chroot --userspec={USER}:{USER} --groups= {root} /usr/bin/env -i \\
            HOME=/home/user PATH=/home/user/venv/bin:/usr/bin:/bin LANG=C.UTF-8 \\
            sh -c 'cd ~/empty && eval "$1"' sh "$1"
    """

    def run(command: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [
                *("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"),
                *("sh", "-c", enter, "sh", command),
            ],
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert not check or done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done

    run(f"{system.interpreter} -m venv ~/venv")
    run("pip install --quiet --disable-pip-version-check --no-index --find-links /wheels pagelab")
    return run


def test_nothing_inside_could_compile_or_fetch(shell: Shell) -> None:
    """The premise of all others."""
    assert shell("id -u").stdout == f"{USER}\n"
    assert shell("command -v cc gcc clang cargo make git", check=False).stdout == ""
    assert shell("apt-get update", check=False).returncode != 0
    # No interface but loopback, which is down.
    assert shell("grep -c : /proc/net/dev").stdout == "1\n"
    assert shell("touch /here", check=False).returncode != 0


def test_the_wheels_are_small() -> None:
    wheels = list(WHEELS.glob("pagelab*.whl"))
    assert sum(wheel.stat().st_size for wheel in wheels) <= 20 << 20


@pytest.mark.parametrize("platform", ["manylinux_2_31_x86_64", "manylinux_2_34_aarch64"])
def test_an_older_c_library_or_another_processor_is_refused(platform: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--no-index", "--no-deps"),
            *("--only-binary=:all:", "--python-version=3.11", f"--platform={platform}"),
            *("--find-links", WHEELS, "--dest", tmp_path, "pagelab"),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "No matching distribution" in done.stderr


def test_doctor_finds_what_recording_needs(shell: Shell) -> None:
    checks = json.loads(shell("pagelab doctor --json").stdout)
    needed = [check for check in checks if not check["optional"]]
    assert len(needed) > 2
    assert all(check["found"] for check in needed)


def test_compare_records_a_program_of_the_system(shell: Shell) -> None:
    done = shell("pagelab compare -- ls /")
    assert done.stdout.splitlines()[0] == "bin"
    assert "radix" in done.stdout + done.stderr
    reports = shell("ls pagelab-results/*/report.html").stdout.split()
    assert len(reports) == 1
    assert shell("pagelab compare --quiet --json -- sh -c 'exit 3'", check=False).returncode == 3


def test_simulate_needs_no_recorder(shell: Shell) -> None:
    done = shell(
        "pagelab simulate --json --design dpt"
        " --workload random-updates:footprint=16MiB,updates=100k"
    )
    assert json.loads(done.stdout)["accesses"] > 100_000


def test_measure_and_its_published_figures(shell: Shell) -> None:
    shell("pagelab measure --quick --quiet --out measured")
    measured = json.loads(shell("cat measured/measurement.json").stdout)
    assert {"caches", "tlb", "faults"} <= set(measured["parts"])
    assert "\nmeasuring: " in shell("pagelab reproduce measuring --measured measured").stdout


def test_the_published_figures_came_along(shell: Shell) -> None:
    inside = shell("python -c 'from pagelab import files; print(files.experiments())'").stdout
    assert inside.startswith("/home/user/venv/")
    listed = shell(f"ls {inside.strip()}/dpt").stdout.split()
    assert sorted(listed) == sorted(path.name for path in (ROOT / "experiments/dpt").iterdir())
    # Counted in patches and modules; needs no kernel.
    table = shell("pagelab reproduce fbmm:table7").stdout
    assert "basicmfs" in table


def test_the_kernel_side_says_what_it_needs(shell: Shell) -> None:
    # Said before anything is built, and nothing is left behind.
    needs = [("build", 1, "gcc"), ("run -- true", 125, "qemu-system-x86")]
    for command, status, package in needs:
        done = shell(f"pagelab linux {command}", check=False)
        assert done.returncode == status
        assert f"{package}, " in done.stderr
        assert "Traceback" not in done.stderr
        assert shell("find ~/.cache/pagelab -type f -size +0", check=False).stdout == ""


def test_manual_pages_and_completion_are_where_they_are_looked_for(shell: Shell) -> None:
    page = shell("cat ~/venv/share/man/man1/pagelab-compare.1").stdout
    assert "\\-\\-designs" in page
    complete = (
        "source ~/venv/share/bash-completion/completions/pagelab; "
        "COMP_WORDS=(pagelab comp) COMP_CWORD=1; _pagelab_completion pagelab comp pagelab; "
        'echo "${COMPREPLY[@]}"'
    )
    assert shell(f"bash -c {shlex.quote(complete)}").stdout.split() == ["compare"]


def test_it_says_what_it_carries(shell: Shell) -> None:
    bill = json.loads(shell("cat ~/venv/lib/python3*/site-packages/pagelab-*/sboms/*.json").stdout)
    parts = {part["name"]: part["version"] for part in bill["components"]}
    assert bill["metadata"]["component"]["version"] == shell("pagelab version").stdout.split()[1]
    # Linked into the module, into the plugin, and into the probe.
    assert {"pyo3", "pagelab-recorder-wire", "glibc"} <= set(parts)
    assert "serde_derive" not in parts
    for file in ("_core.abi3.so", "plugins/libpagelab_plugin.so", "plugins/pagelab-probe"):
        there = f"~/venv/lib/python3*/site-packages/pagelab/{file}"
        assert "debug_info" not in shell(f"grep -c -a debug_info {there}", check=False).stdout
