"""Simulated time of what a guest's kernel does between the marks of a program.

The program is one of linux/bench: between two marks it does something, and prints a line of JSON
with what that was. The recording of its guest has the kernel's own instructions and accesses, and
a simulated machine takes that in: each pair of marks is a window, with the caches as what came
before has left them. Accesses are by physical addresses, so that lines are found in caches by
whatever address a page was written; misses of TLBs are lost by that. Left out as well is what a
processor does to enter the kernel and to leave it.

CPUs of a guest are cores of the machine. They took turns in the recording, each as long as it had
work; between two marks the cores' accesses are simulated in the machine's own short turns, as if
all had been done at the same time. What a CPU would have waited for at a lock it has not executed.
"""

import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import BaseModel, ConfigDict

from pagelab import design, intervals, jobs, units
from pagelab.errors import PagelabError
from pagelab.linux import guest, recording, suite
from pagelab.linux.layout import Layout
from pagelab.progress import Display
from pagelab.results import Run
from pagelab.sources import Trace
from pagelab.window import Window

# The processors that the kernel's costs are asked for, two of each vendor.
MACHINES = ("zen3", "zen5", "skylake-sp", "sapphire-rapids")

# Cycles in which a line comes from another core, for machines whose preset has no
# `caches.coherence`: medians of github.com/nviennot/core-to-core-latency, which has 48 ns for a
# Cascade Lake where Intel's own checker has skylake-sp's 50.3. zen3: 23 ns within a core complex
# of an EPYC 7R13. Presumed: zen5 as the middle of a Zen 4's 15 to 19 ns (AnandTech, "AMD Zen 4
# Ryzen 9 7950X"), sapphire-rapids as an Ice Lake's 51 ns.
TRANSFER = {"zen3": 80, "zen5": 97, "sapphire-rapids": 194}


class Timed(BaseModel):
    """An operation on a simulated machine.

    `kb` is the size of its folios or of its mapping. `ns` and `instructions` are for a page, or
    for a call where the program makes several between two marks: of all rounds together. `half` is
    half the width of the time's confidence interval (95 %), `None` for a single round. Of several
    cores `ns` is a core's, and `transfers` are lines that came from another one's caches.
    """

    model_config = ConfigDict(extra="forbid")

    boot: str
    operation: str
    kb: int
    machine: str
    rounds: int
    ns: float
    half: float | None
    instructions: float
    transfers: float | None = None


def timed(
    where: Layout,
    job: suite.Job,
    machines: Sequence[str],
    display: Display,
    say: Callable[[str], None],
) -> list[Timed]:
    """Records a guest that runs the job, and simulates it on each machine.

    Raises:
        UsageError: there is no such machine.
        PagelabError: the program failed, or does not say between its marks what it has done.

    """
    for name in machines:
        design.check(name, [])
    with TemporaryDirectory(prefix="pagelab-") as folder:
        trace = Path(folder) / "guest.trace"
        ready = suite.prepare(where, job)
        # The simulator's `radix` has four levels by default, and guests have no KVM here.
        append = f"{ready.machine.append} {guest.FOUR_LEVELS}"
        emulator = suite.need_emulator(where)
        machine = replace(ready.machine, append=append, accel="tcg", emulator=emulator)
        result, recorded = recording.record(
            ready.layout,
            machine,
            ready.command,
            trace,
            cwd=ready.folder,
            env=ready.env,
            show=False,
            physical=True,
        )
        if suite.judge(result) is not suite.Verdict.PASS:
            sys.stderr.write(result.stderr.decode(errors="replace"))
            raise PagelabError(f"{job.name}: {result.describe()}")
        say(f"{job.name}: {recorded.summary()}")
        printed = result.stdout.decode(errors="replace").splitlines()
        done = [json.loads(line) for line in printed if line.startswith("{")]
        if not done:
            raise PagelabError(f"{job.name} has no pair of marks that it says anything about")
        runs = _simulated(trace, machines, job.entry.cpus, display)
    return [row for run in runs for row in _rows(job.name, done, run)]


def _simulated(trace: Path, machines: Sequence[str], cores: int, display: Display) -> list[Run]:
    source = Trace(trace).describe(Window())
    # All memory is reached as by the kernel's direct map, which has pages of 2 MiB.
    pages = ['memory.page_policy="thp"', f"cores={cores}"]
    work = [
        jobs.Simulation(
            machine,
            design="radix",
            machine=machine,
            overrides=[*pages, *_coherence(machine)],
            source=source,
        )
        for machine in machines
    ]
    return jobs.all_whole(work, display)


