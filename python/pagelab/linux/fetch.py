"""The distribution's kernel source: as its package was installed, or fetched without root."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from pagelab.errors import PagelabError
from pagelab.linux.layout import Layout
from pagelab.linux.process import capture

# Folder of the distribution's packages, in themselves and once they are installed.
_SOURCES = Path("usr/src")
INSTALLED = "/" / _SOURCES
# The package, the source, one kernel and the compiler's cache.
_ROOM = 4 << 30


def tarball(layout: Layout, say: Callable[[str], None]) -> Path:
    """The archive of the source; a later call finds it where an earlier one has put it.

    Raises:
        PagelabError: it is not installed and cannot be fetched, or there is no room to build it.

    """
    layout.cache.mkdir(parents=True, exist_ok=True)
    if (free := shutil.disk_usage(layout.cache).free) < _ROOM:
        raise PagelabError(
            f"{layout.cache} has {free >> 20} MB left; a kernel takes {_ROOM >> 30} GB with its "
            "source. Make room, or name another folder: XDG_CACHE_HOME"
        )
    name = f"{layout.package}.tar.xz"
    if (INSTALLED / name).is_file():
        return INSTALLED / name
    kept = layout.cache / "downloads" / name
    if not kept.is_file():
        kept.parent.mkdir(exist_ok=True)
        _fetch(layout.package, kept, say)
    return kept


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack a source, an archive or a Debian package that has one, into a folder; where it is.

    Raises:
        PagelabError: it cannot be unpacked, or is not the source of a kernel.

    """
    if archive.suffix == ".deb":
        capture(["dpkg-deb", "--extract", archive, folder / "package"])
        inside = list((folder / "package" / _SOURCES).glob("linux-*.tar*"))
        if len(inside) != 1:
            raise PagelabError(f"{archive} has no archive under {_SOURCES}")
        archive = inside[0]
    (folder / "source").mkdir()
    capture(["tar", "-xf", archive, "-C", folder / "source"])
    found = [path.parent for path in (folder / "source").glob("*/Kbuild")]
    if len(found) != 1:
        raise PagelabError(f"{archive} is not a kernel's source: it has no folder with a Kbuild")
    return found[0]


def _fetch(package: str, kept: Path, say: Callable[[str], None]) -> None:
    """Puts the archive there as the last step, so that an interruption leaves nothing behind."""
    missing = INSTALLED / kept.name
    instead = (
        f"Install it with `apt-get install {package}`, or name a source with --source: a folder, "
        "an archive, or a .deb"
    )
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise PagelabError(f"{missing} is missing, and this system has no apt-get. {instead}")
    say(f"fetching {package} (150 MB)")
    with tempfile.TemporaryDirectory(prefix="apt-", dir=kept.parent) as work:
        # apt-get checks the distribution's signature. What it says of its progress is not ours.
        done = subprocess.run(
            ["apt-get", "download", package], cwd=work, stdout=sys.stderr, check=False
        )
        packages = list(Path(work).glob("*.deb"))
        if done.returncode != 0 or len(packages) != 1:
            raise PagelabError(
                f"{missing} is missing, and `apt-get download {package}` did not get it "
                f"(`apt-get update` may help). {instead}"
            )
        capture(["dpkg-deb", "--extract", packages[0], work])
        (Path(work) / _SOURCES / kept.name).replace(kept)
