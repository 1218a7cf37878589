"""Where the laboratory keeps its sources and what it builds from them."""

from dataclasses import dataclass
from pathlib import Path

from pagelab import files

VERSION = "6.12"
PACKAGE = f"linux-source-{VERSION}"


@dataclass(frozen=True)
class Layout:
    """Paths of the laboratory.

    `root` is the checkout, or the installed copy of its linux/ and experiments/. Kernels are built
    in `builds`, build/ of the checkout if none is given, and there in `folder`.
    """

    root: Path
    folder: str = "linux"
    builds: Path | None = None

    @property
    def linux(self) -> Path:
        """The kernel side of the project: patches, configuration, tests, benchmarks."""
        return self.root / "linux"

    @property
    def patches(self) -> Path:
        """The patch series, one file a commit, listed in the file `series`."""
        return self.linux / "patches"

    @property
    def source(self) -> Path:
        """The files that the series adds to the kernel, under their paths there."""
        return self.linux / "source"

    @property
    def work(self) -> Path:
        """Everything built; may be deleted at any time."""
        return self.cache / self.folder

    @property
    def cache(self) -> Path:
        """What `work` is a folder of."""
        return self.builds or self.root / "build"

    @property
    def ccache(self) -> Path:
        """The compiler's cache, for all kernels."""
        return self.cache / "linux" / "ccache"

    @property
    def tree(self) -> Path:
        """The kernel source with the series applied, a git repository."""
        return self.work / "tree"

    @property
    def emulator(self) -> Path:
        """QEMU with a processor that walks a distributed page table: `make linux-qemu`."""
        return self.cache / "qemu-system" / "current" / "qemu-system-x86_64"

    def out(self, debug: tuple[str, ...] = ()) -> Path:
        """The build directory of the plain kernel, or of one with debug options."""
        return self.work / "-".join(("out", *sorted(debug)))

    def image(self, debug: tuple[str, ...] = ()) -> Path:
        """The bootable kernel image in that directory."""
        return self.out(debug) / "arch" / "x86" / "boot" / "bzImage"


def find() -> Layout:
    """Of the checkout this package runs from, or of the installed package and the user's cache.

    Raises:
        PagelabError: the installed package is not whole.

    """
    return Layout(files.linux().parent, builds=files.build())
