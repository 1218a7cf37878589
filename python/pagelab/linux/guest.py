"""Boot a kernel under QEMU on the host's root file system and run one command in it."""

import os
import re
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from pagelab.errors import PagelabError, UsageError
from pagelab.jobs import ended_as_by_interrupt
from pagelab.linux import layout
from pagelab.linux.process import capture

QEMU = "qemu-system-x86_64"
CONSOLE_LINES = 40
# Place at which linux/guest/init mounts the share that carries the command in and its files out.
GUEST_JOB = "/run/pagelab"
GUEST_OUT = f"{GUEST_JOB}/out"
COUNTS = "counts"
# Counts of the emulator's own processor, a JSON object.
WALKS = "walks"
# Its message of walks that differ before it ends the guest: linux/qemu/dpt_check.c.
DIFFERENCE = "dpt: the walks of "
# Ways in which it walks; "-each" translates each access to user data anew.
PROCESSORS = ("check", "dpt", "check-each", "dpt-each")
# Compiled anew for every guest, in a tenth of a second, and started by its init.
GUARD = "oom-guard"
# A parameter of the kernel: no fifth level of page tables.
FOUR_LEVELS = "no5lvl"
# Folders of which a guest has its own, empty and forgotten.
OWN = tuple(map(Path, ("/dev/shm", "/run", "/tmp", "/var/tmp")))
# MB that QEMU's q35 machine has without a hole between; more lies above 4 GB.
LOW_MEMORY = 2048


class Ending(StrEnum):
    """End of a guest."""

    EXIT = "exit"  # the command ended; see its status
    OOM = "out of memory"  # the command ended after the kernel killed something for memory
    PANIC = "panic"  # the kernel gave up
    HANG = "hang"  # the time limit passed
    LOST = "lost"  # QEMU ended without a word from the guest


@dataclass(frozen=True)
class Machine:
    """The virtual machine to start.

    `memory` is in MB, `timeout` in seconds of the host. With `icount` the clock counts the
    instructions of all CPUs, which take turns. CPUs are divided among the nodes; a single
    one is on node 0, and the other nodes have memory only. `plugin` is a QEMU plugin that is told
    out=PATH and `plugin_options`; what it writes there comes back as the result's file COUNTS,
    unless `report` is a pipe for it, which is closed when the guest has it.
    `emulator` is a QEMU of our own whose processor walks a distributed page table, and `processor`
    how, one of PROCESSORS (docs/dpt-linux.md); what it counted comes back as the file WALKS.
    `message` is the most that the host's files are read by at once, in bytes. It is what they say
    of their blocks, too (st_blksize). With `icount` an instruction takes 2^`shift` ns.
    """

    image: Path
    init: Path
    memory: int = 2048
    cpus: int = 2
    nodes: int = 1
    append: str = ""
    icount: bool = False
    plugin: Path | None = None
    plugin_options: tuple[str, ...] = ()
    report: BinaryIO | None = None
    accel: str = "auto"
    timeout: float = 600.0
    emulator: Path | None = None
    processor: str = ""
    message: int = 1 << 18
    shift: int = 0

    def __post_init__(self) -> None:
        """Refuse what QEMU would refuse later and less clearly."""
        if self.cpus < 1 or self.nodes < 1 or self.memory < 64:
            raise UsageError("a guest needs at least 1 CPU, 1 node and 64 MB")
        if self.cpus > 1 and self.cpus % self.nodes:
            raise UsageError(f"{self.cpus} CPUs cannot be divided evenly among {self.nodes} nodes")
        if self.accel not in ("auto", "kvm", "tcg"):
            raise UsageError(f"unknown accelerator '{self.accel}'. Valid: auto, kvm, tcg")
        if self.processor not in ("", *PROCESSORS):
            valid = ", ".join(PROCESSORS)
            raise UsageError(f"unknown walks '{self.processor}'. Valid: {valid}")


@dataclass(frozen=True)
class Result:
    """Leavings of a guest: how it ended, the exit status, what the kernel's console said."""

    ending: Ending
    status: int | None
    console: list[str]
    stdout: bytes = b""
    stderr: bytes = b""
    files: dict[str, bytes] = field(default_factory=dict)

    def describe(self) -> str:
        """One paragraph for a person: what happened, then the console's last lines."""
        if self.ending is Ending.EXIT:
            return f"the command ended with status {self.status}"
        headline = {
            Ending.OOM: f"the guest ran out of memory (command status {self.status}); "
            "give it more with --memory",
            Ending.PANIC: "the guest's kernel panicked",
            Ending.HANG: "the guest did not finish in time and was stopped; "
            "allow more with --timeout",
            Ending.LOST: "QEMU ended before the guest reported a status",
        }[self.ending]
        return "\n".join(
            [f"{headline}. Last lines of its console:", *self.console[-CONSOLE_LINES:]]
        )


