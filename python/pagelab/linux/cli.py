"""`pagelab linux`: build the patched kernel, boot it, run commands, tests and benchmarks in it."""

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pagelab import files, progress, store
from pagelab.errors import PagelabError, UsageError, runs_a_program
from pagelab.linux import (
    artefact,
    guest,
    layout,
    making,
    manager,
    recording,
    source,
    suite,
    timing,
)
from pagelab.linux import bisect as bisection
from pagelab.linux import build as kbuild
from pagelab.linux import mails as letters
from pagelab.linux.lock import only_one
from pagelab.linux.walked import Walked, counts

app = typer.Typer(help="Linux with pagelab's patches, in a virtual machine.", no_args_is_help=True)
_console = Console(stderr=True)
_CPUS = os.cpu_count() or 1

Debug = Annotated[
    list[str] | None,
    typer.Option(
        help="Another kernel: vm, kasan, kmemleak, no-designs, no-dpt, or with 7.2 "
        "no-page-mapcount or small; may be repeated."
    ),
]
Kernel = Annotated[
    str, typer.Option(help="The version of Linux; all designs are patches of the default's only.")
]
KernelToBuild = Annotated[
    str | None,
    typer.Option(
        "--kernel", help=f"The version of Linux. [default: --source's, else {layout.VERSION}]"
    ),
]
Source = Annotated[
    str | None,
    typer.Option(
        "--source",
        help="Kernel source: a folder, an archive, a .deb, or the name of a Debian package such "
        "as linux-source-7.2. [default: Debian's package of --kernel]",
    ),
]
Append = Annotated[str, typer.Option(help="Kernel parameters, e.g. foliomap=on.")]
Memory = Annotated[int, typer.Option(help="Guest memory, MB.")]
Cpus = Annotated[int, typer.Option(help="Guest CPUs.")]
Nodes = Annotated[int, typer.Option(help="NUMA nodes the CPUs and memory are divided among.")]
Accel = Annotated[str, typer.Option(help="auto, kvm or tcg.")]
Icount = Annotated[bool, typer.Option(help="The guest's clock counts instructions (1 ns each).")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Compilers at once.")]


@app.command()
def build(
    from_source: Source = None,
    kernel: KernelToBuild = None,
    debug: Debug = None,
    jobs: Jobs = _CPUS,
) -> None:
    """Apply the patch series and compile the kernel."""
    where, given = _choose(kernel, from_source)
    print(making.make(where, tuple(debug or ()), jobs, _console, given))


@app.command()
def tree(from_source: Source = None, kernel: KernelToBuild = None) -> None:
    """Prepare the patched source as a git repository to edit; print where it is."""
    where, given = _choose(kernel, from_source)
    print(source.prepare(where, given, lambda text: _console.print(text, highlight=False)))


def _choose(kernel: str | None, origin: str | None) -> tuple[layout.Layout, Path | None]:
    """Layout of a kernel, and its source; not Debian's package if there is a path."""
    if origin is None:
        return layout.find(kernel or layout.VERSION), None
    version, path = source.named(origin)
    if kernel not in (None, version):
        raise UsageError(f"{origin} is Linux {version}, not {kernel}")
    return layout.find(version), path


@app.command()
def refresh(kernel: Kernel = layout.VERSION) -> None:
    """Write the commits of the source tree back to linux/patches and linux/source."""
    if files.checkout() is None:
        raise PagelabError("the patches of an installed pagelab are not written to: use a checkout")
    where = layout.find(kernel)
    for patch in source.refresh(where, lambda text: _console.print(text, highlight=False)):
        print(patch.path.name, *patch.adds)


@app.command()
def mails(
    folder: Annotated[Path, typer.Argument(help="A folder to write them to.")],
    kernel: Kernel = layout.VERSION,
) -> None:
    """Write the series as it can be sent: patches with their new files, and cover letters."""
    where = layout.find(kernel)
    source.prepare(where, None, lambda text: _console.print(text, highlight=False))
    for path in letters.write(where, folder):
        print(path)


@app.command()
def bisect(
    first: Annotated[int, typer.Option(help="The number of the patch to start at.")] = 1,
    last: Annotated[int | None, typer.Option(help="And of the one to end at.")] = None,
    kernel: Kernel = layout.VERSION,
    debug: Debug = None,
    jobs: Jobs = _CPUS,
) -> None:
    """Build and boot the kernel after every patch of the series; stop at one that fails."""
    where, options = layout.find(kernel), tuple(debug or ())
    source.prepare(where, None, lambda text: _console.print(text, highlight=False))
    for number, (commit, subject) in enumerate(bisection.patches(where), start=1):
        if number < first or (last is not None and number > last):
            continue
        with only_one(bisection.apart(where).work), making.compiling(_console) as told:
            try:
                bisection.check(where, options, commit, jobs, told)
            except PagelabError as error:
                raise PagelabError(f"after patch {number}, {subject}: {error}") from error
        print(f"builds and boots: {number} {subject}", flush=True)


@app.command()
def deb(debug: Debug = None, jobs: Jobs = _CPUS) -> None:
    """Make Debian packages of the kernel that `build` built."""
    with making.compiling(_console) as told:
        packages = kbuild.debian_packages(layout.find(), tuple(debug or ()), jobs, told)
    for package in packages:
        print(package)


@app.command("artefact")
def make_artefact(
    target: Annotated[Path, typer.Argument(help="The archive to write, NAME.tar.xz.")],
) -> None:
    """Write the built kernel, and what modules need of it, to an archive for `fetch`."""
    print(artefact.pack(layout.find(), target), target)


@app.command()
def fetch(
    origin: Annotated[str, typer.Argument(help="The archive: a path, https://... or file://...")],
    sha256: Annotated[
        str | None,
        typer.Option(help="Its SHA-256. [default: what the file beside it, ORIGIN.sha256, says]"),
    ] = None,
) -> None:
    """Take a kernel that `artefact` has packed instead of building one."""
    say = partial(_console.print, highlight=False, markup=False)
    print(artefact.unpack(layout.find(), origin, sha256, say))


@app.command()
def boot(
    kernel: Kernel = layout.VERSION,
    debug: Debug = None,
    append: Append = "",
    memory: Memory = 2048,
    cpus: Cpus = 2,
    nodes: Nodes = 1,
    accel: Accel = "auto",
) -> None:
    """Open a shell in the guest. The host's files are there, read-only."""
    machine = guest_of(layout.find(kernel), debug, append, memory, cpus, nodes, accel)
    raise typer.Exit(guest.boot(machine) or 0)


@app.command(context_settings={"ignore_unknown_options": True})
@runs_a_program
def run(
    command: Annotated[list[str], typer.Argument(help="What to run; put -- before it.")],
    kernel: Kernel = layout.VERSION,
    debug: Debug = None,
    append: Append = "",
    memory: Memory = 2048,
    cpus: Cpus = 2,
    nodes: Annotated[
        int | None,
        typer.Option(
            help="NUMA nodes the CPUs and memory are divided among. "
            "[default: what --manager needs, else 1]"
        ),
    ] = None,
    accel: Accel = "auto",
    icount: Icount = False,
    timeout: Annotated[float, typer.Option(help="Stop the guest after so many seconds.")] = 600.0,
    memory_manager: Annotated[
        str | None,
        typer.Option(
            "--manager",
            help="Take the command's memory from a memory file system: NAME[:MOUNT OPTIONS].",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Put what the command leaves in $PAGELAB_OUT here.")
    ] = None,
    walks: Annotated[
        str,
        typer.Option(
            help="An emulated processor that walks a distributed page table: check, dpt, "
            "check-each or dpt-each (docs/dpt-linux.md)."
        ),
    ] = "",
) -> None:
    """Run a command in a fresh guest; its output and exit status are passed through."""
    where = layout.find(kernel)
    if out is not None:
        store.check(out)
    if memory_manager is not None:
        least = manager.nodes(where, memory_manager)
        if nodes is not None and nodes < least:
            raise UsageError(f"{memory_manager} needs --nodes {least}")
        nodes = nodes or least
        append = f"{append} {manager.APPEND}".strip()
        _image(where, tuple(debug or ()), append)
        prepared = manager.prepare(where, tuple(debug or ()))
        command = manager.wrap(where, prepared, memory_manager, command)
    machine = guest_of(where, debug, append, memory, cpus, nodes or 1, accel, icount, timeout)
    if walks:
        kbuild.need_designs(where, tuple(debug or ()), "dpt")
        machine = replace(machine, processor=walks, emulator=suite.need_emulator(where))
    result = guest.run(machine, command, stdout=sys.stdout.buffer, stderr=sys.stderr.buffer)
    if out is not None:
        for name, content in result.files.items():
            target = out / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    if counted := result.files.get(guest.WALKS):
        print(counted.decode().strip(), file=sys.stderr)
    if result.ending is not guest.Ending.EXIT:
        raise PagelabError(result.describe())
    raise typer.Exit(result.status or 0)


@app.command(context_settings={"ignore_unknown_options": True})
@runs_a_program
def record(
    command: Annotated[list[str], typer.Argument(help="What to run; put -- before it.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The trace; its list of walks is OUT.walks.")
    ],
    system: Annotated[
        bool,
        typer.Option(
            "--system", help="Everything that runs: the program, other programs, the kernel."
        ),
    ] = False,
    kernel: Kernel = layout.VERSION,
    debug: Debug = None,
    append: Append = "",
    memory: Memory = 1280,
    levels: Annotated[int, typer.Option(min=4, max=5, help="Levels of the page tables.")] = 4,
    timeout: Annotated[float, typer.Option(help="Stop the guest after so many seconds.")] = 3600.0,
    walks: Annotated[
        str, typer.Option(help="As of `run`: check or dpt; else the tree is walked.")
    ] = "",
) -> None:
    """Record all accesses and page walks of a fresh guest while a command runs in it."""
    if not system:
        raise UsageError("say --system; a program alone is recorded by `pagelab record`")
    if walks.endswith("-each"):
        raise UsageError("a walk an access is no more than the accesses: record check or dpt")
    where = layout.find(kernel)
    # The simulator's `radix` has as many by default.
    if levels == 4:
        append = f"{append} {guest.FOUR_LEVELS}".strip()
    machine = guest_of(where, debug, append, memory, 1, 1, "tcg", timeout=timeout)
    if walks:
        kbuild.need_designs(where, tuple(debug or ()), "dpt")
    machine = replace(machine, processor=walks, emulator=suite.need_emulator(where))
    result, recorded = recording.record(where, machine, command, out)
    _console.print(f"pagelab: {recorded.summary()}", highlight=False, markup=False)
    raise typer.Exit(result.status or 0)


@app.command("walks")
def compare_walks(
    walks: Annotated[Path, typer.Argument(help="A list of walks of `record`.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare a guest's page walks with those of the simulator; fail where they differ."""
    judged = recording.judge(walks)
    print(judged.model_dump_json(indent=1) if as_json else judged.summary())
    raise typer.Exit(1 if judged.different else 0)


@app.command("test")
def run_tests(
    names: Annotated[list[str] | None, typer.Argument(help="Folders or folder/entry.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show all output.")] = False,
    retries: Annotated[
        int,
        typer.Option(
            min=0, help="Run what failed up to so many times more; what passes then is flaky."
        ),
    ] = 0,
    debug: Debug = None,
    seconds: Annotated[
        int | None,
        typer.Option(min=1, help="Duration of each test that acts at random. [default: its own]"),
    ] = None,
    walks_table: Annotated[
        Path | None,
        typer.Option(help="Write what processors that walk by hash counted, as a table."),
    ] = None,
) -> None:
    """Run the tests under linux/tests, each in its own guest."""
    root, options = layout.find().linux / "tests", tuple(debug or ())
    walked = Walked()
    try:
        jobs = suite.load(root, names or [], options, seconds)
        _run_suites(jobs, names or [], verbose=verbose, retries=retries, walked=walked)
    finally:
        if walks_table:
            walks_table.parent.mkdir(parents=True, exist_ok=True)
            walks_table.write_text(walked.table())


@app.command("bench")
def run_benchmarks(
    names: Annotated[list[str] | None, typer.Argument(help="Folders or folder/entry.")] = None,
    debug: Debug = None,
) -> None:
    """Run the benchmarks under linux/bench and print what they print."""
    jobs = suite.load(layout.find().linux / "bench", names or [], tuple(debug or ()))
    _run_suites(jobs, names or [], verbose=True)


@app.command("time")
def time_operations(
    names: Annotated[
        list[str], typer.Argument(help="Folders or folder/entry of linux/bench that have marks.")
    ],
    machine: Annotated[
        list[str] | None,
        typer.Option(
            "--machine",
            "-m",
            help=f"A simulated machine; may be repeated. [default: {', '.join(timing.MACHINES)}]",
        ),
    ] = None,
    debug: Debug = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Simulate what the kernel's operations take on other machines, from a recorded guest.

    For each of the entry's boots a guest is recorded, its kernel's instructions and accesses, and
    what lies between the marks of its program is timed on each machine.
    """
    where = layout.find()
    rows: list[timing.Timed] = []
    with progress.display(_console, quiet=False) as display:
        for job in suite.load(where.linux / "bench", names, tuple(debug or ())):
            rows += timing.timed(where, job, machine or timing.MACHINES, display, _say)
    if as_json:
        print(json.dumps([row.model_dump() for row in rows], indent=1))
    else:
        print(timing.table(rows))


def _say(text: str) -> None:
    _console.print(f"pagelab: {text}", highlight=False, markup=False)


def _run_suites(
    jobs: Iterable[suite.Job],
    names: list[str],
    *,
    verbose: bool,
    retries: int = 0,
    walked: Walked | None = None,
) -> None:
    where = layout.find()
    failed: list[str] = []
    firsts: dict[tuple[Path, str], guest.Result] = {}
    walked = Walked() if walked is None else walked
    for job in jobs:
        asked = f"{job.folder.name}/{job.entry.name}" in names
        image, flags = suite.kernel(where, job)
        if not asked and flags and not image.exists():
            print(f"skip  {job.name}: no kernel of `pagelab linux build{flags}`", flush=True)
            continue
        if not asked and job.processor and not where.emulator.exists():
            print(f"skip  {job.name}: no emulator of `make linux-qemu`", flush=True)
            continue
        if job.entry.kvm and not guest.kvm_works():
            print(f"skip  {job.name}: no KVM", flush=True)
            continue
        verdict = _run_job(where, job, firsts, walked, verbose=verbose)
        tries = 1
        while verdict is suite.Verdict.FAIL and tries <= retries:
            print(f"again {job.name}", flush=True)
            verdict = _run_job(where, job, firsts, walked, verbose=verbose)
            tries += 1
        if verdict is suite.Verdict.FAIL:
            failed.append(job.name)
        elif tries > 1:
            print(f"flaky {job.name}: failed {tries - 1} of {tries} times", flush=True)
    if walked.rows:
        print(walked.summary(), flush=True)
    if failed:
        raise PagelabError("\n  ".join([f"{len(failed)} failed:", *failed]))


def _run_job(
    where: layout.Layout,
    job: suite.Job,
    firsts: dict[tuple[Path, str], guest.Result],
    walked: Walked,
    *,
    verbose: bool,
) -> suite.Verdict:
    """One job in one guest, told of as it ends.

    `firsts` has what others are compared with; `walked` is told what the processor counted.
    """
    verdict, result = suite.run(where, job, show=verbose)
    if job.entry.compare:
        key = (job.folder, job.entry.name)
        first = firsts.get(key)
        if first is None or first.status is None:  # else this may be another try of it
            first = firsts[key] = result
        new = suite.regressions(first, result)
        if new:
            verdict = suite.Verdict.FAIL
        elif verdict is suite.Verdict.FAIL:
            verdict = suite.Verdict.PASS
        sys.stdout.write("".join(f"    {line}\n" for line in new))
    counted = counts(result)
    if counted and counted.differences:
        verdict = suite.Verdict.FAIL
    print(f"{verdict:4}  {job.name}", flush=True)
    if walks := result.files.get(guest.WALKS):
        print("     ", walks.decode(errors="replace").strip(), flush=True)
    if counted:
        walked.add(job.entry.name, job.manager, job.append, counted)
    if verdict is suite.Verdict.FAIL:
        _explain(result, verbose=verbose)
    return verdict


def _explain(result: guest.Result, *, verbose: bool) -> None:
    if not verbose:
        sys.stdout.write(result.stdout.decode(errors="replace"))
        sys.stdout.write(result.stderr.decode(errors="replace"))
    print(result.describe())
    if warning := suite.warned(result):
        print("The kernel's first warning:", *warning, sep="\n")
    if result.ending is guest.Ending.EXIT:
        print("Its console:", *result.console[-guest.CONSOLE_LINES :], sep="\n")


def _image(where: layout.Layout, options: tuple[str, ...], append: str) -> Path:
    """The kernel; it is built first where there is none."""
    guest.need_qemu()
    kbuild.need_designs(where, options, append)
    image = where.image(options)
    if not image.exists():
        making.make(where, options, _CPUS, _console)
        kbuild.need_designs(where, options, append)
    return image


def guest_of(
    where: layout.Layout,
    debug: list[str] | None,
    append: str,
    memory: int,
    cpus: int,
    nodes: int,
    accel: str,
    icount: bool = False,
    timeout: float = 600.0,
) -> guest.Machine:
    """A guest with a kernel, which is built first where there is none."""
    options = tuple(debug or ())
    image = _image(where, options, append)
    return guest.Machine(
        image=image,
        init=where.linux / "guest" / "init",
        memory=memory,
        cpus=cpus,
        nodes=nodes,
        append=kbuild.parameters(options, append),
        icount=icount,
        accel=accel,
        timeout=timeout,
    )
