"""Memory file systems, linux/modules: compile them, and run a command in a guest under one."""

from collections.abc import Sequence

from pagelab.errors import PagelabError, unknown
from pagelab.linux import build
from pagelab.linux.layout import Layout
from pagelab.linux.process import capture

# The library the others use; it manages nothing itself.
LIBRARY = "mfs"
# What a memory file system cannot be mounted without.
DEFAULTS = {
    "basicmfs": "size=50%",
    "bwmfs": "weights=1",
    "tieredmfs": "local=20%,remote=40%",
}
# The kernel parameter without which processes keep Linux's own memory management.
APPEND = "fbmm=on"


def names(layout: Layout) -> list[str]:
    """The memory file systems there are: the folders of linux/modules that hold one."""
    found = (layout.linux / "modules").glob("*/Kbuild")
    return sorted(path.parent.name for path in found if path.parent.name != LIBRARY)


def parse(layout: Layout, text: str) -> tuple[str, str]:
    """`basicmfs:size=1G` to the name and the mount options.

    Raises:
        UsageError: there is no such memory file system; lists those there are.

    """
    name, _, options = text.partition(":")
    if name not in names(layout):
        raise unknown("memory file system", name, names(layout))
    return name, options or DEFAULTS.get(name, "")


def prepare(layout: Layout, debug: tuple[str, ...]) -> dict[str, str]:
    """Compile the modules and the wrapper; where they are, as a guest's environment has it."""
    if "CONFIG_FBMM=y" not in (layout.out(debug) / ".config").read_text().splitlines():
        raise PagelabError(f"the kernel in {layout.out(debug)} has no CONFIG_FBMM: build it again")
    modules = build.build_module(layout, debug, layout.linux / "modules")
    source = layout.linux / "tools" / "fbmm-run.c"
    wrapper = layout.work / "programs" / source.parent.name / source.stem
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    if not wrapper.exists() or wrapper.stat().st_mtime < source.stat().st_mtime:
        capture(["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", wrapper, source])
    return {
        "MANAGERS": str(modules),
        "FBMM_RUN": str(wrapper),
        "WITH_MANAGER": str(layout.linux / "guest" / "with-manager"),
    }


def wrap(
    layout: Layout,
    debug: tuple[str, ...],
    manager: str,
    command: Sequence[str],
    *,
    check: bool = False,
) -> list[str]:
    """The command that runs `command` in a guest with that memory file system as default.

    With `check` it fails if memory is in use when the command has ended, or if the file system
    and its modules cannot be removed.
    """
    name, options = parse(layout, manager)
    where = prepare(layout, debug)
    flags = ["--check"] if check else []
    return [
        *("sh", where["WITH_MANAGER"], *flags),
        *(where["MANAGERS"], where["FBMM_RUN"], name, options),
        *command,
    ]
