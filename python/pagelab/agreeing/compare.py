"""Programs under settings, in guests and in the simulator."""

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pagelab.agreeing import in_simulator
from pagelab.agreeing.counts import Agreement, lines
from pagelab.agreeing.in_guest import Counted, Laboratory
from pagelab.agreeing.program import Program
from pagelab.agreeing.setting import KHUGEPAGED_SHIFT, Setting
from pagelab.counts import Os
from pagelab.errors import InterruptedRunError, PagelabError
from pagelab.linux import manager

Say = Callable[[str], None]

# Files of a guest then have blocks of 4 KiB, as those of disks here have (`v9fs_fill_super()` in
# fs/9p/vfs_super.c; 24 bytes are a header). Programs have buffers of that size.
_MESSAGE = 4096 + 24


def compare(
    laboratory: Laboratory, programs: Sequence[Program], settings: Sequence[Setting], say: Say
) -> Iterator[Agreement]:
    """Each program under each setting, by program; what fails is one of these, too.

    Each program is recorded once. Settings with the same kernel parameters share a guest.
    """
    counted = _in_guests(laboratory, programs, settings, say)
    sizes = (one.counters.get("vdso") for one in counted.values())
    vdso = next(filter(None, sizes), None)
    for program in programs:
        with tempfile.TemporaryDirectory(prefix="pagelab-agree-") as folder:
            simulated: list[Os | str]
            status = None
            try:
                trace = Path(folder) / "program.trace"
                seconds = 10 * laboratory.seconds
                recorded = in_simulator.record(program, trace, seconds, vdso)
                status = 128 + recorded.signal if recorded.signal else recorded.exit_status
                if status:
                    say(f"{program.name} ended with status {status}")
                simulated = in_simulator.simulate(
                    recorded, laboratory.machine.memory, settings, laboratory.where.version
                )
            except InterruptedRunError:
                raise
            except (PagelabError, OSError) as error:
                simulated = [str(error) for _ in settings]
        for setting, simulation in zip(settings, simulated, strict=True):
            about = Agreement(
                program=program.name, kernel=laboratory.where.version, setting=setting.name
            )
            kernel = counted[program.name, setting]
            yield _compared(about, setting, kernel, simulation, status)


def _in_guests(
    laboratory: Laboratory, programs: Sequence[Program], settings: Sequence[Setting], say: Say
) -> dict[tuple[str, Setting], Counted]:
    guests = defaultdict(list)
    for setting in settings:
        works = setting.max_ptes_none is not None
        guests[setting.append, setting.manager, setting.memory_max, works].append(setting)
    counted = {}
    for (append, of_manager, _, works), shared in guests.items():
        nodes = shared[0].nodes
        runs = [(program, setting) for program in programs for setting in shared]
        say(f"a guest for {', '.join(setting.name for setting in shared)}")
        parameters = [laboratory.machine.append, append, manager.APPEND if of_manager else ""]
        append = " ".join(filter(None, parameters))
        machine = replace(laboratory.machine, append=append, nodes=nodes, message=_MESSAGE)
        if works:
            machine = replace(machine, icount=True, shift=KHUGEPAGED_SHIFT)
        results = replace(laboratory, machine=machine).count(runs)
        for (program, setting), result in zip(runs, results, strict=True):
            counted[program.name, setting] = result
    return counted


def _compared(
    about: Agreement, setting: Setting, kernel: Counted, simulated: Os | str, status: int | None
) -> Agreement:
    """Both counts, or why there are none; `status` is the program's here."""
    failed = kernel.failed
    if not failed and isinstance(simulated, str):
        failed = simulated
    if not failed and kernel.status != status:
        failed = f"it ended with status {kernel.status} in the guest and {status} here"
    if failed or isinstance(simulated, str):
        return about.model_copy(update={"failed": failed})
    found = lines(kernel.counters, simulated, setting.pages)
    return about.model_copy(update={"lines": found})
