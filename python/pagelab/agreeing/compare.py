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
from pagelab.agreeing.setting import Setting
from pagelab.counts import Os
from pagelab.errors import InterruptedRunError, PagelabError
from pagelab.linux import manager

Say = Callable[[str], None]


def compare(
    laboratory: Laboratory, programs: Sequence[Program], settings: Sequence[Setting], say: Say
) -> Iterator[Agreement]:
    """Each program under each setting, by program; what fails is one of these, too.

    Each program is recorded once. Settings with the same kernel parameters share a guest.
    """
    counted = _in_guests(laboratory, programs, settings, say)
    systems = [(setting.pages, setting.system(laboratory.where.version)) for setting in settings]
    for program in programs:
        with tempfile.TemporaryDirectory(prefix="pagelab-agree-") as folder:
            simulated: list[Os | str]
            status = None
            try:
                trace = Path(folder) / "program.trace"
                recorded = in_simulator.record(program, trace, 10 * laboratory.seconds)
                status = 128 + recorded.signal if recorded.signal else recorded.exit_status
                simulated = in_simulator.simulate(recorded, laboratory.machine.memory, systems)
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
        guests[setting.append, setting.manager, setting.memory_max].append(setting)
    counted = {}
    for (append, of_manager, _), shared in guests.items():
        runs = [(program, setting) for program in programs for setting in shared]
        say(f"a guest for {', '.join(setting.name for setting in shared)}")
        parameters = [laboratory.machine.append, append, manager.APPEND if of_manager else ""]
        machine = replace(laboratory.machine, append=" ".join(filter(None, parameters)))
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