def kvm_works() -> bool:
    """True if KVM can run an unmodified kernel here.

    The device alone is not enough: some hosts offer it with a module that runs paravirtual
    guests only, so the module for the processor's own extension must be there.
    """
    return os.access("/dev/kvm", os.R_OK | os.W_OK) and any(
        Path("/sys/module", name).is_dir() for name in ("kvm_intel", "kvm_amd")
    )


def accelerator(machine: Machine) -> str:
    """`kvm` or `tcg`. Counting instructions needs TCG."""
    if machine.icount or machine.plugin or machine.processor:
        return "tcg"
    if machine.accel != "auto":
        return machine.accel
    return "kvm" if kvm_works() else "tcg"


def qemu_argv(machine: Machine, job: Path, ports: Sequence[int]) -> list[str]:
    """The command line. `ports` are the descriptors for the console, stdout and stderr."""
    accel = accelerator(machine)
    append = [
        "console=ttyS0 root=/dev/root rootfstype=9p ro",
        f"rootflags=trans=virtio,version=9p2000.L,msize={machine.message},cache=loose",
        f"init={machine.init}",
        "panic=-1 quiet loglevel=5",
        machine.append,
    ]
    if accel == "tcg":
        # A busy host can stop an emulated CPU for longer than the 20 s of a "soft lockup", and
        # for the ten ticks in which Linux wants to see its timer's interrupts, or panics.
        append.insert(-1, "watchdog_thresh=60 no_timer_check")
    cpu = "host" if accel == "kvm" else "max"
    if machine.processor:
        cpu += f",x-dpt={machine.processor},x-dpt-out={job / 'out' / WALKS}"
    argv = [
        # The guest must not outlive us, not even if we are killed.
        *("setpriv", "--pdeathsig", "KILL", str(machine.emulator or QEMU)),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-machine", "q35", "-cpu", cpu),
        # A socket a node: the kernel warns of nodes that share a cache.
        *("-smp", f"{machine.cpus},sockets={min(machine.cpus, machine.nodes)}"),
        *("-m", f"{machine.memory}M"),
        *("-kernel", str(machine.image), "-append", " ".join(append).strip()),
        *_share("root", Path("/"), readonly=True, tag="/dev/root"),
        *_share("job", job, readonly=False, tag="job"),
        *("-device", "virtio-rng-pci"),
        *_nodes(machine),
    ]
    if machine.emulator:
        argv += [word for folder in _firmware() for word in ("-L", folder)]
    if accel == "kvm":
        argv += ["-accel", "kvm"]
    elif machine.icount:
        argv += ["-accel", "tcg,thread=single", "-icount", f"shift={machine.shift},sleep=off"]
    else:
        argv += ["-accel", "tcg,thread=multi"]
    if machine.plugin:
        to = f"/dev/fd/{machine.report.fileno()}" if machine.report else job / "out" / COUNTS
        told = (f"out={to}", *machine.plugin_options)
        argv += ["-plugin", ",".join([str(machine.plugin), *told])]
    if not ports:
        return [*argv, "-serial", "mon:stdio"]
    console, *streams = ports
    argv += ["-chardev", f"file,id=console,path=/dev/fd/{console}", "-serial", "chardev:console"]
    argv += ["-device", "virtio-serial-pci"]
    for number, stream in enumerate(streams, start=1):
        argv += ["-chardev", f"file,id=port{number},path=/dev/fd/{stream}"]
        argv += ["-device", f"virtserialport,chardev=port{number},nr={number}"]
    return argv


