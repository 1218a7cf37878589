"""Folders of the laboratory's sources and of what it builds from them."""

from dataclasses import dataclass, replace
from pathlib import Path

from pagelab import files
from pagelab.errors import unknown

# Version of the kernel that is built where no other is asked for, and that CI builds.
VERSION = "6.12"


def package(version: str) -> str:
    """The distribution's package of that version's source."""
    return f"linux-source-{version}"


PACKAGE = package(VERSION)


@dataclass(frozen=True)
class Layout:
    """Paths of the laboratory.

    `root` is the checkout, or the installed copy of its linux/ and experiments/. Kernels are built
    in `builds`, build/ of the checkout if none is given, and there in `folder`. `version` is the
    version of Linux, without its stable release.
    """

    root: Path
    folder: str = "linux"
    builds: Path | None = None
    version: str = VERSION

    def of(self, version: str) -> "Layout":
        """The same for another version of Linux, which is built in a folder of its own.

        Raises:
            UsageError: linux/config has nothing for that version; lists those it has.

        """
        if version != VERSION and version not in self.versions():
            raise unknown("version of Linux", version, self.versions())
        folder = "linux" if version == VERSION else f"linux-{version}"
        return replace(self, version=version, folder=folder)

    def versions(self) -> list[str]:
        """Versions that can be built: each has a folder under linux/config."""
        folders = filter(Path.is_dir, (self.linux / "config").glob("*"))
        return sorted((path.name for path in folders), key=_as_numbers)

    @property
    def linux(self) -> Path:
        """The kernel side of the project: patches, configuration, tests, benchmarks."""
        return self.root / "linux"

    @property
    def patches(self) -> Path:
        """The patch series, one file a commit, listed in the file `series`.

        It is made for one version; another one is built as it is where there is no such folder.
        """
        return self.linux / self._made_for("patches")

    @property
    def source(self) -> Path:
        """The files that the series adds to the kernel, under their paths there."""
        return self.linux / self._made_for("source")

    @property
    def sources(self) -> tuple[Path, ...]:
        """Folders that are searched, the version's own first, then those it shares."""
        shared = self.linux / "source"
        return (self.source,) if self.source == shared else (self.source, shared)

    def _made_for(self, name: str) -> str:
        return name if self.version == VERSION else f"{name}-{self.version}"

    @property
    def package(self) -> str:
        """The distribution's package of the source."""
        return package(self.version)

    @property
    def flags(self) -> str:
        """Options of `pagelab linux build` for it."""
        return "" if self.version == VERSION else f" --kernel {self.version}"

    @property
    def refresh(self) -> str:
        """Command that writes the tree's commits back."""
        return "make linux-refresh" if not self.flags else f"pagelab linux refresh{self.flags}"

    @property
    def work(self) -> Path:
        """Everything built; may be deleted at any time."""
        return self.cache / self.folder

    @property
    def cache(self) -> Path:
        """Folder of which `work` is one."""
        return self.builds or self.root / "build"

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


def find(version: str = VERSION) -> Layout:
    """Layout of the checkout it runs from, or of the installed package and the user's cache.

    Raises:
        PagelabError: the installed package is not whole, or has nothing for that version.

    """
    return Layout(files.linux().parent, builds=files.build()).of(version)


def _as_numbers(version: str) -> list[int]:
    return [int(part) if part.isdecimal() else 0 for part in version.split(".")]
