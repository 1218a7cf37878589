"""Suites that run inside guests: linux/tests/*/suite.toml and linux/bench/*/suite.toml.

A suite is a folder with a suite.toml that lists its programs. A program in C is compiled on the
host; the guest sees the host's files, so it runs it from there. Exit status 0 is a pass and 4 a
skip, as in the kernel's own selftests; anything else, and any ending of the guest other than
the command's exit, is a failure. The kernel's selftests do not all pass on every machine: an
entry with `compare` fails in a boot if something fails there that did not in its first boot.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pagelab.errors import PagelabError, unknown
from pagelab.linux import build, guest, manager
from pagelab.linux.layout import VERSION, Layout, find

KSFT_SKIP = 4


class Entry(BaseModel):
    """One program of a suite and the guest it wants.

    `program` is a file of the folder, or selftests/mm/NAME for one of the kernel's own; `cflags`
    are what the compiler is told besides. An argument "$NAME.c", or "$selftests/mm/NAME", is a
    program to compile, too.
    `append` lists the boots to run it in, and `manager` the memory file systems, "" for none: a
    guest for each pair. `managers` adds all that linux/modules/managers.toml lists, with these
    sizes. After a run under one, nothing of its memory may be left. `icount` makes
    the guest's clock count instructions; `count` is a plugin of linux/guest that counts something
    between the marks in the program, and `count_options` its options beside those it always gets.
    `kernel` is the version of Linux, where it is not the one that pagelab patches.
    `seconds` is how long a test at random goes on, its program's first argument.
    `kvm` skips it under emulation, where its times mean nothing. `processor` lists how the
    processor finds page table entries, "" for as always; a guest each (docs/dpt-linux.md).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    program: str
    cflags: list[str] = []
    args: list[str] = []
    seconds: int | None = Field(default=None, ge=0)
    append: list[str] = Field(default=[""], min_length=1)
    modules: list[str] = []
    manager: list[str] = []
    managers: dict[str, int] = {}
    debug: list[str] = []
    kernel: str = VERSION
    cpus: int = 2
    nodes: int = 1
    memory: int = 1024
    timeout: float = 300.0
    icount: bool = False
    count: Literal["", "count", "nodes", "pages"] = ""
    count_options: list[str] = []
    kvm: bool = False
    compare: bool = False
    processor: list[Literal["", "check", "dpt", "check-each", "dpt-each"]] = Field(
        default=[""], min_length=1
    )

    @property
    def words(self) -> list[str]:
        """All arguments of the program."""
        return self.args if self.seconds is None else [str(self.seconds), *self.args]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    entry: list[Entry]


@dataclass(frozen=True)
class Job:
    """One entry in one boot."""

    folder: Path
    entry: Entry
    append: str
    manager: str = ""
    processor: str = ""

    @property
    def name(self) -> str:
        """Unique among all jobs: folder, entry, and the boot's own parameters."""
        base = f"{self.folder.name}/{self.entry.name}"
        version = "" if self.entry.kernel == VERSION else f"Linux {self.entry.kernel}"
        walks = f"walks={self.processor}" if self.processor else ""
        how = " ".join(filter(None, (version, self.append, self.manager, walks)))
        return f"{base} [{how}]" if how else base


class Verdict(StrEnum):
    """Verdict on a job."""

    PASS = "pass"
    SKIP = "skip"
    FAIL = "fail"


# A kernel that checks itself takes longer, and more memory.
_SLOWER = 6
_MORE_MEMORY = 1.5
# Configurations that leave parts of the kernel out do not check.
_LESS = {"small", "no-designs", "no-dpt", "no-page-mapcount"}


def load(
    root: Path, only: list[str], debug: tuple[str, ...] = (), seconds: int | None = None
) -> Iterator[Job]:
    """The jobs under linux/tests or linux/bench; `only` picks folders or folder/entry names.

    With `debug` they run on kernels with these options besides their own. `seconds` replaces the
    duration of those that have one.

    Raises:
        UsageError: `only` names something that does not exist.
        PagelabError: a suite.toml is malformed; names the file, the key and the fault.

    """
    jobs = [job for path in sorted(root.glob("*/suite.toml")) for job in _read(path)]
    names = {f"{job.folder.name}/{job.entry.name}" for job in jobs}
    folders = {job.folder.name for job in jobs}
    for name in only:
        if name not in names | folders:
            raise unknown("suite or entry", name, sorted(names | folders))
    for job in jobs:
        full = f"{job.folder.name}/{job.entry.name}"
        if not only or full in only or job.folder.name in only:
            job = _debugged(job, debug) if debug else job
            yield job if seconds is None else _lasting(job, seconds)


