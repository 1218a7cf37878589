"""Records a program and simulates it on a machine, with small and with huge pages."""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pagelab import jobs, recording
from pagelab.errors import PagelabError
from pagelab.jobs import Simulation
from pagelab.measuring.agreement import Predicted, in_turns
from pagelab.measuring.looks import Buffers
from pagelab.measuring.native import HugePages
from pagelab.measuring.suite import Program
from pagelab.progress import Display
from pagelab.recorded import summary
from pagelab.results import Recording, Run
from pagelab.sources import Trace
from pagelab.window import Window

# Signals that end all that runs in a terminal or a job; the recorder hands them on to the program.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def record(
    program: Program, pages: HugePages, limit: int | None, directory: Path, display: Display
) -> tuple[Path, Recording]:
    """Records a program as the native runs had it, at most `limit` accesses.

    Raises PagelabError when it cannot be recorded, or fails there though it ran natively, and
    KeyboardInterrupt when somebody ends it.
    """
    trace = directory / f"{program.name}.trace"
    with (
        jobs.stoppable() as stop,
        _environment(pages.environment),
        recording.stdout_to_stderr(when=True),
    ):
        # Without code no line of it is fetched, and no prefetcher follows instructions.
        outcome = recording.record(
            program.command, trace, Window(limit=limit), display, stop, code=True
        )
    if stop.wanted or outcome.signal in _ENDING:
        trace.unlink(missing_ok=True)
        raise KeyboardInterrupt
    recording.check(outcome)
    if outcome.signal or outcome.exit_status:
        raise PagelabError(f"under the recorder it failed: {summary(outcome)}")
    return trace, outcome


def simulate_in_turns(
    trace: Path,
    machine: str,
    design: str,
    policies: list[str],
    overrides: list[str],
    shares: Mapping[Buffers, float],
    display: Display,
) -> list[Predicted]:
    """As `simulate`, on cores with such buffers for such shares of the time; empty: with theirs."""
    if not shares:
        return simulate(trace, machine, design, policies, overrides, display)
    each = [
        simulate(trace, machine, design, policies, [*overrides, *buffers.overrides], display)
        for buffers in shares
    ]
    return [in_turns(list(shares.values()), of) for of in zip(*each, strict=True)]


def simulate(
    trace: Path,
    machine: str,
    design: str,
    policies: list[str],
    overrides: list[str],
    display: Display,
) -> list[Predicted]:
    """One prediction for each `memory.page_policy`; raises as `jobs.all_whole` does."""
    source = Trace(trace).describe(Window())
    work = [
        Simulation(
            label=f"{trace.stem}, {policy} pages",
            design=design,
            machine=machine,
            overrides=[*overrides, f'memory.page_policy="{policy}"'],
            source=source,
        )
        for policy in policies
    ]
    return [of(run) for run in jobs.all_whole(work, display)]


def of(run: Run) -> Predicted:
    """Processor time: of all cores, so that threads add up as they do in rusage."""
    cycles = run.cycles
    kernel = cycles.faults + cycles.zeroing + cycles.migrations
    return Predicted(
        program=(cycles.total - kernel) / cycles.frequency_hz,
        kernel=kernel / cycles.frequency_hz,
        faults=run.os.faults,
    )


@contextmanager
def _environment(more: dict[str, str]) -> Iterator[None]:
    kept = {key: os.environ.get(key) for key in more}
    os.environ.update(more)
    try:
        yield
    finally:
        for key, value in kept.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value
