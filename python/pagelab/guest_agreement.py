"""A program in a guest and in the simulator: what memory management did in each.

The kernel's numbers are its own counters (/proc/vmstat, the statistics of each folio size,
getrusage(2)) and the calls of its functions, which a plugin of the emulator counts. The
simulator's are those of the program recorded on this machine.
"""

import os
import shlex
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from pagelab import api, pages, units
from pagelab.counts import Os, Reclaim
from pagelab.design import Design
from pagelab.errors import PagelabError, UsageError
from pagelab.linux import guest
from pagelab.linux.build import build_program
from pagelab.linux.layout import Layout
from pagelab.machines import Machine

_SETTINGS = "/sys/kernel/mm/transparent_hugepage"
# Functions of mm/ that are counted: a store to a page that may not be written, of 4 KiB and 2 MiB.
_CALLS = ("do_wp_page", "do_huge_pmd_wp_page")


class Line(BaseModel):
    """A count in the guest and in the simulator."""

    model_config = ConfigDict(extra="forbid")

    name: str
    kernel: int
    simulator: int

    @property
    def difference(self) -> float:
        """Difference relative to the kernel's count, which is not 0."""
        return (self.simulator - self.kernel) / self.kernel


class Agreement(BaseModel):
    """Counts of one program under one setting."""

    model_config = ConfigDict(extra="forbid")

    program: str
    kernel: str
    pages: str
    system: str
    lines: list[Line]

    def table(self) -> str:
        """The counts as a table."""
        head = f"{self.program}, {self.pages} pages, {self.system}, Linux {self.kernel}"
        rows = [f"{'':<28}{'kernel':>12}{'simulator':>12}{'':>10}"]
        for line in self.lines:
            told = f"{line.difference:+.1%}" if line.kernel else ""
            rows.append(f"{line.name:<28}{line.kernel:>12,}{line.simulator:>12,}{told:>10}")
        return "\n".join([head, *rows])


@dataclass(frozen=True)
class _Count:
    """A count by name: what it is in the guest's counters, and in the simulator's."""

    name: str
    kernel: Callable[[Mapping[str, int]], int]
    simulator: Callable[[Os], int]


def _folios(order: int) -> Callable[[Mapping[str, int]], int]:
    name = f"hugepages-{4 << order}kB/stats/anon_fault_alloc"
    return lambda counters: counters.get(name, 0)


def _reclaim(count: str) -> Callable[[Os], int]:
    return lambda run: getattr(run.reclaim or Reclaim(), count)


_COUNTS = [
    _Count("faults", lambda at: at["minor"] + at["major"], lambda run: run.faults),
    _Count(
        "read-only pages copied",
        lambda at: at["do_wp_page"] - at["pgreuse"],
        lambda run: run.cow_copies - run.file_copies,
    ),
    _Count(
        "read-only pages kept",
        # A page of 2 MiB that is not kept is split; other splits are few where programs fork.
        lambda at: at["pgreuse"] + max(at["do_huge_pmd_wp_page"] - at["thp_split_pmd"], 0),
        lambda run: run.cow_reuses,
    ),
    _Count("2 MiB pages", _folios(9), lambda run: run.anonymous.large),
    _Count(
        "2 MiB mappings split",
        lambda at: at["thp_split_pmd"],
        lambda run: run.splits.large,
    ),
    _Count("collapsed", lambda at: at["thp_collapse_alloc"], lambda run: run.collapsed),
    _Count("pages swapped out", lambda at: at["pswpout"], _reclaim("swapped_out")),
    _Count("pages swapped in", lambda at: at["pswpin"], _reclaim("swapped_in")),
    _Count(
        "files' pages read again",
        lambda at: at["workingset_refault_file"],
        _reclaim("files_read"),
    ),
]


def compare(
    where: Layout,
    machine: guest.Machine,
    command: list[str],
    size: str,
    system: str,
    memory_max: int | None = None,
) -> Agreement:
    """Runs a program in a guest and in the simulator, with page sizes and an operating system.

    `machine` is as `pagelab linux run` has it, with one CPU; `memory_max` is bytes that the program
    may have, with swap for the rest.

    Raises:
        PagelabError: the program failed in one of the two, or its counts could not be had.

    """
    size = pages.parse(size)
    if size in ("1G", *pages.CONDITIONAL):
        raise UsageError(f"{size} pages cannot be compared: give 4K, 64K, 2M or several (2M+64K)")
    counted = _in_guest(where, machine, command, size, memory_max)
    if memory_max is not None:
        system = f"{system}:max_bytes={memory_max}"
    simulated = _in_simulator(command, machine.memory, size, system)
    lines = [
        Line(name=one.name, kernel=one.kernel(counted), simulator=one.simulator(simulated))
        for one in _COUNTS
    ]
    lines = [line for line in lines if line.kernel or line.simulator]
    return Agreement(
        program=Path(command[0]).name,
        kernel=where.version,
        pages=size,
        system=system,
        lines=lines,
    )