def _debugged(job: Job, debug: tuple[str, ...]) -> Job:
    entry = job.entry
    changed: dict[str, object] = {"debug": sorted({*entry.debug, *debug})}
    if set(debug) - _LESS:
        changed["timeout"] = entry.timeout * _SLOWER
        changed["memory"] = round(entry.memory * _MORE_MEMORY)
    return replace(job, entry=entry.model_copy(update=changed))


def _lasting(job: Job, seconds: int) -> Job:
    entry = job.entry
    if entry.seconds is None:
        return job
    # The slow end of a run has as much time as before.
    timeout = entry.timeout + max(0, seconds - entry.seconds)
    return replace(job, entry=entry.model_copy(update={"seconds": seconds, "timeout": timeout}))


@dataclass(frozen=True)
class Prepared:
    """A guest and what it is to run. `layout` is of the job's own version."""

    layout: Layout
    machine: guest.Machine
    command: list[str]
    folder: Path
    env: dict[str, str]


def prepare(layout: Layout, job: Job) -> Prepared:
    """Compile what the job needs; `layout` is of any version: the job says its own."""
    entry = job.entry
    debug = tuple(entry.debug)
    image = need_kernel(layout, job)
    layout = layout.of(entry.kernel)
    env = {
        f"MODULE_{name.upper()}": str(
            build.build_module(layout, debug, job.folder / name) / f"{name}.ko"
        )
        for name in entry.modules
    }
    env["KERNEL_BUILD"] = str(layout.out(debug))
    command = [*_command(layout, job), *(_argument(layout, job, word) for word in entry.words)]
    if job.manager or manager.APPEND in job.append.split():
        prepared = manager.prepare(layout, debug)
        env |= prepared
        if job.manager:
            command = manager.wrap(layout, prepared, job.manager, command, check=True)
    machine = guest.Machine(
        image=image,
        init=layout.linux / "guest" / "init",
        memory=entry.memory,
        cpus=entry.cpus,
        nodes=entry.nodes,
        append=build.parameters(debug, job.append),
        icount=entry.icount,
        timeout=entry.timeout,
        emulator=need_emulator(layout) if job.processor else None,
        processor=job.processor,
    )
    return Prepared(layout, machine, command, job.folder, env)


def run(layout: Layout, job: Job, *, show: bool = False) -> tuple[Verdict, guest.Result]:
    """Run a job in a guest of its own, and judge how it ended."""
    entry, prepared = job.entry, prepare(layout, job)
    machine = prepared.machine
    if entry.count:
        options = list(entry.count_options)
        if entry.count == "nodes":
            options.append(f"boundary={guest.node_boundary(machine)}")
        source = prepared.layout.linux / "guest" / f"{entry.count}.c"
        plugin = build.build_program(prepared.layout, source, "-shared", "-fPIC")
        machine = replace(machine, plugin=plugin, plugin_options=tuple(options))
    result = guest.run(
        machine,
        prepared.command,
        cwd=prepared.folder,
        env=prepared.env,
        stdout=sys.stdout.buffer if show else None,
        stderr=sys.stderr.buffer if show else None,
    )
    return judge(result), result


def need_kernel(layout: Layout, job: Job) -> Path:
    """The image the job runs on.

    Raises:
        PagelabError: it is not built; says how to. Or it lacks a design that the job asks for.

    """
    image, flags = kernel(layout, job)
    if not image.exists():
        raise PagelabError(f"{job.name} needs a kernel: run `pagelab linux build{flags}` first")
    build.need_designs(layout.of(job.entry.kernel), tuple(job.entry.debug), job.append)
    return image


