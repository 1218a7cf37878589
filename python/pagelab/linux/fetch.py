"""The distribution's kernel source: as its package was installed, or fetched without root."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from pagelab.errors import PagelabError
from pagelab.linux.layout import PACKAGE, Layout
from pagelab.linux.process import capture

_FILE = Path(f"usr/src/{PACKAGE}.tar.xz")
INSTALLED = "/" / _FILE
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
    if INSTALLED.is_file():
        return INSTALLED
    kept = layout.cache / "downloads" / _FILE.name
    if not kept.is_file():
        kept.parent.mkdir(exist_ok=True)
        _fetch(kept, say)
    return kept


def _fetch(kept: Path, say: Callable[[str], None]) -> None:
    """Puts the archive there as the last step, so that an interruption leaves nothing behind."""
    instead = (
        f"Install it with `apt-get install {PACKAGE}`, or name a kernel source with --source DIR"
    )
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise PagelabError(f"{INSTALLED} is missing, and this system has no apt-get. {instead}")
    say(f"fetching {PACKAGE} (150 MB)")
    with tempfile.TemporaryDirectory(prefix="apt-", dir=kept.parent) as work:
        # apt-get checks the distribution's signature. What it says of its progress is not ours.
        done = subprocess.run(
            ["apt-get", "download", PACKAGE], cwd=work, stdout=sys.stderr, check=False
        )
        packages = list(Path(work).glob("*.deb"))
        if done.returncode != 0 or len(packages) != 1:
            raise PagelabError(
                f"{INSTALLED} is missing, and `apt-get download {PACKAGE}` did not get it "
                f"(`apt-get update` may help). {instead}"
            )
        capture(["dpkg-deb", "--extract", packages[0], work])
        (Path(work) / _FILE).replace(kept)
