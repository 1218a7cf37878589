import os
from collections.abc import Callable
from pathlib import Path

class Error(Exception):
    """What went wrong in the compiled part, in words for the user."""

class ProgramError(Error):
    """The program to be recorded cannot be run, or not be recorded."""

def version() -> str:
    """The version of the compiled module."""

def run_schema() -> str:
    """JSON Schema of what `simulate` returns."""

def machine_schema() -> str:
    """JSON Schema of a machine's description, but for `base`."""

def designs() -> list[tuple[str, str]]:
    """Names of the page-table designs, each with a line that describes it."""

def design(name: str) -> tuple[str, str, str, list[str], bool]:
    """A design by its name: its whole name, its page table and its TLB.

    Then the tables of a machine's keys that are its own, the page table's first, and whether a
    comparison takes it unless told. Raises Error.
    """

def machines() -> list[tuple[str, str]]:
    """Names of the machine presets, each with a line that describes it."""

def workloads() -> list[tuple[str, str]]:
    """Names of the built-in workloads, each with a line that describes it."""

def workload_parameters(name: str) -> list[tuple[str, str, int, int, int]]:
    """Name, description, default, least and largest value of what can be set. Raises Error."""

def check_source(source: str) -> None:
    """Whether the workloads of a source, as for `simulate`, can be started. Raises Error."""

def build(design: str, machine: str, overrides: list[str]) -> None:
    """Builds the machine of a design, and nothing more. Raises Error where it cannot be."""

def hash_collisions(entries: int, pages: int, seed: int) -> int:
    """How many of so many random pages find their entry of a hashed table taken."""

def replay_ranges(
    machine: str,
    overrides: list[str],
    entries: int,
    ranges: list[tuple[int, int, int]],
    accesses: Path,
) -> tuple[int, int, int, int]:
    """Replays page accesses of a guest against the machine's TLB, and with a range TLB beside it.

    `ranges` are first page, pages and first frame; `accesses` is a file of linux/guest/pages.c.
    Returns accesses, walks without and with the range TLB, and accesses outside all ranges.
    Raises Error.
    """

def managers() -> list[tuple[str, str]]:
    """Names of the memory managers, each with a line that describes it."""

def simulate(
    design: str,
    machine: str,
    overrides: list[str],
    source: str,
    progress: Callable[[int, int | None], bool],
    so_far: Callable[[str], None] | None = None,
) -> str:
    """Runs one design over one source and returns the JSON of the run.

    `machine` is a preset or a TOML file, `overrides` are KEY.KEY=VALUE, `source` is JSON.
    `progress` is called about ten times a
    second, from this thread, with the accesses done and the accesses in all (None while that is
    not known); the run ends early, marked incomplete, when it returns False. The interpreter
    lock is released in between. `so_far` is called about once a second with the JSON of what is
    known of one source, up to its last whole window. A trace with `"follow": true`
    is read while it is written, up to its end. Raises Error.
    """

def trace_is_cut(path: str | os.PathLike[str]) -> bool:
    """Whether a file of pagelab's own format ends without its index. Raises Error."""

def trace_headers(path: str) -> bytes | None:
    """What tells a trace by its content: the headers of its blocks, with their checksums.

    None for what is not a file of pagelab's own format. Raises Error.
    """

def machine(name: str, overrides: list[str]) -> str:
    """The JSON of a preset or file after its overrides. Raises Error when something is wrong."""

def record(
    command: list[str],
    output: str,
    window: str,
    options: str,
    progress: Callable[..., bool],
) -> str:
    """Runs a program under the recorder and returns the JSON of the outcome.

    `window` is JSON: skip, limit, sample as [taken, period], in_instructions. So is `options`:
    follow_exec, code, cpu (QEMU's -cpu), words (the file for them if the trace is made afterwards),
    keep_words, without (names of variables that the program is not to have), and what `emulator`
    takes. `progress` is as for `simulate`; with words it is told
    how many there are, and then, as a third argument, how many bytes of how many are made a trace.
    Raises Error, and ProgramError for what is wrong with the program.
    """

def finish_recording(words: Path, output: Path, keep: bool, progress: Callable[..., bool]) -> str:
    """Makes the trace of words that `record` has left; returns the JSON of the outcome.

    They are removed when all of them are in the trace, unless it is to `keep` them. Raises Error.
    """

def record_guest(
    report: int,
    trace: Path,
    walks: Path,
    metadata: str,
    memory: int | None,
    symbols: Path | None,
) -> str:
    """Writes a trace, and a list of walks, of what linux/guest/system.c reports.

    `report` is a descriptor, which is closed; it is read until it ends. `metadata` is a JSON object
    of strings. All spaces are one process, by
    physical addresses, if the guest's `memory` is given, in bytes. `symbols` is the
    kernel's System.map, which names its functions. Returns the JSON of
    `pagelab.linux.recording.Recorded`. Raises Error.
    """

def judge_walks(walks: Path) -> str:
    """The JSON of `pagelab.linux.recording.Judged`: walks beside the simulator's. Raises Error."""

def emulator(options: str) -> str:
    """The JSON of the emulator to record with: the fields of `pagelab.emulator.Emulator`.

    `options` is JSON: qemu (the one to take) or null, bundled (the one to prefer) or null, and
    plugins, the folder of the recorder's plugin. Raises Error when there is none that loads it.
    """

def trace_info(path: str) -> str:
    """What a trace holds, as JSON. Raises Error."""

def trace_cat(path: str, window: str) -> None:
    """Writes the events of a part of a trace to standard output as CSV lines.

    `window` is as for `record`. Raises Error, and BrokenPipeError when the reader has gone.
    """

def trace_write(source: str, output: str) -> int:
    """Writes the events of a source, as for `simulate`, into a file of the format it is named for.

    Returns the accesses written. Raises Error.
    """

def trace_convert(path: str, output: str) -> int:
    """Converts a trace into the format that the output's name asks for.

    Returns the accesses written, of ChampSim's format the instructions. Raises Error.
    """
