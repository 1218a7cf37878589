"""`pagelab list`: what there is to choose from."""

import json
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from pagelab import _core, systems
from pagelab.errors import unknown


def _machines() -> list[tuple[str, str]]:
    # Readers of measurements take longer to import than all the rest here.
    from pagelab.measuring import here

    return [*_core.machines(), (here.NAME, here.description())]


_KINDS: dict[str, Callable[[], list[tuple[str, str]]]] = {
    "designs": _core.designs,
    "machines": _machines,
    "workloads": _core.workloads,
    "managers": _core.managers,
    "systems": systems.listed,
}


def list_(
    kind: Annotated[str, typer.Argument(help="designs, machines, workloads, managers or systems")],
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List the designs, machines, workloads, memory managers or operating systems."""
    if kind not in _KINDS:
        raise unknown("list", kind, _KINDS)
    entries = _KINDS[kind]()
    if as_json:
        typer.echo(json.dumps([{"name": n, "description": d} for n, d in entries], indent=1))
        return
    if not entries:
        typer.echo(f"There are no {kind} in this version.")
        return
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for entry in entries:
        table.add_row(*entry)
    Console().print(table)
