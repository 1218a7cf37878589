"""Memory file systems, linux/modules: compile them, and run a command in a guest under one."""

import string
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from pagelab.errors import unknown
from pagelab.linux import build
from pagelab.linux.layout import Layout

# The library the others use; it manages nothing itself.
LIBRARY = "mfs"
# The kernel parameter without which processes keep Linux's own memory management.
APPEND = "fbmm=on"


class Kind(BaseModel):
    """A memory file system: mount options, nodes it needs, and the mounts to be tested.

    `tests` have fields such as {pool} for the sizes that a test gives, in MB.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    options: str = ""
    nodes: int = 1
    tests: tuple[str, ...]


@cache
def _read(path: Path) -> dict[str, Kind]:
    table = tomllib.loads(path.read_text())
    return {name: Kind.model_validate(entry) for name, entry in table.items()}


def kinds(layout: Layout) -> dict[str, Kind]:
    """The memory file systems there are, by name: linux/modules/managers.toml."""
    return _read(layout.linux / "modules" / "managers.toml")


def names(layout: Layout) -> list[str]:
    """Their names, sorted."""
    return sorted(kinds(layout))


def mounts(layout: Layout, sizes: Mapping[str, int]) -> list[str]:
    """Mounts that a test is run under, as `NAME:OPTIONS`: every one whose sizes it gives."""
    found = []
    for name, kind in kinds(layout).items():
        for options in kind.tests:
            fields = {field for _, field, _, _ in string.Formatter().parse(options) if field}
            if fields <= set(sizes):
                found.append(f"{name}:{options.format(**sizes)}".rstrip(":"))
    return found


def parse(layout: Layout, text: str) -> tuple[str, str]:
    """`basicmfs:size=1G` to the name and the mount options.

    Raises:
        UsageError: there is no such memory file system; lists those there are.

    """
    name, _, options = text.partition(":")
    if name not in names(layout):
        raise unknown("memory file system", name, names(layout))
    return name, options or kinds(layout)[name].options


def nodes(layout: Layout, text: str) -> int:
    """Number of nodes that the machine must have for it."""
    return kinds(layout)[parse(layout, text)[0]].nodes


def prepare(layout: Layout, debug: tuple[str, ...]) -> dict[str, str]:
    """Compile the modules and the wrapper; where they are, as a guest's environment has it."""
    build.need_designs(layout, debug, APPEND)
    modules = build.build_module(layout, debug, layout.linux / "modules")
    wrapper = build.build_program(layout, layout.linux / "tools" / "fbmm-run.c")
    return {
        "MANAGERS": str(modules),
        "FBMM_RUN": str(wrapper),
        "MOUNTS": " ".join(mounts(layout, {"pool": 128, "local": 8, "low": 16})),
        "WITH_MANAGER": str(layout.linux / "guest" / "with-manager"),
    }


def wrap(
    layout: Layout,
    prepared: Mapping[str, str],
    manager: str,
    command: Sequence[str],
    *,
    check: bool = False,
) -> list[str]:
    """The command that runs `command` in a guest with that memory file system as default.

    `prepared` is what prepare() returned. With `check` it fails if memory is in use when the
    command has ended, or if the file system and its modules cannot be removed.
    """
    name, options = parse(layout, manager)
    flags = ["--check"] if check else []
    return [
        *("sh", prepared["WITH_MANAGER"], *flags),
        *(prepared["MANAGERS"], prepared["FBMM_RUN"], name, options),
        *command,
    ]
