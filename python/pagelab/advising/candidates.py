"""Settings that a user can have for one program, without root and without building it anew."""

import os
import platform
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pagelab import advice
from pagelab.measuring.given_pages import OWN

# The C library asks the kernel for huge pages where these are only for who asks (glibc 2.35).
_ASKING = "glibc.malloc.hugetlb=1"
# And takes them from the pool that was reserved at boot or by vm.nr_hugepages.
_POOL = "glibc.malloc.hugetlb=2"
# The heap grows by so much at once instead of 132 KiB, so that faults find whole huge pages in it.
_STEP = 64 << 20
_GROWING = f"glibc.malloc.top_pad={_STEP}"
_RESERVED = Path("/proc/sys/vm/nr_hugepages")

UNCHANGED = "unchanged"


@dataclass(frozen=True)
class Candidate:
    """A setting: variables to add to the environment, and whether huge pages are forbidden.

    `size` is that of the kernel's larger pages: 2M, or one between, which is root's to choose.
    """

    name: str
    words: str
    environment: dict[str, str] = field(default_factory=dict)
    no_huge_pages: bool = False
    size: str = OWN

    def as_json(self) -> dict[str, object]:
        """As it stands in the file of an advice."""
        return {
            "name": self.name,
            "environment": self.environment,
            "no_huge_pages": self.no_huge_pages,
            "size": self.size,
        }


@dataclass(frozen=True)
class Unavailable:
    """A setting that cannot be had here, and why."""

    name: str
    why: str


def of(
    command: list[str],
    sizes: Sequence[str] = (),
    allocator: str | None = None,
    more: Sequence[Candidate | Unavailable] = (),
) -> tuple[list[Candidate], list[Unavailable]]:
    """Settings to try on a program, and those that this machine or program does not have.

    `sizes` are those between 4K and 2M that may be set for the whole system; `allocator` is the
    program's, where it has one besides the C library's; `more` are others to try.
    """
    mode = advice.huge_pages() or "never"
    found: list[Candidate] = []
    missing: list[Unavailable] = []
    if mode == "never":
        missing.append(
            Unavailable("huge pages", "they are switched off for all programs (as root: madvise)")
        )
    elif mode == "madvise":
        found += _for_who_asks(command)
    else:
        found += _for_all()
    found += [
        Candidate(
            f"{size} pages",
            f"the kernel gives pages of {size}",
            _tunables(_ASKING) if mode == "madvise" else {},
            size=size,
        )
        for size in sizes
        if mode != "never"
    ]
    if _reserved():
        words = f"malloc takes the {_reserved()} huge pages that are reserved"
        found.append(Candidate("reserved huge pages", words, _tunables(_POOL)))
    else:
        missing.append(Unavailable("reserved huge pages", f"{_RESERVED} is 0"))
    why = None
    if allocator is not None:
        why = f"the program's allocator is {allocator}"
    elif platform.libc_ver()[0] != "glibc":
        why = "the C library is not glibc"
    if why:
        useless = [one for one in found if "GLIBC_TUNABLES" in one.environment]
        missing += [Unavailable(one.name, why) for one in useless]
        found = [one for one in found if one not in useless]
    if allocator is not None and mode == "madvise":
        found += _of_allocator(allocator)
    found += [one for one in more if isinstance(one, Candidate)]
    missing += [one for one in more if isinstance(one, Unavailable)]
    return found, missing


def _for_who_asks(command: list[str]) -> Iterator[Candidate]:
    yield Candidate("malloc: huge pages", "malloc asks for huge pages", _tunables(_ASKING))
    yield Candidate(
        "malloc: huge, steps",
        f"malloc asks for huge pages and its heap grows by {_STEP >> 20} MiB at once",
        _tunables(f"{_ASKING}:{_GROWING}"),
    )
    yield from _of_runtime(command)


def _for_all() -> Iterator[Candidate]:
    yield Candidate("no huge pages", "it has no huge pages", no_huge_pages=True)
    yield Candidate(
        "heap in large steps",
        f"malloc's heap grows by {_STEP >> 20} MiB at once",
        _tunables(_GROWING),
    )


def _of_runtime(command: list[str]) -> Iterator[Candidate]:
    """Switches of what runs the program, where that is one which has its own memory."""
    program = Path(os.path.realpath(shutil.which(command[0]) or command[0])).name
    if program == "java":
        options = _added("JAVA_TOOL_OPTIONS", "-XX:+UseTransparentHugePages")
        yield Candidate("JVM: huge pages", "the JVM's heap asks for huge pages", options)
    if program in ("node", "nodejs"):
        options = _added("NODE_OPTIONS", "--use-largepages=silent")
        yield Candidate("Node: huge code", "Node's code is in huge pages", options)


def _tunables(wanted: str) -> dict[str, str]:
    """The variable with these, and what else the user has set in it."""
    names = {one.partition("=")[0] for one in wanted.split(":")}
    kept = [
        one
        for one in os.environ.get("GLIBC_TUNABLES", "").split(":")
        if one and one.partition("=")[0] not in names
    ]
    return {"GLIBC_TUNABLES": ":".join([*kept, wanted])}


# Variables that have a program's own allocator ask for huge pages: jemalloc(3) `thp`, mimalloc's
# `allow_large_os_pages`.
_OF_ALLOCATOR = {
    "jemalloc": ("MALLOC_CONF", "thp:always", ","),
    "mimalloc": ("MIMALLOC_ALLOW_LARGE_OS_PAGES", "1", None),
}


def _of_allocator(name: str) -> Iterator[Candidate]:
    """The setting by which an allocator other than the C library's asks for huge pages."""
    if name in _OF_ALLOCATOR:
        variable, value, separator = _OF_ALLOCATOR[name]
        before = os.environ.get(variable)
        together = f"{before}{separator}{value}" if before and separator else value
        yield Candidate(f"{name}: huge pages", f"{name} asks for huge pages", {variable: together})


def _added(variable: str, option: str) -> dict[str, str]:
    before = os.environ.get(variable, "")
    return {variable: f"{before} {option}".strip()}


def _reserved() -> int:
    try:
        return int(_RESERVED.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
