"""A program's walks and faults by function, and the model's predictions for each setting."""

import os
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pagelab import advice, annotating, api, granted, live, units
from pagelab.advising import perf_stat
from pagelab.advising.candidates import UNCHANGED, Candidate
from pagelab.advising.serving import Load, working
from pagelab.annotating import By
from pagelab.errors import InterruptedRunError
from pagelab.machine import MachineBase
from pagelab.measuring import kind
from pagelab.measuring.native import Run as Measured
from pagelab.results import Comparison, Run
from pagelab.window import OF_PROGRAMS

# Page sizes that memory is backed with, by the kernel's mode.
_PAGES = {"always": "2M", "madvise": "madvise", "never": "4K"}
# A program is ended after as many seconds of recording, once for each setting.
SECONDS = 60.0
_GLIMPSE_SECONDS = 5.0
# Rows that are named, and the least share that makes one worth it.
_ROWS = 3
_WORTH = 0.1


@dataclass(frozen=True)
class Why:
    """Predictions by the name of a setting, and what is known of the unchanged program."""

    machine: str
    predicted: dict[str, float]
    unchanged: Run
    by_site: Comparison
    """Of 4 KiB and 2 MiB pages, with who allocates; the library that tells is recorded, too."""
    notes: list[str]
    """Sentences on settings whose huge pages found no free block, and on what was recorded."""
    perf: str
    """The command line of `perf stat` that shows it."""
    expected: dict[str, dict[str, float]]
    """Its counts by event and setting."""
    load: Load | None = None
    """The server's, of a server."""

    def where(self) -> list[str]:
        """Sentences on the functions that walks and faults are in."""
        run = self.unchanged
        parts: list[tuple[str, By, float]] = [
            ("Page walks", "walk_cycles", run.share("translation")),
            ("Page faults", "faults", run.share("faults") + run.share("zeroing")),
        ]
        found = []
        for what, by, of_all in parts:
            rows = annotating.ordered(annotating.functions(run), by)
            total = sum(getattr(row, by) for row in rows)
            shares = [
                (row.function or row.place, getattr(row, by) / total) for row in rows if total
            ]
            named = [f"{name} ({share:.0%})" for name, share in shares[:_ROWS] if share >= _WORTH]
            text = f"{what} take {of_all:.1%} of the time"
            found.append(f"{text}, in {', '.join(named)}." if named else f"{text}.")
        return [*found, *self.notes]


def ask(
    command: Sequence[str],
    candidates: list[Candidate],
    *,
    machine: MachineBase | str | None,
    progress: bool,
    seconds: float = SECONDS,
    load: Load | None = None,
    measured: Sequence[Measured] = (),
) -> Why:
    """Records the program as it is and with each setting, and simulates it on a machine.

    What it spends in the kernel is compared with runs that were `measured`. A `load` makes it a
    server, which ends when that has. Each recording ends after so many `seconds`. Raises
    PagelabError when it cannot be recorded.
    """
    own = _PAGES[advice.huge_pages() or "never"]
    described = _described(machine)
    simulated = partial(_compared, command, seconds=seconds, progress=progress, load=load)
    without = [one for one in candidates if one.policy == "none"]
    sizes = [own, *(["4K"] if without and own != "4K" else [])]
    unchanged = simulated({}, sizes, described)
    base = next(run for run in unchanged.runs if run.pages == own)
    runs = {UNCHANGED: base}
    runs |= {one.name: run for one in without for run in unchanged.runs if run.pages == "4K"}
    ended = _ended(unchanged)
    notes: list[str] = []
    for one in candidates:
        if one.policy == "own":
            with_it = simulated(*_modelled(one, described, own))
            ended |= _ended(with_it)
            run = runs[one.name] = with_it.runs[0]
            if said := granted.why_none(run) or granted.fell_back(run):
                notes.append(f"{one.name}: {said}.")
    if any(run.of_beginning for run in runs.values()):
        ended = True
        runs = {name: live.beginning(run) for name, run in runs.items()}
    base = runs[UNCHANGED]
    predicted = {name: base.elapsed / run.elapsed for name, run in runs.items() if run is not base}
    if ended:
        # They have not come to the same place.
        for name in predicted:
            predicted[name] *= _instructions(runs[name]) / _instructions(base)
        done = units.count(_instructions(base))
        notes.append(
            f"Predictions and expected counts are of the first {done} instructions: of what the "
            f"program does in {units.duration(seconds)} under the emulator, or of what was taken "
            "whole where its memory is larger than the last level of cache."
        )
    notes += _in_kernel(measured, base)
    by_site = simulated({}, ["4K", "2M"], described, sites=True)
    found = perf_stat.events(base.machine_name)
    return Why(
        base.machine_name,
        predicted,
        base,
        by_site,
        notes,
        perf_stat.command(found, command),
        perf_stat.expected(found, runs),
        load,
    )


