"""`pagelab linux`, and `agree`, which needs the simulator as well."""

import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter

from pagelab import environment, pages, recording, units
from pagelab.agreeing import suite as programs
from pagelab.agreeing.compare import compare
from pagelab.agreeing.counts import Agreement
from pagelab.agreeing.in_guest import Laboratory
from pagelab.agreeing.program import Program, alike
from pagelab.agreeing.setting import SUITE, Setting
from pagelab.agreeing.table import HEAD, row, summary
from pagelab.errors import PagelabError, UsageError, runs_a_program
from pagelab.linux import build as kbuild
from pagelab.linux import cli as linux
from pagelab.linux import layout

app = linux.app


@app.command(context_settings={"ignore_unknown_options": True})
@runs_a_program
def agree(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="What to run; put -- before it. With --suite: names of programs."),
    ] = None,
    suite: Annotated[
        bool, typer.Option("--suite", help="Twelve programs in eight settings, as a table.")
    ] = False,
    settings: Annotated[
        bool, typer.Option("--settings", help="The program in the settings of --suite.")
    ] = False,
    page_sizes: Annotated[
        str, typer.Option("--pages", help="Page sizes that are on: 4K, 64K, 2M, madvise, 2M+64K.")
    ] = "4K",
    kernel: linux.Kernel = layout.VERSION,
    debug: linux.Debug = None,
    append: linux.Append = "",
    memory: linux.Memory = 2048,
    timeout: Annotated[int, typer.Option(help="Stop a program after so many seconds.")] = 600,
    memory_max: Annotated[
        str | None,
        typer.Option("--max", help="The most memory that it may have, e.g. 64MiB; the rest swaps."),
    ] = None,
    memory_manager: Annotated[
        str | None,
        typer.Option(
            "--manager", help="Its memory is of a file system: basicmfs, bwmfs:weights=3:2."
        ),
    ] = None,
    max_ptes_none: Annotated[
        int | None,
        typer.Option("--khugepaged", help="khugepaged works, with this max_ptes_none: 0 to 511."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run a program in a guest and in the simulator, and compare what its memory needed."""
    most = None if memory_max is None else units.parse_size(memory_max)
    one = Setting(pages.parse(page_sizes), append, memory_manager, most, max_ptes_none)
    chosen = SUITE if suite or settings else (one,)
    if len(chosen) > 1 and one != Setting():
        raise UsageError("--suite and --settings have settings of their own")
    of_them = [] if suite else [_given(command)]
    where, options = layout.find(kernel), tuple(debug or ())
    machine = linux.guest_of(where, debug, "", memory, 1, 1, "tcg")
    for setting in chosen:
        kbuild.need_designs(where, options, setting.append)
    laboratory = Laboratory(where, machine, timeout, options)
    with ExitStack() as files:
        if suite:
            # Files in memory, as a guest's are.
            made = tempfile.TemporaryDirectory(prefix="pagelab-agree-", dir="/dev/shm")
            folder = Path(files.enter_context(made))
            of_them = _of_suite(folder, command)
            laboratory = replace(laboratory, inputs=folder / "inputs")
        found = _printed(
            compare(laboratory, of_them, chosen, _say), rows=len(chosen) > 1 and not as_json
        )
    if as_json:
        print(TypeAdapter(list[Agreement]).dump_json(found, indent=1).decode())
    elif len(chosen) == 1:
        if found[0].failed:
            raise PagelabError(found[0].failed)
        print(found[0].table())


def _printed(compared: Iterable[Agreement], *, rows: bool) -> list[Agreement]:
    """All of them; each is a row as soon as it is there, if there are to be `rows`."""
    found: list[Agreement] = []
    if rows:
        print(HEAD, flush=True)
    for one in compared:
        if rows:
            print(row(one, found[-1].program if found else ""), flush=True)
        found.append(one)
    if rows:
        print(summary(found))
    return found


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _given(command: Sequence[str] | None) -> Program:
    if not command:
        raise UsageError("no program is named")
    recording.find(command[0])
    path = Path(shutil.which(command[0]) or command[0]).absolute()
    return Program(path.name, [str(path), *command[1:]], alike(environment.given()))


def _of_suite(folder: Path, only: Sequence[str] | None) -> list[Program]:
    made, missing = programs.programs(folder, only or None)
    for name in missing:
        _say(f"{name} is not installed, and left out")
    return made
