"""Programs recorded here, and simulated."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pagelab import api, emulator
from pagelab.agreeing import stack
from pagelab.agreeing.program import Program
from pagelab.agreeing.setting import Setting
from pagelab.counts import Os
from pagelab.design import Design
from pagelab.errors import InterruptedRunError, PagelabError
from pagelab.machines import Machine
from pagelab.results import Recording, Run


def record(program: Program, trace: Path, seconds: float, vdso: int | None) -> Recording:
    """Records a program and all that it starts, at the addresses that it has in a guest.

    `vdso` has the bytes of the vdso there.

    Raises:
        PagelabError: it was not started, or not all of it was recorded.

    """
    named = os.environ.get(emulator.VARIABLE)
    if vdso is not None:
        told = {**program.environment, stack.VARIABLE: str(stack.emulated(vdso))}
        program = replace(program, environment=told)
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
    recorded: Recording, megabytes: int, settings: Sequence[Setting], kernel: str
) -> list[Os | str]:
    """Simulates a recording under settings of a kernel; text is why one has no counts.

    Machines have so much memory.
    """
    found: dict[Setting, Os | str] = {}
    for nodes in sorted({setting.nodes for setting in settings}):
        some = [setting for setting in settings if setting.nodes == nodes]
        systems = [(setting.pages, setting.system(kernel)) for setting in some]
        counts = _simulated(recorded, _machine(megabytes, nodes), systems)
        found |= zip(some, counts, strict=True)
    return [found[setting] for setting in settings]


def _machine(megabytes: int, nodes: int) -> Machine:
    """One whose nodes have equal memory; how fast that is decides nothing that is counted."""
    machine = Machine("zen3").memory(memory_bytes=f"{megabytes}MiB", zero_page=True)
    if nodes > 1:
        node = {"latency_ns": 100.0, "gigabytes_per_second": 20.0}
        shares = [{"bytes": f"{megabytes // nodes}MiB", **node} for _ in range(nodes)]
        machine = machine.memory(nodes=shares)
    # The emulated processor flushes its TLB often: accessed bits are set again soon.
    return machine.set("tlb.l2_4k.entries=64", "tlb.l2_4k.ways=4")


def _simulated(
    recorded: Recording, machine: Machine, systems: Sequence[tuple[str, str]]
) -> list[Os | str]:
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
