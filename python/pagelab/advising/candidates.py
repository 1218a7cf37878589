"""Settings that a user can have for one program without building it anew, and root for all."""

import mmap
import os
import platform
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pagelab import advice, files
from pagelab.advising.resident import Look
from pagelab.measuring.kernel_settings import only
from pagelab.measuring.native import Policy

# The C library asks the kernel for huge pages where these are only for who asks (glibc 2.35).
_ASKING = "glibc.malloc.hugetlb=1"
# And takes them from the pool that was reserved at boot or by vm.nr_hugepages.
_POOL = "glibc.malloc.hugetlb=2"
# The heap grows by so much at once instead of 132 KiB, so that faults find whole huge pages in it.
_STEP = 64 << 20
_GROWING = f"glibc.malloc.top_pad={_STEP}"
# Freed memory stays with the program, also large blocks: 32 MiB is the most that a heap takes
# (mallopt(3), M_MMAP_THRESHOLD).
_KEEPING = f"glibc.malloc.mmap_threshold={32 << 20}:glibc.malloc.trim_threshold={1 << 40}"
_ONE_HEAP = "glibc.malloc.arena_max=1"
_RESERVED = Path("/proc/sys/vm/nr_hugepages")
_NODES = Path("/sys/devices/system/node/has_memory")
_HUGE_PAGE = 2 << 20
# khugepaged looks at a program every ten seconds (scan_sleep_millisecs).
_SEEN_BY_KHUGEPAGED = 10.0

UNCHANGED = "unchanged"


@dataclass(frozen=True)
class Candidate:
    """A setting: variables to add to the environment, and the policy of its memory.

    `kernel` has settings of the whole system, which are root's, as the probe names them.
    """

    name: str
    words: str
    environment: dict[str, str] = field(default_factory=dict)
    policy: Policy = "own"
    kernel: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        """As it stands in the file of an advice."""
        return {
            "name": self.name,
            "environment": self.environment,
            "policy": self.policy,
            "kernel": list(self.kernel),
        }


@dataclass(frozen=True)
class Unavailable:
    """A setting that cannot be had here, and why."""

    name: str
    why: str


@dataclass(frozen=True)
class Allowed:
    """Settings of the whole system that may be tried: page sizes between 4K and 2M, and others."""

    sizes: Sequence[str] = ()
    others: bool = False


def of(
    command: list[str],
    look: Look,
    allowed: Allowed = Allowed(),
    seconds: float = 0.0,
    more: Sequence[Candidate | Unavailable] = (),
) -> tuple[list[Candidate], list[Unavailable]]:
    """Settings to try on a program, and those that this machine or program does not have.

    `look` is at a first run, which took so many `seconds`; `more` are others to try.
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
    found += _of_go(command)
    found.append(
        Candidate("malloc: keeps memory", "malloc keeps what is freed", _tunables(_KEEPING))
    )
    if look.threads > 1:
        found.append(Candidate("malloc: one heap", "threads share one heap", _tunables(_ONE_HEAP)))
    if several_nodes():
        words = "its memory is spread over all nodes"
        found.append(Candidate("NUMA: interleaved", words, policy="interleaved"))
    if look.code >= _HUGE_PAGE:
        found.append(
            Candidate(
                "code: huge pages",
                "its code is in huge pages",
                {**preloaded(), "PAGELAB_CODE": "huge"},
            )
        )
    found += _of_the_system(mode, look, allowed, seconds)
    if _reserved():
        words = f"malloc takes the {_reserved()} huge pages that are reserved"
        found.append(Candidate("reserved huge pages", words, _tunables(_POOL)))
    elif not allowed.others:
        missing.append(Unavailable("reserved huge pages", f"{_RESERVED} is 0"))
    why = None
    if look.allocator is not None:
        why = f"the program's allocator is {look.allocator}"
    elif platform.libc_ver()[0] != "glibc":
        why = "the C library is not glibc"
    if why:
        useless = [one for one in found if "GLIBC_TUNABLES" in one.environment]
        missing += [Unavailable(one.name, why) for one in useless]
        found = [one for one in found if one not in useless]
    if look.allocator is not None and mode == "madvise":
        found += _of_allocator(look.allocator)
    found += [one for one in more if isinstance(one, Candidate)]
    missing += [one for one in more if isinstance(one, Unavailable)]
    return found, missing


def several_nodes() -> bool:
    """True if memory is on more than one NUMA node."""
    try:
        return not _NODES.read_text(encoding="ascii").strip().isdigit()
    except OSError:
        return False


def preloaded() -> dict[str, str]:
    """The variable by which a program has the library of allocation sites and of code."""
    before = os.environ.get("LD_PRELOAD")
    library = str(files.preloaded())
    return {"LD_PRELOAD": f"{library}:{before}" if before else library}


def _of_the_system(mode: str, look: Look, allowed: Allowed, seconds: float) -> Iterator[Candidate]:
    """Settings that are root's, for all programs."""
    asking = _tunables(_ASKING) if mode == "madvise" else {}
    if mode != "never":
        for size in allowed.sizes:
            words = f"the kernel gives pages of {size}"
            yield Candidate(f"{size} pages", words, asking, kernel=(only(size),))
    if not allowed.others:
        return
    everywhere = ("thp=always",)
    if mode != "always":
        yield Candidate("THP: always", "all memory has huge pages", kernel=everywhere)
    yield Candidate(
        "THP: compacting",
        "all memory has huge pages, and faults move other memory away for them",
        kernel=(*everywhere, "thp-defrag=always"),
    )
    if seconds > _SEEN_BY_KHUGEPAGED:
        yield Candidate(
            "khugepaged: full",
            "all memory has huge pages, and khugepaged makes them of whole ranges only",
            kernel=(*everywhere, "thp-max-ptes-none=0"),
        )
    if not _reserved():
        pages = look.found.peak // _HUGE_PAGE + _STEP // _HUGE_PAGE
        words = f"malloc takes huge pages, of which {pages} are reserved"
        reserved = (f"huge-pages={pages}",)
        yield Candidate("reserved huge pages", words, _tunables(_POOL), kernel=reserved)


def _for_who_asks(command: list[str]) -> Iterator[Candidate]:
    yield Candidate("malloc: huge pages", "malloc asks for huge pages", _tunables(_ASKING))
    yield Candidate(
        "malloc: huge, steps",
        f"malloc asks for huge pages and its heap grows by {_STEP >> 20} MiB at once",
        _tunables(f"{_ASKING}:{_GROWING}"),
    )
    yield from _of_runtime(command)


def _for_all() -> Iterator[Candidate]:
    yield Candidate("no huge pages", "it has no huge pages", policy="none")
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


def _of_go(command: list[str]) -> Iterator[Candidate]:
    """Variables of Go's runtime (package runtime, "Environment Variables"), which has no malloc."""
    if not _built_by_go(shutil.which(command[0]) or command[0]):
        return
    if "GOGC" not in os.environ:
        words = "Go's heap may grow to three times what is used, not two, before it is collected"
        yield Candidate("Go: larger heap", words, {"GOGC": "200"})
    lazily = {"GODEBUG": f"{os.environ.get('GODEBUG', '')},madvdontneed=0".lstrip(",")}
    yield Candidate("Go: frees lazily", "Go's free pages stay until the kernel wants them", lazily)


def _built_by_go(program: str) -> bool:
    """True if a file has what Go's linker leaves in each program (debug/buildinfo)."""
    with (
        suppress(OSError, ValueError),
        Path(program).open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
    ):
        return mapped.find(b"\xff Go buildinf:") >= 0
    return False


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