def limits(memory_max: int, megabytes: int) -> list[str]:
    """Commands that put a guest's shell into a cgroup of so much memory, with swap on zram."""
    group = "/tmp/cgroup"
    return [
        f"mkdir -p {group}",
        f"mount -t cgroup2 none {group}",
        f"echo +memory >{group}/cgroup.subtree_control",
        f"echo {megabytes}M >/sys/block/zram0/disksize",
        "mkswap /dev/zram0 >/dev/null",
        "swapon /dev/zram0",
        f"mkdir {group}/program",
        f"echo {memory_max} >{group}/program/memory.max",
        f"echo $$ >{group}/program/cgroup.procs",
    ]


def _in_guest(
    where: Layout,
    machine: guest.Machine,
    command: list[str],
    size: str,
    memory_max: int | None,
) -> dict[str, int]:
    files = where.linux / "guest"
    plugin = build_program(where, files / "calls.c", "-shared", "-fPIC")
    counters = build_program(where, files / "counters.c", "-static")
    places = addresses(machine.image)
    machine = replace(
        machine,
        plugin=plugin,
        plugin_options=tuple(f"at={address:x}" for address in places.values()),
    )
    sizes = {f"hugepages-{units.parse_size(one) >> 10}kB" for one in size.split("+") if one != "4K"}
    # khugepaged looks once when it starts, and then not for an hour.
    settings = [
        "set -e",
        f"echo never >{_SETTINGS}/enabled",
        f"echo 3600000 >{_SETTINGS}/khugepaged/scan_sleep_millisecs",
    ]
    settings += [f"echo always >{_SETTINGS}/{one}/enabled" for one in sorted(sizes)]
    if memory_max is not None:
        settings += limits(memory_max, machine.memory)
    script = "; ".join([*settings, f"exec {shlex.join([str(counters), *command])}"])
    # A command of the PATH is the program that is recorded here.
    path = os.environ.get("PATH", os.defpath)
    result = guest.run(machine, ["sh", "-c", script], env={"PATH": path})
    if result.ending is not guest.Ending.EXIT or result.status:
        said = result.stderr.decode(errors="replace").strip()
        raise PagelabError("\n".join(filter(None, [f"in the guest {result.describe()}", said])))
    before, after = (numbers(result.files[name].decode()) for name in ("before", "after"))
    counted = {name: number - before.get(name, 0) for name, number in after.items()}
    counted |= numbers(result.files["faults"].decode())
    calls = result.files[guest.COUNTS].split()
    return counted | dict(zip(places, map(int, calls), strict=True))


def numbers(text: str) -> dict[str, int]:
    """Lines of a name and a number."""
    pairs = (line.rsplit(maxsplit=1) for line in text.splitlines())
    return {name: int(number) for name, number in pairs}


def addresses(image: Path) -> dict[str, int]:
    """Addresses of the functions that are counted; the kernel's place is not random."""
    symbols = next(
        (folder / "System.map" for folder in image.parents if (folder / "System.map").exists()),
        None,
    )
    if symbols is None:
        raise PagelabError(
            f"{image} has no System.map beside it: build it by `pagelab linux build`"
        )
    found = {}
    for line in symbols.read_text().splitlines():
        address, _, name = line.split(maxsplit=2)
        if name in _CALLS:
            found[name] = int(address, 16)
    if missing := set(_CALLS) - set(found):
        raise PagelabError(f"this kernel has no function {', '.join(sorted(missing))}: {symbols}")
    return found


def _in_simulator(command: list[str], megabytes: int, size: str, system: str) -> Os:
    with tempfile.TemporaryDirectory(prefix="pagelab-agree-") as folder:
        recorded = api.record(command, Path(folder) / "program.trace", follow_exec=True)
        if recorded.incomplete:
            raise PagelabError(f"the recording is not whole: {recorded.incomplete}")
        machine = Machine("zen3").memory(memory_bytes=f"{megabytes}MiB", zero_page=True)
        # The emulated processor flushes its TLB often: accessed bits are set again soon.
        machine = machine.set("tlb.l2_4k.entries=64", "tlb.l2_4k.ways=4")
        design = Design("radix", pages=size, system=system)
        run = api.simulate(recorded, design, machine=machine)
    if run.stopped:
        raise PagelabError(f"the simulation ended early: {run.stopped}")
    return run.os