def run(
    machine: Machine,
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdout: BinaryIO | None = None,
    stderr: BinaryIO | None = None,
) -> Result:
    """Run one command in a fresh guest and wait for the guest to end.

    What it prints is kept in the result and copied to `stdout` and `stderr` as it comes. Files
    it leaves in the directory $PAGELAB_OUT come back in the result.

    An emulated guest of several CPUs that panics before its first process is tried once more:
    now and then QEMU runs the old code after the booting kernel has patched it on another CPU.
    So is one that QEMU takes down with it: 7.2 sometimes aborts before there is any output
    (msix_table_mmio_write: Assertion failed). One whose walks differ is not.
    """
    result, started = _attempt(machine, command, cwd, env or {}, (stdout, stderr))
    emulated = accelerator(machine) == "tcg" and machine.cpus > 1
    differs = any(DIFFERENCE in line for line in result.console)
    if result.ending in (Ending.PANIC, Ending.LOST) and not (started or differs) and emulated:
        panic = [line for line in result.console if "Kernel panic" in line]
        why = ": ".join([result.ending, *panic[:1]])
        print(f"the guest did not boot ({why}); trying once more", file=sys.stderr)
        result, _ = _attempt(machine, command, cwd, env or {}, (stdout, stderr))
    return result


def _attempt(
    machine: Machine,
    command: Sequence[str],
    cwd: Path | None,
    env: Mapping[str, str],
    sinks: tuple[BinaryIO | None, BinaryIO | None],
) -> tuple[Result, bool]:
    """One guest, from boot to end; and whether its first process started."""
    need_qemu()
    with (
        ended_as_by_interrupt(),
        tempfile.TemporaryDirectory(prefix="pagelab-guest-") as directory,
        # Errors of QEMU. No pipe, which nobody would empty before QEMU ends.
        tempfile.TemporaryFile() as errors,
    ):
        job = Path(directory)
        _write_job(job, command, cwd, env)
        pipes = [os.pipe() for _ in range(3)]
        try:
            argv = qemu_argv(machine, job, [write for _, write in pipes])
            timed_out, texts, trouble = _drive(machine, argv, pipes, sinks, errors)
        finally:
            for read, _ in pipes:
                os.close(read)
        console = texts[0].decode(errors="replace").replace("\r", "").splitlines()
        status = _read_status(job / "status")
        if status is None and not timed_out and trouble:
            console += trouble.decode(errors="replace").splitlines()
        files = {
            str(path.relative_to(job / "out")): path.read_bytes()
            for path in sorted((job / "out").rglob("*"))
            if path.is_file()
        }
        result = Result(
            ending=_classify(console, status, timed_out),
            status=status,
            console=[line for line in console if line.strip()],
            stdout=texts[1],
            stderr=texts[2],
            files=files,
        )
        return result, (job / "started").exists()


def boot(machine: Machine) -> int | None:
    """Give the user a shell in a guest; return the shell's exit status if there is one."""
    need_qemu()
    with tempfile.TemporaryDirectory(prefix="pagelab-guest-") as directory:
        job = Path(directory)
        _write_job(job, ["/bin/sh", "-i"], None, {"TERM": os.environ.get("TERM", "vt100")})
        (job / "interactive").touch()
        print("Leave with `exit`; Ctrl-A X stops the machine.", file=sys.stderr)
        subprocess.run(qemu_argv(machine, job, []), check=False)
        return _read_status(job / "status")


def _write_job(job: Path, command: Sequence[str], cwd: Path | None, env: Mapping[str, str]) -> None:
    out = job / "out"
    out.mkdir()
    where = cwd or Path.cwd()
    lab = layout.find()
    visible = _below_own(lab.root, lab.cache, where)
    (job / "visible").write_text("".join(f"{folder}\n" for folder in visible))
    if where.is_relative_to("/dev") and not any(map(where.is_relative_to, visible)):
        where = Path("/tmp")  # the guest's devices are others
    script = ["set -e", f"cd {shlex.quote(str(where))}"]
    exports = {"PAGELAB_OUT": GUEST_OUT, "HOME": "/tmp", **env}
    script += [f"export {name}={shlex.quote(value)}" for name, value in exports.items()]
    script.append(f"exec {shlex.join(command)}")
    (job / "command").write_text("\n".join(script) + "\n")
    guard = lab.linux / "guest" / f"{GUARD}.c"
    capture(["gcc", "-std=gnu11", "-O2", "-static", "-o", job / GUARD, guard])


def _below_own(*wanted: Path) -> list[Path]:
    """The wanted folders that the guest's own would hide; none that another one has, too."""
    hidden = {folder.resolve() for folder in wanted if folder.is_dir()}
    hidden = {folder for folder in hidden if any(own in folder.parents for own in OWN)}
    return sorted(folder for folder in hidden if hidden.isdisjoint(folder.parents))


