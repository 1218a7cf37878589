"""Programs in a guest: one after the other, each with its own counts."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pagelab import units
from pagelab.agreeing import stack
from pagelab.agreeing.counts import CALLS
from pagelab.agreeing.program import Program
from pagelab.agreeing.setting import PAGES_TO_SCAN, SCAN_MS, Setting
from pagelab.errors import PagelabError
from pagelab.linux import guest, manager
from pagelab.linux.build import build_program
from pagelab.linux.build import symbols as symbols_of
from pagelab.linux.layout import Layout

_SETTINGS = "/sys/kernel/mm/transparent_hugepage"
# Name of the folder of a run's counters, before its number.
_RUN = "run"
# Status of `counters` for a program that was stopped.
_STOPPED = 124


@dataclass(frozen=True)
class Counted:
    """Counters of one run, or why there are none."""

    counters: dict[str, int]
    status: int | None = None
    failed: str | None = None


@dataclass(frozen=True)
class Laboratory:
    """A kernel, a machine of one CPU, and seconds that each run may take.

    Guests see `inputs`, and begin there; without it in the current folder.
    """

    where: Layout
    machine: guest.Machine
    seconds: int
    debug: tuple[str, ...] = ()
    inputs: Path | None = None

    def count(self, runs: Sequence[tuple[Program, Setting]]) -> list[Counted]:
        """Runs programs in one guest; all settings have the same kernel parameters and manager.

        Each program is run once more before, so that its files are in the page cache and khugepaged
        sleeps. Those that come after one with which the guest ends are run in another guest.
        """
        found: list[Counted] = []
        while len(found) < len(runs):
            some, ending = self._attempt(runs[len(found) :])
            found += some
            if len(found) < len(runs):
                found.append(Counted({}, failed=ending))
        return found

    def _attempt(self, runs: Sequence[tuple[Program, Setting]]) -> tuple[list[Counted], str]:
        """Counts of the first runs, as far as one guest came, and how that ended."""
        files = self.where.linux / "guest"
        plugin = build_program(self.where, files / "calls.c", "-shared", "-fPIC")
        counters = build_program(self.where, files / "counters.c", "-static")
        places = addresses(self.machine.image)
        machine = replace(
            self.machine,
            plugin=plugin,
            plugin_options=tuple(f"at={address:x}" for address in places.values()),
            timeout=60 + 2.5 * self.seconds * len(runs),
        )
        script = _script(counters, runs, machine.memory, self.seconds)
        command = ["sh", "-c", script]
        environment = {}
        if name := runs[0][1].manager:
            environment = manager.prepare(self.where, self.debug)
            command = manager.wrap(self.where, environment, name, command)
        result = guest.run(
            machine, command, cwd=self.inputs, env=environment, stdout=sys.stderr.buffer
        )
        calls = result.files.get(guest.COUNTS, b"").decode().splitlines()
        some = []
        for number, line in enumerate(calls[: len(runs)]):
            if f"{_RUN}{number}/command" not in result.files:
                break
            counts = dict(zip(places, map(int, line.split()), strict=True))
            some.append(_counted(result, number, counts))
        said = result.stderr.decode(errors="replace").strip()
        return some, "\n".join(filter(None, [f"in the guest {result.describe()}", said]))


def _counted(result: guest.Result, number: int, calls: dict[str, int]) -> Counted:
    texts = {
        name: result.files[f"{_RUN}{number}/{name}"].decode()
        for name in ("before", "after", "command")
    }
    before, after, command = (numbers(text) for text in texts.values())
    status = command.pop("status")
    counters = {name: value - before.get(name, 0) for name, value in after.items()}
    failed = "it was stopped in the guest" if status == _STOPPED else None
    return Counted(counters | command | calls, status, failed)


def _script(
    counters: Path, runs: Sequence[tuple[Program, Setting]], megabytes: int, seconds: int
) -> str:
    """Commands of a guest's shell."""
    lines = [
        "set -e",
        "echo 0 >/proc/sys/kernel/randomize_va_space",
        # As much of the host's files is read ahead as with messages of 256 KiB.
        "echo 252 >/sys/class/bdi/9p-1/read_ahead_kb",
        f"echo never >{_SETTINGS}/enabled",
    ]
    memory_max = runs[0][1].memory_max
    if memory_max is not None:
        lines += limits(memory_max, megabytes)
    lines.append("set +e")
    for number, (program, setting) in enumerate(runs):
        lines += [*_pages(setting), *_khugepaged(setting.max_ptes_none)]
        out = f'"$PAGELAB_OUT/{_RUN}{number}"'
        lines.append(shell(program, f"timeout -s KILL {seconds}"))
        lines.append(f"mkdir {out}")
        lines.append(shell(program, f"{counters} {out} {seconds}"))
        lines.append(f"echo {shlex.quote(f'{program.name}, {setting.name}: ran in the guest')}")
    return "\n".join([*lines, "exit 0"])


