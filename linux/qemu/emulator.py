"""Builds QEMU's system emulation with a processor that walks a distributed page table.

Run by `make linux-qemu`. The source is the one that packaging/qemu pins, fetched and checked as
there; the C files here and patches/ are added, and only the devices of the laboratory's guests
are compiled. The result is put in place as the last step: build/qemu-system/current.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "packaging" / "qemu"))
import build as qemu  # noqa: E402

BUILD = ROOT / "build" / "qemu-system"
BINARY = "qemu-system-x86_64"
PLACE = Path("target/i386/tcg/system")
FILES = sorted([*HERE.glob("*.c"), *HERE.glob("*.h")])
PATCHES = sorted((HERE / "patches").glob("*.patch"))
DEVICES = HERE / "devices.mak"

OPTIONS = [
    "--target-list=x86_64-softmmu",
    "--without-default-features",
    "--without-default-devices",
    "--with-devices-x86_64=pagelab",
    "--enable-tcg",
    "--enable-plugins",
    "--enable-attr",
    "--enable-virtfs",
    "--disable-user",
    "--disable-tools",
    "--disable-docs",
    "--disable-werror",
    "--disable-install-blobs",
    "--disable-debug-info",
    "--disable-download",
]


def main() -> int:
    """Builds it unless it is there."""
    progress = qemu.Progress()
    BUILD.mkdir(parents=True, exist_ok=True)
    release = qemu.releases()[0]
    parts = [*FILES, *PATCHES, DEVICES]
    recipe = hashlib.sha256(
        b"".join([*(part.read_bytes() for part in parts), " ".join(OPTIONS).encode()])
    ).hexdigest()[:12]
    place = BUILD / f"{release.version}-{recipe}"
    try:
        with qemu.only_one(progress):
            if not (place / BINARY).is_file():
                qemu.check_tools()
                archive = qemu.download(release, None, progress)
                qemu.check(archive, release, by_apt=True)
                with tempfile.TemporaryDirectory(prefix="work-", dir=BUILD) as work:
                    binary = _compile(Path(work), archive, progress)
                    place.mkdir(exist_ok=True)
                    shutil.copy2(binary, place / f"{BINARY}.new")
                    (place / f"{BINARY}.new").rename(place / BINARY)
                progress.close(f"built {place / BINARY}")
            link = BUILD / "current.new"
            link.unlink(missing_ok=True)
            link.symlink_to(place.name)
            link.replace(BUILD / "current")
    except qemu.BuildError as error:
        progress.close(f"not built: {error}")
        return 1
    print(BUILD / "current" / BINARY)
    return 0


def _compile(work: Path, archive: Path, progress: qemu.Progress) -> Path:
    progress.step("unpacking")
    source, objects = work / "source", work / "objects"
    source.mkdir()
    objects.mkdir()
    source = qemu.unpack(archive, source, PATCHES)
    for file in FILES:
        shutil.copy2(file, source / PLACE / file.name)
    devices = source / "configs" / "devices" / "x86_64-softmmu"
    devices.mkdir(exist_ok=True)
    shutil.copy2(DEVICES, devices / "pagelab.mak")
    # Debian's archive has no firmware; guests use that of the system's QEMU.
    (source / "pc-bios" / "meson.build").write_text("roms = []\n")
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment["CFLAGS"] = qemu.CFLAGS
    configure = [str(source / "configure"), f"--python={sys.executable}", *OPTIONS]
    configure += qemu.compiler(work, environment)
    log = BUILD / "build.log"
    with log.open("w") as out:
        progress.step("configuring")
        qemu.run(configure, objects, environment, out)
        progress.step("compiling, some minutes")
        ninja = str(qemu.beside_python("ninja"))
        qemu.run([ninja, BINARY], objects, environment, out)
    return objects / BINARY


if __name__ == "__main__":
    sys.exit(main())
