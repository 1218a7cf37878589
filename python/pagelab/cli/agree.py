"""`pagelab linux`, and `agree`, which needs the simulator as well."""

from typing import Annotated

import typer

from pagelab import guest_agreement, units
from pagelab.errors import runs_a_program
from pagelab.linux import cli as linux
from pagelab.linux import layout

app = linux.app


@app.command(context_settings={"ignore_unknown_options": True})
@runs_a_program
def agree(
    command: Annotated[list[str], typer.Argument(help="What to run; put -- before it.")],
    page_sizes: Annotated[
        str, typer.Option("--pages", help="Page sizes that are on: 4K, 64K, 2M, 2M+64K.")
    ] = "4K",
    kernel: linux.Kernel = layout.VERSION,
    debug: linux.Debug = None,
    append: linux.Append = "",
    memory: linux.Memory = 2048,
    timeout: Annotated[float, typer.Option(help="Stop the guest after so many seconds.")] = 600.0,
    memory_max: Annotated[
        str | None,
        typer.Option("--max", help="The most memory that it may have, e.g. 64MiB; the rest swaps."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run a program in a guest and in the simulator, and compare faults, copies and folios."""
    where = layout.find(kernel)
    machine = linux.guest_of(where, debug, append, memory, 1, 1, "tcg", timeout=timeout)
    most = None if memory_max is None else units.parse_size(memory_max)
    system = _system(kernel, append)
    found = guest_agreement.compare(where, machine, command, page_sizes, system, most)
    print(found.model_dump_json(indent=1) if as_json else found.table())


def _system(kernel: str, append: str) -> str:
    """The simulator's operating system that a kernel is."""
    if "foliomap=on" in append.split():
        return "foliomap"
    return "linux-6.12" if kernel == layout.VERSION else "linux"
