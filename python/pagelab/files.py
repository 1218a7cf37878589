"""Places of the files that pagelab brings along, and of what it builds from them.

A checkout has them in folders of its own, and builds under `build/`. A wheel has copies in
`pagelab/data/` (packaging/wheel.py puts them there) and builds in the user's cache.
"""

import os
from importlib import resources
from pathlib import Path

from pagelab.errors import PagelabError

_PACKAGE = Path(str(resources.files("pagelab")))
_DATA = _PACKAGE / "data"


def checkout() -> Path | None:
    """The top of the checkout this package runs from; None when a wheel was installed."""
    root = _PACKAGE.parents[1]
    return root if (root / "linux" / "patches").is_dir() and not _DATA.is_dir() else None


def programs() -> Path:
    """The folder of what is compiled: the recorder's QEMU plugin and `pagelab-probe`."""
    return _PACKAGE / "plugins"


def preloaded() -> Path:
    """The library that programs are run with for their allocation sites."""
    return programs() / "libpagelab_preload.so"


def experiments() -> Path:
    """The folder of the published figures, a TOML file or a folder of them a paper."""
    return _brought("experiments")


def linux() -> Path:
    """The kernel side: patches, modules, configuration, tests, benchmarks, guest files."""
    return _brought("linux")


def _brought(name: str) -> Path:
    folder = (checkout() or _DATA) / name
    if not folder.is_dir():
        raise PagelabError(
            f"there is no {folder}: this installation of pagelab is not whole; "
            "install the wheel that `make wheel` builds, or run from a checkout"
        )
    return folder


def build() -> Path:
    """Folder of what takes long to build, and may be deleted at any time.

    `build/` in a checkout, otherwise the user's `cache`.
    """
    if (root := checkout()) is not None:
        return root / "build"
    return cache()


def cache() -> Path:
    """Folder of what is known of this machine, whichever checkout or wheel found it out.

    `pagelab` in $XDG_CACHE_HOME or ~/.cache (XDG Base Directory Specification, which has relative
    paths ignored).
    """
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "pagelab"