def kernel(layout: Layout, job: Job) -> tuple[Path, str]:
    """The image the job runs on, built or not, and what `pagelab linux build` is told for it."""
    own = layout.of(job.entry.kernel)
    flags = "".join(f" --debug {name}" for name in job.entry.debug)
    return own.image(tuple(job.entry.debug)), own.flags + flags


def need_emulator(layout: Layout) -> Path:
    """The emulator whose processor walks a distributed page table.

    Raises:
        PagelabError: it is not built; says how to.

    """
    if not layout.emulator.exists():
        raise PagelabError(f"no emulator at {layout.emulator}: run `make linux-qemu` first")
    return layout.emulator


def judge(result: guest.Result) -> Verdict:
    """A guest that warned about itself fails the test even when the program was content."""
    if result.ending is not guest.Ending.EXIT or any(map(_is_alarm, result.console)):
        return Verdict.FAIL
    return {0: Verdict.PASS, KSFT_SKIP: Verdict.SKIP}.get(result.status or 0, Verdict.FAIL)


def regressions(first: guest.Result, result: guest.Result) -> list[str]:
    """Failures of a guest that did not fail, or were not tried, in the first boot's guest.

    A first command that did not end excuses nothing: what it would have said is not known.
    """
    known = set(_failures(first)) if first.status is not None else set()
    return [failure for failure in _failures(result) if failure not in known]


def _failures(result: guest.Result) -> list[str]:
    lines = result.stdout.decode(errors="replace").splitlines()
    # TAP: "not ok 12 description"; the number moves when others are skipped.
    failed = [re.sub(r"^\s*not ok \d+", "not ok", line) for line in lines if "not ok" in line]
    if result.ending is not guest.Ending.EXIT:
        failed.append(f"the guest ended: {result.ending}")
    elif result.status not in (0, KSFT_SKIP) and not failed:
        failed.append(f"exit status {result.status}")
    failed += [line.partition("] ")[2] for line in result.console if _is_alarm(line)]
    return failed


def warned(result: guest.Result) -> list[str]:
    """From the kernel's first warning on, as much as a person is shown; often far from the end."""
    for number, line in enumerate(result.console):
        if _is_alarm(line):
            return result.console[number : number + guest.CONSOLE_LINES]
    return []


def _is_alarm(line: str) -> bool:
    alarms = ("WARNING: ", "BUG: ", "kernel BUG at", "INFO: task ", "possible recursive locking")
    return any(alarm in line for alarm in alarms)


def _read(path: Path) -> Iterator[Job]:
    try:
        content = _File.model_validate(tomllib.loads(path.read_text()))
    except tomllib.TOMLDecodeError as error:
        raise PagelabError(f"{path}: {error}") from error
    except ValidationError as error:
        faults = (
            f"{path}: {'.'.join(map(str, fault['loc']))}: {fault['msg']}"
            for fault in error.errors()
        )
        raise PagelabError("\n".join(faults)) from error
    for entry in content.entry:
        every = manager.mounts(find(), entry.managers) if entry.managers else []
        memories = [*entry.manager, *every] or [""]
        for how in product(entry.append, memories, entry.processor):
            yield Job(path.parent, entry, *how)


def _command(layout: Layout, job: Job) -> list[str]:
    if job.entry.program.startswith("selftests/"):
        return [str(build.build_selftest(layout, job.entry.program))]
    source = job.folder / job.entry.program
    if not source.is_file():
        raise PagelabError(f"{job.folder / 'suite.toml'} names {source.name}, which is not there")
    match source.suffix:
        case ".c":
            return [str(build.build_program(layout, source, *job.entry.cflags))]
        case ".py":
            return ["/usr/bin/python3", str(source)]
        case ".sh":
            return ["sh", str(source)]
        case _:
            raise PagelabError(f"{source}: expected a .c, .py or .sh program")


def _argument(layout: Layout, job: Job, word: str) -> str:
    if word.startswith("$selftests/"):
        return str(build.build_selftest(layout, word.removeprefix("$")))
    if not (word.startswith("$") and word.endswith(".c")):
        return word
    return str(build.build_program(layout, job.folder / word.removeprefix("$")))


def compile_program(layout: Layout, job: Job) -> Path:
    """The job's program, compiled for the guest, which is this machine's for files."""
    return Path(_command(layout, job)[0])
