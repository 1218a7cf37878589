"""`pagelab trace`: looks into traces and converts them."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from pagelab import _core, units
from pagelab.cli import options

app = typer.Typer(help="Look into traces and convert them.", no_args_is_help=True)

_File = Annotated[Path, typer.Argument(metavar="TRACE", help="The trace file.")]


@app.command(epilog="Example:  pagelab trace info sort.trace")
def info(file: _File, as_json: options.Json = False) -> None:
    """Say what a trace holds, and whether it is whole."""
    facts = json.loads(_core.trace_info(str(file)))
    if as_json:
        typer.echo(json.dumps(facts, indent=1))
        return
    width = max(len(key) for key in facts)
    for key, value in facts.items():
        typer.echo(f"{key:{width}}  {_text(key, value)}")


def _text(key: str, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return units.size(value) if key.endswith("bytes") else f"{value:,}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


@app.command(epilog="Example:  pagelab trace cat --skip 1M --limit 20 sort.trace")
def cat(file: _File, skip: options.Skip = None, limit: options.Limit = None) -> None:
    """Print the events of a trace as CSV lines: kind,addr,size,gap,dep."""
    window = options.window(skip, limit, None)
    out = sys.stdout.buffer
    _core.trace_cat(str(file), window.skip, window.limit, out.write)
    out.flush()


@app.command(epilog="Example:  pagelab trace convert champsim.trace.xz sort.trace")
def convert(
    file: _File,
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="The file to write.")],
    quiet: options.IsQuiet = False,
) -> None:
    """Convert a ChampSim, Lackey or CSV trace to pagelab's own format, or to CSV by its name."""
    accesses = _core.trace_convert(str(file), str(output))
    if not quiet:
        size = output.stat().st_size
        typer.echo(f"{accesses:,} accesses in {output} ({units.size(size)})", err=True)