def _in_kernel(measured: Sequence[Measured], base: Run) -> Iterator[str]:
    """A sentence where the program spends more in the kernel than the model knows of."""
    shares = [run.system / (run.user + run.system) for run in measured if run.user + run.system]
    share = statistics.median(shares) if shares else 0.0
    known = base.share("faults") + base.share("zeroing")
    if share > known + _WORTH:
        yield (
            f"The kernel takes {share:.0%} of the program's time here, and {known:.0%} in the "
            "model, which has no time of system calls: settings change less than it says."
        )


def glimpse(command: Sequence[str], *, machine: MachineBase | str | None) -> str:
    """A line on what 2 MiB pages would do to a program's first seconds.

    Raises PagelabError when it cannot be recorded, InterruptedRunError after Ctrl-C.
    """
    found = _compared(
        command,
        {},
        ["4K", "2M"],
        _described(machine),
        seconds=_GLIMPSE_SECONDS,
        progress=False,
    )
    if found.interrupted:
        raise InterruptedRunError("interrupted before all settings had run once")
    small, huge = found.runs
    return (
        f"so far: 2M pages {found.speedup(huge):.2f} times faster than 4K in the model of "
        f"{huge.machine_name}, of its first {units.count(_instructions(small))} instructions"
    )


def _compared(
    command: Sequence[str],
    environment: dict[str, str],
    pages: list[str],
    machine: MachineBase,
    *,
    seconds: float,
    progress: bool,
    sites: bool = False,
    load: Load | None = None,
) -> Comparison:
    """Comparison of page sizes, simulated while the program is recorded."""
    worked = nullcontext() if load is None else working(load)
    with _given(environment), _output_thrown_away(), worked:
        return api.compare(
            list(command),
            ["radix"],
            machine=machine,
            pages=pages,
            window=OF_PROGRAMS,
            sites=sites,
            heat_map=sites,
            seconds=seconds,
            progress=progress,
        )


def _described(machine: MachineBase | str | None) -> MachineBase:
    """The machine that is simulated: of this processor's kind, unless another is wanted."""
    named = machine or kind.describe()[0]
    return named if isinstance(named, MachineBase) else MachineBase(named)


def _modelled(
    candidate: Candidate, machine: MachineBase, own: str
) -> tuple[dict[str, str], list[str], MachineBase]:
    """Variables of a recording, page sizes and machine that a candidate is simulated with."""
    if "PAGELAB_CODE" in candidate.environment:
        # The machine copies code, and the library, whose work would be recorded, does not.
        return {}, [own], machine.set("memory.huge_code=true")
    return candidate.environment, [_size(candidate, own)], machine


def _size(candidate: Candidate, own: str) -> str:
    """The pages that a setting of the whole system gives, as `--pages` has them."""
    for setting in candidate.kernel:
        name, _, value = setting.partition("=")
        if name == "folio-kib":
            return f"{value}K" if int(value) < 1024 else "1M"
        if name == "thp":
            return _PAGES[value]
    return own


def _ended(comparison: Comparison) -> bool:
    """True if the program was not recorded to its end."""
    recorded = comparison.recording
    return recorded is not None and recorded.ended_after is not None


def _instructions(run: Run) -> int:
    return run.instructions if run.sample is None else run.sample.instructions


@contextmanager
def _given(environment: dict[str, str]) -> Iterator[None]:
    """Variables that recorded programs have besides."""
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _output_thrown_away() -> Iterator[None]:
    """Standard output of programs that are recorded; a file that they read begins anew."""
    if Path("/proc/self/fd/0").is_file():
        os.lseek(0, 0, os.SEEK_SET)
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
