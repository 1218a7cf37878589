"""Everything that runs in a guest, as a trace, and the page walks of its processor beside it."""

import json
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from pagelab import _core
from pagelab.errors import PagelabError, cannot
from pagelab.linux import build, guest
from pagelab.linux.layout import Layout


class Recorded(BaseModel):
    """A recording. Instructions are 0 unless the program ended before the guest did."""

    model_config = ConfigDict(extra="forbid")

    accesses: int
    by_kernel: int
    instructions: int
    kernel_instructions: int
    walks: int
    faults: int
    spaces: int
    whole: bool

    def summary(self) -> str:
        """A line for a person."""
        share = self.by_kernel / self.accesses if self.accesses else 0.0
        return (
            f"{self.accesses:,} accesses, {share:.1%} by the kernel; "
            f"{self.instructions:,} instructions of programs and {self.kernel_instructions:,} of "
            f"the kernel; {self.walks:,} page walks, {self.faults:,} of them to a fault, "
            f"in {self.spaces} address spaces"
        )


class Judged(BaseModel):
    """The guest's walks beside those of the simulator's `radix` and `dpt`.

    `walks` counts those of the tree that found a page, by how many entries they read; `hashed`
    those by hash, by how many lines of metadata they read, and `hashed_simulated` as many by how
    many the simulator read; `different` all that read other entries than the simulator. Walks that
    ended in a fault are not compared.
    """

    model_config = ConfigDict(extra="forbid")

    levels: int
    walks: dict[int, int]
    hashed: dict[int, int]
    hashed_simulated: dict[int, int]
    reads: int
    faults: int
    different: int
    moved: int
    differences: list[str]

    def summary(self) -> str:
        """Some lines for a person."""
        lines = []
        if self.walks:
            lines.append(
                f"{sum(self.walks.values()):,} walks of trees of {self.levels} levels to a page: "
                f"{_kinds(self.walks, 'entries')}"
            )
        if self.hashed:
            lines.append(
                f"{sum(self.hashed.values()):,} walks by hash to a page: an entry, and "
                f"{_kinds(self.hashed, 'lines of metadata')}; "
                f"the simulator: {_kinds(self.hashed_simulated, 'lines')}"
            )
        lines += [
            f"walks to a fault, not compared: {self.faults:,}",
            f"tables that the guest had moved: {self.moved:,}",
            f"walks that read other entries than the simulator's: {self.different:,}",
        ]
        return "\n".join([*lines, *self.differences])


def _kinds(walks: dict[int, int], reads: str) -> str:
    kinds = [f"{count:,} of {number}" for number, count in sorted(walks.items())]
    return f"{', '.join(kinds)} {reads}"


def walks_of(trace: Path) -> Path:
    """The list of walks that belongs to a trace."""
    return trace.with_name(f"{trace.name}.walks")


def record(
    where: Layout,
    machine: guest.Machine,
    command: list[str],
    trace: Path,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    show: bool = True,
    physical: bool = False,
) -> tuple[guest.Result, Recorded]:
    """Run a command in a guest; record everything from its start to its end.

    It has one CPU, or as many as the machine where accesses are by `physical` addresses and its
    clock counts instructions: then CPUs take turns, and each is a thread of the trace.

    The machine's emulator is `make linux-qemu`'s. What the command prints is passed through if it
    is to `show`. By `physical` addresses a page is one wherever it is mapped, as caches see it, and
    all is in one address space; otherwise each has its own, as TLBs see it.

    Raises:
        PagelabError: the guest did not come to its end, or a file could not be written.

    """
    _writable(trace)
    guest_files = where.linux / "guest"
    plugin = build.build_program(where, guest_files / "system.c", "-shared", "-fPIC")
    marks = build.build_program(where, guest_files / "between-marks.c", "-static")
    metadata = json.dumps({"command": " ".join(command), "recorder": "pagelab linux record"})
    memory = machine.memory << 20 if physical else None
    symbols = build.symbols(machine.image)
    cpus = machine.cpus if physical and machine.icount else 1
    read, write = os.pipe()
    # It is closed in any case: else nothing would end the reading.
    with ThreadPoolExecutor(max_workers=1) as reader, os.fdopen(write, "wb") as report:
        reading = reader.submit(
            _core.record_guest, read, trace, walks_of(trace), metadata, memory, symbols
        )
        result = guest.run(
            replace(machine, cpus=cpus, plugin=plugin, report=report),
            [str(marks), *command],
            cwd=cwd,
            env=env,
            stdout=sys.stdout.buffer if show else None,
            stderr=sys.stderr.buffer if show else None,
        )
        if result.ending is not guest.Ending.EXIT:
            report.close()
            trouble = reading.exception()
            also = f"\nof the recording: {trouble}" if trouble else ""
            raise PagelabError(f"{result.describe()}{also}")
        recorded = Recorded.model_validate_json(reading.result())
    return result, recorded


def _writable(trace: Path) -> None:
    """Before a guest boots; what is there stays until there is something else."""
    there = trace.exists()
    with cannot("write", trace), trace.open("ab"):
        pass
    if not there:
        trace.unlink()


def judge(walks: Path) -> Judged:
    """Compare a list of walks with what the simulator's page tables read."""
    return Judged.model_validate_json(_core.judge_walks(walks))
