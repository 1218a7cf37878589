"""Builds QEMU's user-mode emulation for x86-64 programs, with plugins, from its source.

Run by `make qemu`. Gets the source from Debian by apt-get, without root and without touching the
system's own lists; checks it; builds in a folder of its own; and puts the result in place as the
last step, so that an interruption leaves nothing half done. A second run finds the result there.

Only the standard library is imported; QEMU's build needs meson, ninja and pycotap beside the
interpreter that runs this.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

HERE = Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build" / "qemu"
BINARY = "qemu-x86_64"
# For the first release of sources.toml only; the others are tested as they are.
PATCHES = sorted((HERE / "patches").glob("*.patch"))
# What a wheel's platform tag promises.
NEWEST_GLIBC = (2, 34)

# Without the features that only system emulation or tools use: fewer libraries to link. With what
# answers getxattr() and its like: without it, they say ENOSYS, and `ls -l` says that of each file.
OPTIONS = [
    "--target-list=x86_64-linux-user",
    "--without-default-features",
    "--enable-plugins",
    "--enable-attr",
    "--disable-system",
    "--disable-tools",
    "--disable-docs",
    "--disable-werror",
    "--disable-install-blobs",
    "--disable-debug-info",
]

CFLAGS = "-O2"

# The libraries to link statically, by the names QEMU asks pkg-config for.
GLIB = ["glib-2.0", "gthread-2.0", "gmodule-2.0", "gmodule-no-export-2.0", "gmodule-export-2.0"]
PACKAGES = "build-essential pkg-config libglib2.0-dev libpcre2-dev zlib1g-dev xz-utils patch"


class BuildError(Exception):
    """What went wrong, for the user."""


@dataclass(frozen=True)
class Release:
    """A release of QEMU and where its source is."""

    version: str
    suite: str
    archive: str
    sha256: str
    # What apt-get is asked for.
    package: str = "qemu"

    @property
    def series(self) -> str:
        """The archives of the same stable series: 10.0.13 is one of 10.0."""
        return ".".join(self.version.split(".")[:2])


def releases() -> list[Release]:
    """What sources.toml lists."""
    listed = tomllib.loads((HERE / "sources.toml").read_text())["release"]
    return [Release(**entry) for entry in listed]


class Progress:
    """Says how far it is: a line that is rewritten on a terminal, a line a step elsewhere."""

    def __init__(self) -> None:
        self.is_terminal = sys.stderr.isatty()
        self.began = time.monotonic()
        self.said = 0

    def step(self, text: str) -> None:
        """Another step begins."""
        self.said = 0
        self._say(text, end=not self.is_terminal)

    def share(self, text: str, done: int, total: int) -> None:
        """So much of a step is done."""
        percent = 100 * done // max(total, 1)
        if self.is_terminal:
            self._say(f"{text}: {percent} % ({done} of {total})", end=False)
        elif percent >= self.said + 25:
            self.said = percent - percent % 25
            self._say(f"{text}: {self.said} %", end=True)

    def close(self, text: str) -> None:
        """It is over."""
        self._say(text, end=True)

    def _say(self, text: str, *, end: bool) -> None:
        since = f" ({time.monotonic() - self.began:.0f} s)"
        start = "\r\x1b[K" if self.is_terminal else ""
        print(f"{start}qemu: {text}{since}", end="\n" if end else "", file=sys.stderr, flush=True)


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    known = releases()
    parser.add_argument(
        "--release", default=known[0].version, choices=[release.version for release in known]
    )
    parser.add_argument("--source", type=Path, help="the source's archive, instead of Debian's")
    parser.add_argument("--mirror", help="a mirror of Debian; by default the system's own")
    arguments = parser.parse_args()
    release = next(entry for entry in known if entry.version == arguments.release)
    progress = Progress()
    try:
        with only_one(progress):
            built = build(release, arguments.source, arguments.mirror, progress)
    except BuildError as error:
        progress.close(f"not built: {error}")
        return 1
    except KeyboardInterrupt:
        progress.close("interrupted; nothing was installed")
        return 130
    print(built / BINARY)
    return 0


@contextlib.contextmanager
def only_one(progress: Progress) -> Iterator[None]:
    """Waits until no other build of this checkout runs."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.step("waiting for another build")
            fcntl.flock(lock, fcntl.LOCK_EX)
        # Nobody else is building, so these were left by a build that was killed.
        for left in BUILD.glob("work-*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


def build(release: Release, source: Path | None, mirror: str | None, progress: Progress) -> Path:
    """The folder with the emulator: there already, or built now."""
    place = BUILD / f"{release.version}-{recipe()}"
    if not (place / BINARY).is_file():
        check_tools()
        room = shutil.disk_usage(BUILD).free
        if room < 2 << 30:
            raise BuildError(f"{room >> 20} MB are free in {BUILD}; it needs 2 GB for a while")
        archive = source or download(release, mirror, progress)
        pinned = check(archive, release, by_apt=source is None)
        with tempfile.TemporaryDirectory(prefix="work-", dir=BUILD) as work:
            patches = PATCHES if release == releases()[0] else []
            result = compile_in(Path(work), archive, patches, progress)
            manifest = describe(result / BINARY, archive, pinned=pinned)
            (result / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
            result.rename(place)
        progress.close(f"built {place / BINARY}")
    if release == releases()[0]:
        point_to(place)
    return place


def recipe() -> str:
    """Changes when what is built does."""
    patches = "".join(patch.read_text() for patch in PATCHES)
    return hashlib.sha256(" ".join([*OPTIONS, *GLIB, CFLAGS, patches]).encode()).hexdigest()[:12]


def point_to(place: Path) -> None:
    """Makes build/qemu/current lead to it, at once."""
    link = BUILD / "current.new"
    link.unlink(missing_ok=True)
    link.symlink_to(place.name)
    link.replace(BUILD / "current")


def check_tools() -> None:
    """Raises when something to build with is missing."""
    tools = ["cc", "make", "pkg-config", "tar", "xz", "patch", "strip", "objdump"]
    missing = [tool for tool in tools if not shutil.which(tool)]
    missing += [name for name in ("meson", "ninja") if not beside_python(name).is_file()]
    if missing:
        raise BuildError(
            f"{', '.join(missing)} not found; `make qemu` in a checkout installs what is missing "
            f"(Debian's packages: {PACKAGES})"
        )


def beside_python(name: str) -> Path:
    """A command of the environment that this runs in."""
    return Path(sys.executable).parent / name


def download(release: Release, mirror: str | None, progress: Progress) -> Path:
    """The archive, from Debian, by its own client."""
    kept = BUILD / "downloads"
    kept.mkdir(exist_ok=True)
    there = kept / release.archive
    if there.is_file() and digest(there) == release.sha256:
        return there
    if not shutil.which("apt-get"):
        raise BuildError(
            "this system has no apt-get to get the source with; download "
            f"{release.archive} (Debian's) or qemu-{release.version}.tar.xz (QEMU's own) and "
            "give it by --source"
        )
    with tempfile.TemporaryDirectory(prefix="work-apt-", dir=BUILD) as work:
        found = apt_source(Path(work), release, mirrors(mirror), progress)
        place = kept / found.name
        found.replace(place)
    return place


def mirrors(given: str | None) -> list[str]:
    """Where the system itself gets Debian's packages from."""
    if given:
        return [given]
    said = subprocess.run(
        ["apt-get", "--print-uris", "update"], capture_output=True, text=True, check=False
    )
    found = re.findall(r"^'(\S+/debian)/+dists/", said.stdout, re.MULTILINE)
    if not found:
        raise BuildError(
            "no mirror of Debian is among apt's sources; name one by --mirror URL "
            "(on Ubuntu: apt-get install debian-archive-keyring, too)"
        )
    return list(dict.fromkeys(found))


def apt_source(work: Path, release: Release, sites: list[str], progress: Progress) -> Path:
    """Downloads the source package of a suite and returns its archive."""
    (work / "lists" / "partial").mkdir(parents=True)
    (work / "get").mkdir()
    (work / "sources.list").write_text(
        "".join(
            "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
            f"{site} {release.suite} main\n"
            for site in sites
        )
    )
    options = [
        f"-oDir::Etc::SourceList={work / 'sources.list'}",
        "-oDir::Etc::SourceParts=/dev/null",
        f"-oDir::State::Lists={work / 'lists'}",
        f"-oDir::Cache={work}",
        "-oAcquire::Retries=2",
        "-oAPT::Get::List-Cleanup=0",
        # As root, apt would download as a user that cannot write here.
        "-oAPT::Sandbox::User=root",
    ]
    progress.step(f"asking Debian for the source of {release.version}")
    apt(["update", *options], work)
    progress.step(f"downloading the source of {release.version} (40 MB)")
    # Its own patches are left out, and so is unpacking, which would need dpkg-dev.
    asked = ["source", "--download-only", "--only-source", *options, release.package]
    said = apt(asked, work / "get")
    found = sorted((work / "get").glob("qemu_*.orig.tar.xz"))
    if not found:
        raise BuildError(f"Debian's {release.suite} gave no archive of QEMU: {last_line(said)}")
    return found[0]


def apt(arguments: list[str], folder: Path) -> str:
    """Runs apt-get and returns what it said. Whether it worked is for the caller to see."""
    done = subprocess.run(
        ["apt-get", "-q", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def last_line(text: str) -> str:
    """The line that says most."""
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("E:", "Err"))]
    return (errors or lines or ["nothing was said"])[-1]


def check(archive: Path, release: Release, *, by_apt: bool) -> bool:
    """Whether it is the pinned one; raises when it should not be used at all."""
    if not archive.is_file():
        raise BuildError(f"there is no {archive}")
    found = digest(archive)
    if found == release.sha256:
        return True
    if archive.name == release.archive:
        if by_apt:
            archive.unlink()
        raise BuildError(f"{archive} has the checksum {found} instead of {release.sha256}")
    if by_apt and archive.name.startswith(f"qemu_{release.series}."):
        # A newer point release has taken its place in the suite. apt-get has checked it against
        # the list that Debian signs.
        print(
            f"qemu: Debian has replaced {release.archive} by {archive.name}, "
            "which its signature vouches for",
            file=sys.stderr,
        )
        return False
    raise BuildError(f"{archive} is not {release.archive}, whose checksum is {release.sha256}")


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unpack(archive: Path, folder: Path, patches: list[Path]) -> Path:
    """Puts an archive's files into a folder, patched; where its top is."""
    done = subprocess.run(
        ["tar", "-xf", archive, "-C", folder], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildError(f"{archive} cannot be unpacked: {last_line(done.stderr)}")
    (top,) = folder.iterdir()
    for patch in patches:
        done = subprocess.run(
            ["patch", "-p1", "-d", top, "-i", patch], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise BuildError(f"{patch.name} does not apply: {last_line(done.stdout)}")
    return top


def compile_in(work: Path, archive: Path, patches: list[Path], progress: Progress) -> Path:
    """Builds the emulator and returns a folder with it and its licences."""
    progress.step("unpacking")
    source, objects, result = work / "source", work / "objects", work / "result"
    for folder in (source, objects, result):
        folder.mkdir()
    source = unpack(archive, source, patches)
    log = BUILD / "build.log"
    write_packages(work / "pkgconfig", static_libraries())
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PKG_CONFIG_LIBDIR": str(work / "pkgconfig"),
    }
    for name in ("LDFLAGS", "CC", "PKG_CONFIG_PATH"):
        environment.pop(name, None)
    environment["CFLAGS"] = CFLAGS
    configure = [str(source / "configure"), f"--python={sys.executable}", *options(source)]
    if patches:
        # In what --version says: the recorder knows by it what the patches do.
        configure.append("--with-pkgversion=pagelab")
    configure += compiler(work, environment)
    with log.open("w") as out:
        progress.step("configuring")
        run(configure, objects, environment, out)
        compile_all(objects, environment, out, progress)
    shutil.copy2(objects / BINARY, result / BINARY)
    subprocess.run(["strip", "--strip-unneeded", result / BINARY], check=True)
    for name in ("COPYING", "COPYING.LIB", "LICENSE"):
        shutil.copy2(source / name, result / name)
    return result


def compiler(work: Path, environment: dict[str, str]) -> list[str]:
    """Options to compile through ccache in a folder, if there is one: another checkout may have."""
    if not shutil.which("ccache"):
        return []
    # Paths below it are hashed as relative ones.
    environment["CCACHE_BASEDIR"] = str(work)
    return ["--cc=ccache cc"]


def options(source: Path) -> list[str]:
    """What this release's configure knows of OPTIONS."""
    # It leaves files where it runs.
    known = subprocess.run(
        ["sh", source.resolve() / "configure", "--help"],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    return OPTIONS + (["--disable-download"] if "disable-download" in known else [])


def static_libraries() -> dict[str, str]:
    """Where the compiler finds each library to link, so that the result needs none of them."""
    found = {}
    for name in ("libglib-2.0.a", "libgmodule-2.0.a", "libpcre2-8.a", "libz.a"):
        said = subprocess.run(
            ["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        )
        path = said.stdout.strip()
        if not Path(path).is_absolute():
            raise BuildError(f"{name} not found; install Debian's libglib2.0-dev and zlib1g-dev")
        found[name] = path
    return found


def write_packages(folder: Path, libraries: dict[str, str]) -> None:
    """Descriptions for pkg-config that name the static libraries only."""
    flags = subprocess.run(
        ["pkg-config", "--cflags", "glib-2.0"], capture_output=True, text=True, check=True
    ).stdout.strip()
    version = subprocess.run(
        ["pkg-config", "--modversion", "glib-2.0"], capture_output=True, text=True, check=True
    ).stdout.strip()
    glib = [libraries[name] for name in ("libgmodule-2.0.a", "libglib-2.0.a", "libpcre2-8.a")]
    folder.mkdir()
    for name in GLIB:
        (folder / f"{name}.pc").write_text(
            f"Name: {name}\nDescription: static\nVersion: {version}\n"
            f"Libs: {' '.join(glib)} -pthread -lm\nCflags: {flags} -pthread\n"
        )
    (folder / "zlib.pc").write_text(
        f"Name: zlib\nDescription: static\nVersion: 1.2.13\nLibs: {libraries['libz.a']}\nCflags:\n"
    )


def compile_all(
    objects: Path, environment: dict[str, str], out: TextIO, progress: Progress
) -> None:
    """Runs ninja, telling how far it is."""
    command = [str(beside_python("ninja")), BINARY]
    with subprocess.Popen(
        command, cwd=objects, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace",
    ) as ninja:  # fmt: skip
        for line in ninja.stdout or ():
            out.write(line)
            if found := re.match(r"\[(\d+)/(\d+)\]", line):
                progress.share("compiling", int(found[1]), int(found[2]))
    if ninja.returncode:
        raise BuildError(f"{failure(Path(out.name))}\nAll of it is in {out.name}")


def run(command: list[str], folder: Path, environment: dict[str, str], out: TextIO) -> None:
    """Runs a step into the log."""
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT, check=False
    )
    if done.returncode:
        raise BuildError(f"{failure(Path(out.name))}\nAll of it is in {out.name}")


def failure(log: Path) -> str:
    """The lines of a log that say what went wrong."""
    lines = log.read_text(errors="replace").splitlines()
    errors = [line for line in lines if re.search(r"\b(ERROR|error|FAILED)\b", line)]
    return "\n".join(errors[-5:] or lines[-5:])


def describe(binary: Path, archive: Path, *, pinned: bool) -> dict[str, object]:
    """What was built, of what, and what it needs."""
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"version (\d+\.\d+\.\d+)", said.stdout)
    if not found:
        raise BuildError(f"what was built does not run: {said.stderr.strip()}")
    glibc, libraries = needs(binary)
    unexpected = libraries - {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
    if unexpected:
        raise BuildError(f"what was built needs {', '.join(sorted(unexpected))}")
    return {
        "version": found[1],
        "archive": archive.name,
        "sha256": digest(archive),
        "pinned": pinned,
        "glibc": ".".join(map(str, glibc)),
        "portable": glibc <= NEWEST_GLIBC,
    }


def needs(binary: Path) -> tuple[tuple[int, ...], set[str]]:
    """The oldest glibc it runs with, and the libraries it loads."""
    symbols = subprocess.run(["objdump", "-T", binary], capture_output=True, text=True, check=True)
    versions = re.findall(r"GLIBC_(\d+(?:\.\d+)+)", symbols.stdout)
    header = subprocess.run(["objdump", "-p", binary], capture_output=True, text=True, check=True)
    libraries = set(re.findall(r"NEEDED\s+(\S+)", header.stdout))
    return max(tuple(map(int, version.split("."))) for version in versions), libraries


if __name__ == "__main__":
    sys.exit(main())
