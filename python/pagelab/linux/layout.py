"""Where the laboratory keeps its sources and what it builds from them."""

from dataclasses import dataclass
from pathlib import Path

import pagelab
from pagelab.errors import PagelabError

VERSION = "6.12"
PACKAGE = f"linux-source-{VERSION}"


@dataclass(frozen=True)
class Layout:
    """Paths inside one checkout of pagelab; `folder` is where under build/ a kernel is built."""

    root: Path
    folder: str = "linux"

    @property
    def linux(self) -> Path:
        """The kernel side of the project: patches, configuration, tests, benchmarks."""
        return self.root / "linux"

    @property
    def patches(self) -> Path:
        """The patch series, one file a commit, listed in the file `series`."""
        return self.linux / "patches"

    @property
    def work(self) -> Path:
        """Everything built; may be deleted at any time."""
        return self.root / "build" / self.folder

    @property
    def ccache(self) -> Path:
        """The compiler's cache, for all kernels."""
        return self.root / "build" / "linux" / "ccache"

    @property
    def tree(self) -> Path:
        """The kernel source with the series applied, a git repository."""
        return self.work / "tree"

    def out(self, debug: tuple[str, ...] = ()) -> Path:
        """The build directory of the plain kernel, or of one with debug options."""
        return self.work / "-".join(("out", *sorted(debug)))

    def image(self, debug: tuple[str, ...] = ()) -> Path:
        """The bootable kernel image in that directory."""
        return self.out(debug) / "arch" / "x86" / "boot" / "bzImage"


def find() -> Layout:
    """The checkout this package runs from.

    Raises:
        PagelabError: pagelab was installed without its source, which the kernel side needs.

    """
    root = Path(pagelab.__file__).resolve().parents[2]
    if not (root / "linux" / "patches").is_dir():
        raise PagelabError(
            f"no linux/patches under {root}: `pagelab linux` needs a checkout of pagelab, "
            "installed from there (make setup)"
        )
    return Layout(root)