def _drive(
    machine: Machine,
    argv: list[str],
    pipes: list[tuple[int, int]],
    sinks: tuple[BinaryIO | None, BinaryIO | None],
    errors: BinaryIO,
) -> tuple[bool, list[bytes], bytes]:
    """Copy the guest's streams until QEMU ends; whether time ran out, the texts, QEMU's errors."""
    texts = [bytearray() for _ in pipes]
    reads = [read for read, _ in pipes]
    targets: dict[int, BinaryIO | None] = dict(zip(reads[1:], sinks, strict=True))
    deadline = time.monotonic() + machine.timeout
    report = [machine.report.fileno()] if machine.report else []
    try:
        started = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=[*(write for _, write in pipes), *report],
            start_new_session=True,
        )
    finally:
        # Only QEMU may hold these, so that its end is the end of the streams.
        for _, write in pipes:
            os.close(write)
        if machine.report:
            machine.report.close()
    with started as qemu:
        try:
            open_reads = set(reads)
            while open_reads and time.monotonic() < deadline:
                ready, _, _ = select.select(
                    list(open_reads), [], [], min(1.0, max(0.0, deadline - time.monotonic()))
                )
                for read in ready:
                    chunk = os.read(read, 65536)
                    if not chunk:
                        open_reads.discard(read)
                        continue
                    texts[reads.index(read)] += chunk
                    sink = targets.get(read)
                    if sink is not None:
                        sink.write(chunk)
                        sink.flush()
            timed_out = bool(open_reads)
            if not timed_out:
                with suppress(subprocess.TimeoutExpired):
                    qemu.wait(timeout=10)
        finally:
            qemu.kill()
        errors.seek(0)
        trouble = errors.read()
    if qemu.returncode:
        trouble += f"\nQEMU's exit status is {qemu.returncode}\n".encode()
    return timed_out, [bytes(text) for text in texts], trouble


def _classify(console: list[str], status: int | None, timed_out: bool) -> Ending:
    text = "\n".join(console)
    if "Kernel panic - not syncing" in text:
        # The kernel's last resort when nothing is left to kill is a panic, too.
        return Ending.OOM if "deadlocked on memory" in text else Ending.PANIC
    if timed_out:
        return Ending.HANG
    if status is None:
        return Ending.LOST
    if status != 0 and re.search(r"Out of memory: Killed process|invoked oom-killer", text):
        return Ending.OOM
    return Ending.EXIT


def _read_status(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (FileNotFoundError, ValueError):
        return None


def _share(name: str, path: Path, *, readonly: bool, tag: str) -> list[str]:
    fsdev = f"local,id={name},path={path},security_model=none,multidevs=remap"
    if readonly:
        fsdev += ",readonly=on"
    return ["-fsdev", fsdev, "-device", f"virtio-9p-pci,fsdev={name},mount_tag={tag}"]


def _nodes(machine: Machine) -> list[str]:
    if machine.nodes == 1:
        return []
    argv: list[str] = []
    share = machine.memory // machine.nodes
    cpus = machine.cpus // machine.nodes
    for node in range(machine.nodes):
        size = share if node else machine.memory - share * (machine.nodes - 1)
        mine = f"cpus={node * cpus}-{node * cpus + cpus - 1}," if cpus else ""
        if machine.cpus == 1 and node == 0:
            mine = "cpus=0,"
        argv += ["-object", f"memory-backend-ram,id=mem{node},size={size}M"]
        argv += ["-numa", f"node,nodeid={node},{mine}memdev=mem{node}"]
    return argv


def node_boundary(machine: Machine) -> int:
    """The address at which node 1's memory starts in a machine of two nodes.

    Raises:
        UsageError: there are not two, or the machine has so much memory that a hole divides it.

    """
    if machine.nodes != 2 or machine.memory > LOW_MEMORY:
        raise UsageError(f"accesses are counted for two nodes of at most {LOW_MEMORY} MB together")
    return (machine.memory - machine.memory // 2) << 20


def _firmware() -> list[str]:
    """Folders of the system's QEMU with its firmware; ours comes without."""
    return capture([QEMU, "-L", "help"]).split()


def need_qemu() -> None:
    """Refuse to begin what needs a guest where there is nothing to start one.

    Raises:
        PagelabError: a program is not installed; names it and its packages.

    """
    for program in (QEMU, "setpriv"):
        if shutil.which(program) is None:
            raise PagelabError(f"{program} is not installed (Debian: qemu-system-x86, util-linux)")