def _coherence(machine: str) -> list[str]:
    cycles = TRANSFER.get(machine)
    if cycles is None:
        return []
    value = f"{{ transfer_cycles = {cycles}, invalidate_cycles = {cycles}, turn = 64 }}"
    return [f"caches.coherence={value}"]


def _rows(boot: str, done: Iterable[dict[str, Any]], run: Run) -> list[Timed]:
    done = list(done)
    # Before the first mark, between two pairs, and behind the last there is a window as well.
    windows = run.windows[1::2]
    if len(run.windows) != 2 * len(done) + 1:
        raise PagelabError(
            f"{boot}: {len(done)} lines of JSON for {len(run.windows) // 2} pairs of marks"
        )
    found: dict[tuple[str, int], list[tuple[float, float, float, float]]] = defaultdict(list)
    for one, window in zip(done, windows, strict=True):
        # The recording's own kernel is what is asked for, and none of the simulator's.
        cycles = window.cycles if window.total is None else window.total
        cycles -= window.faults + window.zeroing + window.migrations
        taken = 1e9 * cycles / run.cycles.frequency_hz
        if "bench" not in one or "pages" not in one:
            raise PagelabError(f"{boot} prints no `bench` and `pages` for its marks: {one}")
        key = str(one["bench"]), int(one.get("folio_kb", 4 * one["pages"]))
        each = float(one.get("calls", one["pages"]))
        lines = window.coherence.transfers if window.coherence else 0
        found[key].append((taken, each, window.instructions, lines))
    rows = []
    # A single core has nothing to keep coherent.
    shared = all(window.total is not None and window.coherence for window in windows)
    for (operation, kb), all_rounds in found.items():
        times, pages, instructions, transfers = zip(*all_rounds, strict=True)
        ns, half = intervals.ratio(times, pages)
        moved = math.fsum(transfers) / math.fsum(pages)
        rows.append(
            Timed(
                boot=boot,
                operation=operation,
                kb=kb,
                machine=run.machine_name,
                rounds=len(times),
                ns=ns,
                half=half if math.isfinite(half) else None,
                instructions=math.fsum(instructions) / math.fsum(pages),
                transfers=moved if shared else None,
            )
        )
    return rows


def table(rows: Sequence[Timed]) -> str:
    """Time of a page or a call: a line a boot for each operation, a column a machine."""
    machines = list(dict.fromkeys(row.machine for row in rows))
    boots = list(dict.fromkeys(row.boot for row in rows))
    cells = {(row.operation, row.kb, row.boot, row.machine): row for row in rows}
    lines = [f"{letter}: {boot}" for letter, boot in zip(_LETTERS, boots, strict=False)]
    lines += ["", f"{'':<3}{''.join(f'{machine:>{_WIDTH}}' for machine in machines)}"]
    for operation, kb in dict.fromkeys((row.operation, row.kb) for row in rows):
        lines.append(f"{operation}, {units.size(kb << 10)}")
        for letter, boot in zip(_LETTERS, boots, strict=False):
            found = [cells.get((operation, kb, boot, machine)) for machine in machines]
            if any(found):
                values = "".join(f"{_value(row):>{_WIDTH}}" for row in found)
                lines.append(f"  {letter}{values}")
                if any(map(_moved, found)):
                    lines.append(f"   {''.join(f'{_moved(row):>{_WIDTH}}' for row in found)}")
    return "\n".join([*lines, "", *_LEFT_OUT, *(_OF_CORES if any(map(_moved, rows)) else ())])


# Four machines beside each other in 80 columns.
_WIDTH = 19
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LEFT_OUT = (
    "Simulated: the kernel's own instructions, without misses of TLBs, and without",
    "what a processor takes to enter the kernel and to leave it.",
)
_OF_CORES = ("Lines came from another core's caches; nothing waits for a lock.",)


def _value(row: Timed | None) -> str:
    if row is None:
        return ""
    large = row.ns >= _LARGE
    unit, divisor = ("µs", 1000) if large else ("ns", 1)
    half = "" if row.half is None else f" ± {row.half / divisor:.1f}"
    return f"{row.ns / divisor:.1f}{half} {unit}"


def _moved(row: Timed | None) -> str:
    return "" if row is None or row.transfers is None else f"{row.transfers:.2f} lines"


# From here on microseconds are told, to fewer digits than the interval has.
_LARGE = 10_000
