"""Programs recorded here, and simulated."""

import os
from collections.abc import Sequence
from pathlib import Path

from pagelab import api, emulator
from pagelab.agreeing.program import Program
from pagelab.counts import Os
from pagelab.design import Design
from pagelab.errors import InterruptedRunError, PagelabError
from pagelab.machines import Machine
from pagelab.results import Recording, Run


def record(program: Program, trace: Path, seconds: float) -> Recording:
    """Records a program and all that it starts.

    Raises:
        PagelabError: it was not started, or not all of it was recorded.

    """
    named = os.environ.get(emulator.VARIABLE)
    with program.prepared():
        recorded = api.record(
            program.command,
            trace,
            follow_exec=True,
            qemu=Path(named) if named else None,
            seconds=seconds,
        )
    if recorded.interrupted:
        raise InterruptedRunError("interrupted")
    if recorded.ended_after is not None:
        raise PagelabError(f"it was stopped after {seconds:.0f} s of recording")
    if recorded.incomplete:
        raise PagelabError(f"the recording is not whole: {recorded.incomplete}")
    return recorded


def simulate(
    recorded: Recording, megabytes: int, systems: Sequence[tuple[str, str]]
) -> list[Os | str]:
    """Simulates a recording with page sizes and operating systems; text is why one has no counts.

    Machines have so much memory.
    """
    machine = Machine("zen3").memory(memory_bytes=f"{megabytes}MiB", zero_page=True)
    # The emulated processor flushes its TLB often: accessed bits are set again soon.
    machine = machine.set("tlb.l2_4k.entries=64", "tlb.l2_4k.ways=4")
    designs = [Design("radix", pages=pages, system=system) for pages, system in systems]
    try:
        compared = api.compare(recorded, designs, machine=machine)
    except InterruptedRunError:
        raise
    except PagelabError as error:
        return [str(error) for _ in systems]
    if compared.interrupted:
        raise InterruptedRunError("interrupted")
    runs = {(run.pages, run.system): run for run in compared.runs}
    why = "; ".join(failure.error for failure in compared.failures)
    return [_counts(runs[one]) if one in runs else why for one in systems]


def _counts(run: Run) -> Os | str:
    return f"the simulation ended early: {run.stopped}" if run.stopped else run.os
