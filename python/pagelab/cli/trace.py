"""`pagelab trace`: looks into traces and converts them."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from pagelab import _core, progress, recording, units
from pagelab import window as window_
from pagelab.cli import options
from pagelab.errors import PagelabError, UsageError
from pagelab.jobs import Stop
from pagelab.recorded import summary
from pagelab.sources import parse_workload

app = typer.Typer(help="Look into traces and convert them.", no_args_is_help=True)

_File = Annotated[Path, typer.Argument(metavar="TRACE", help="The trace file.")]


@app.callback()
def _main() -> None:
    # Nothing here has a partial result to save: let Ctrl-C end the compiled part at once.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@app.command(epilog="Example:  pagelab trace info sort.trace")
def info(file: _File, as_json: options.Json = False) -> None:
    """Say what a trace holds, and whether it is whole. Reads it to its end.

    Exits with 1 when it cannot be read to its end; what is printed is of what comes before.
    """
    facts = json.loads(_core.trace_info(str(file)))
    if as_json:
        typer.echo(json.dumps(facts, indent=1))
    elif facts["total"]["accesses"] or not facts["error"]:
        _print(facts)
    if facts["error"]:
        raise PagelabError(facts["error"])


# ChampSim's format is written as the first two of these, and no other format at all.
_COMPRESSED = (".xz", ".gz", ".bz2", ".zst")


def _format(output: Path, *, champsim: bool) -> str:
    """The format that a name asks for, which is not always what its user has in mind.

    Raises UsageError where it asks for what is not written.
    """
    plain = Path(output.stem) if output.suffix in _COMPRESSED[:2] else output
    if plain.suffix in (".champsim", ".champsimtrace"):
        if champsim:
            return "ChampSim's format"
        raise UsageError(
            f"{output}: only recordings are written in ChampSim's format, by `pagelab trace "
            "convert`; name it .trace, .csv or .lackey"
        )
    if output.suffix in _COMPRESSED:
        raise UsageError(
            f"{output}: only ChampSim's format is written compressed, as .champsim.xz or "
            f".champsim.gz; leave out {output.suffix}"
        )
    return {".csv": "CSV", ".lackey": "Lackey's format"}.get(output.suffix, "pagelab's format")


def _say(count: int, what: str, output: Path, form: str) -> None:
    size = units.size(output.stat().st_size)
    typer.echo(f"{count:,} {what} in {output}, {form} ({size})", err=True)


@contextmanager
def _nothing_empty(output: Path) -> Iterator[None]:
    """Takes a file away again in which nothing could be written.

    What holds a part stays, and so does what was there before.
    """
    there = output.exists()
    try:
        yield
    except _core.Error:
        if not there and output.is_file() and not output.stat().st_size:
            output.unlink()
        raise


def _incomplete(facts: dict[str, Any]) -> str:
    return f"no: the {'rest cannot be read' if facts['error'] else 'end is missing'}"


def _print(facts: dict[str, Any]) -> None:
    total, accesses = facts["total"], facts["total"]["accesses"] or 1
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    rows = [
        ("format", facts["format"]),
        ("complete", "yes" if facts["complete"] else _incomplete(facts)),
        ("file", f"{units.size(facts['file_bytes'])}, {facts['bytes_per_access']:.2f} B an access"),
        ("accesses", f"{total['accesses']:,}"),
        ("instructions", f"{total['instructions']:,}"),
        ("loads, stores", f"{total['loads']:,}, {total['stores']:,}"),
        ("prefetches", f"{total['prefetches']:,}"),
        ("by the kernel", f"{total['kernel']:,}"),
        ("dependent on a load", units.percent(total["dependent"] / accesses)),
        ("mispredicted branches", f"{total['mispredicted']:,}"),
        ("touched", f"{units.size(facts['pages'] * 4096)} in 4 KiB pages"),
    ]
    if facts["skipped_accesses"]:
        left_out = units.count(facts["skipped_accesses"])
        rows.append(("left out", f"{left_out} accesses in {facts['gaps']:,} places"))
    if facts["passed_over"]:
        rows.append(("passed over", f"{facts['passed_over']:,} lines that are not Lackey's"))
    for process in facts["processes"]:
        calls = ", ".join(f"{count} {kind}" for kind, count in process["controls"].items())
        threads = len(process["threads"])
        rows.append((f"process {process['process']}", f"{threads} threads; {calls or 'no events'}"))
    rows += list(facts["metadata"].items())
    for row in rows:
        table.add_row(*row)
    Console().print(table, highlight=False)


@app.command(epilog="Example:  pagelab trace cat --skip 1M --limit 20 sort.trace")
def cat(
    file: _File,
    skip: options.Skip = None,
    limit: options.Limit = None,
    sample: options.Sample = None,
    in_instructions: options.InInstructions = False,
) -> None:
    """Print the events of a trace as CSV lines: kind,addr,size,gap,dep."""
    window = window_.parse(skip, limit, sample, in_instructions)
    _core.trace_cat(str(file), json.dumps(asdict(window)))


@app.command(epilog="Example:  pagelab trace convert champsim.trace.xz sort.trace")
def convert(
    file: _File,
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="The file to write.")],
    quiet: options.IsQuiet = False,
) -> None:
    """Convert a trace: to CSV, Lackey or ChampSim when OUTPUT ends so, else to pagelab's format.

    For ChampSim's format (OUTPUT.champsim, .champsimtrace, with .xz or .gz behind it if it is to be
    compressed) the program must not be recorded with --no-code; its first thread is written.

    Reads pagelab's own traces, ChampSim's two formats, Valgrind Lackey's text and CSV, told by
    their content; all but pagelab's own may be compressed (gz, xz, bz2, zst).
    """
    form = _format(output, champsim=True)
    options.tell_of_cut([file])
    with _nothing_empty(output):
        count = _core.trace_convert(str(file), str(output))
    if not quiet:
        _say(count, "instructions" if form.startswith("ChampSim") else "accesses", output, form)


@app.command(epilog="Example:  pagelab trace write -w bfs:footprint=256MiB bfs.trace")
def write(
    workload: Annotated[
        str, typer.Option("--workload", "-w", help="A built-in program (pagelab list workloads).")
    ],
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="The file to write.")],
    skip: options.Skip = None,
    limit: options.Limit = None,
    sample: options.Sample = None,
    sampled: options.Sampled = False,
    full: options.Full = False,
    windows: options.Windows = None,
    quiet: options.IsQuiet = False,
) -> None:
    """Write a built-in program's events into a trace, or CSV or Lackey when OUTPUT ends so."""
    window = window_.parse(skip, limit, sample)
    source = parse_workload(workload, options.windows(sampled, full, windows))
    form = _format(output, champsim=False)
    with _nothing_empty(output):
        accesses = _core.trace_write(json.dumps(source.describe(window)), str(output))
    if not quiet:
        _say(accesses, "accesses", output, form)


@app.command(epilog="Example:  pagelab trace finish sort.trace.words")
def finish(
    words: Annotated[
        Path, typer.Argument(metavar="WORDS", help="What `pagelab record --defer` has left.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The trace file to write; by default WORDS less .words."),
    ] = None,
    keep_words: Annotated[
        bool, typer.Option("--keep-words", help="Keep WORDS when the trace is made.")
    ] = False,
    as_json: options.Json = False,
    quiet: options.IsQuiet = False,
) -> None:
    """Make the trace of a recording that was interrupted, or whose words were kept.

    WORDS must be of this very build of pagelab. It is removed when all of it is in the trace.
    """
    if out is None and words.suffix != ".words":
        raise UsageError(f"{words} does not end in .words: name the trace with --out")
    trace = out or words.with_suffix("")
    with progress.display(Console(stderr=True), quiet=quiet) as display:
        outcome = recording.finish(words, trace, display, Stop(), keep_words=keep_words)
    if as_json:
        typer.echo(outcome.model_dump_json(indent=1))
    elif not quiet:
        typer.echo(f"pagelab: {summary(outcome)}", err=True)
    recording.check(outcome)