def _pages(setting: Setting) -> list[str]:
    lines = [f'for size in {_SETTINGS}/hugepages-*; do echo never >"$size/enabled"; done']
    if setting.pages == "madvise":
        lines.append(f"echo madvise >{_SETTINGS}/hugepages-2048kB/enabled")
    elif setting.pages != "4K":
        sizes = [f"hugepages-{units.parse_size(one) >> 10}kB" for one in setting.pages.split("+")]
        lines += [f"echo always >{_SETTINGS}/{one}/enabled" for one in sizes]
    return lines


def _khugepaged(max_ptes_none: int | None) -> list[str]:
    """Commands that let khugepaged work, before whatever else wants the processor; or find nothing.

    It looks at a program when it starts, and then not for an hour.
    """
    asleep = max_ptes_none is None
    values = {
        "max_ptes_none": max_ptes_none or 0,
        "pages_to_scan": 1 if asleep else PAGES_TO_SCAN,
        "scan_sleep_millisecs": 3_600_000 if asleep else SCAN_MS,
    }
    lines = [f"echo {value} >{_SETTINGS}/khugepaged/{name}" for name, value in values.items()]
    return lines if asleep else ["chrt -f -p 1 $(pgrep -x khugepaged)", *lines]


def shell(program: Program, runner: str) -> str:
    """A program under another, with nothing to read, its environment alone and stack's limit."""
    variables = [shlex.quote(f"{name}={value}") for name, value in program.environment.items()]
    command = ["env", "-i", *variables, runner, shlex.join(program.command)]
    lines = []
    if program.folder:
        folder = shlex.quote(str(program.folder))
        lines.append(f"rm -rf {folder}; mkdir -p {folder}; cd {folder}")
    if program.before:
        lines.append(f"env -i {' '.join(variables)} sh -ec {shlex.quote(program.before)}")
    lines.append(f"ulimit -S -s {stack.LIMIT >> 10}")
    lines.append(f"{' '.join(command)} </dev/null >/dev/null 2>&1")
    return f"({'; '.join(lines)})"


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


def numbers(text: str) -> dict[str, int]:
    """Lines of a name and a number."""
    pairs = (line.rsplit(maxsplit=1) for line in text.splitlines())
    return {name: int(number) for name, number in pairs}


def addresses(image: Path) -> dict[str, int]:
    """Addresses of the functions that are counted; the kernel's place is not random."""
    symbols = symbols_of(image)
    if symbols is None:
        raise PagelabError(
            f"{image} has no System.map beside it: build it by `pagelab linux build`"
        )
    found = {}
    for line in symbols.read_text().splitlines():
        address, _, name = line.split(maxsplit=2)
        if name in CALLS:
            found[name] = int(address, 16)
    if missing := set(CALLS) - set(found):
        raise PagelabError(f"this kernel has no function {', '.join(sorted(missing))}: {symbols}")
    return {name: found[name] for name in CALLS}
