"""What a part of the reproduction is, and what its results depend on."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pagelab.errors import PagelabError
from pagelab.linux import guest, kept, suite
from pagelab.linux.layout import Layout
from pagelab.linux.page import Chart

Say = Callable[[str], None]
# What a part measures: it is kept as JSON, and is the same when it is read back.
Data = Any


@dataclass(frozen=True)
class Part:
    """One table or figure.

    `measure` takes minutes and returns JSON; `render` makes Markdown of that and of what the
    experiment's file says about the paper; `charts` gets the title, and both, too.
    """

    name: str
    title: str
    measure: Callable[[Layout, Data, Say], Data]
    render: Callable[[Data, Data], str]
    charts: Callable[[str, Data, Data], list[Chart]] = lambda *_: []


def job(layout: Layout, name: str) -> suite.Job:
    """The one job of a benchmark's entry.

    Raises:
        PagelabError: its kernel is not built.

    """
    (found,) = suite.load(layout.linux / "bench", [name])
    suite.need_kernel(layout, found)
    return found


def run(layout: Layout, found: suite.Job) -> tuple[list[Data], list[list[int]]]:
    """The JSON objects a benchmark prints, and as many lines of counts.

    Raises:
        PagelabError: the benchmark failed, or there is not a line of counts for each object.

    """
    verdict, result = suite.run(layout, found)
    if verdict is not suite.Verdict.PASS:
        said = result.stderr.decode(errors="replace")
        raise PagelabError(f"{found.name} failed: {result.describe()}\n{said}")
    lines = result.stdout.decode().splitlines()
    printed = [json.loads(line) for line in lines if line.startswith("{")]
    counted = result.files.get(guest.COUNTS, b"").decode().splitlines()
    counts = [[int(word) for word in line.split()] for line in counted]
    if len(counts) != len(printed):
        raise PagelabError(f"{len(printed)} samples, but {len(counts)} pairs of marks were passed")
    return printed, counts


def fingerprint(layout: Layout, plan: Data) -> str:
    """Of all that results depend on: the kernel, the modules, the benchmarks, what is asked."""
    folders = [layout.linux / name for name in ("modules", "bench/fbmm", "guest", "tests/foliomap")]
    files = [path for folder in folders for path in sorted(folder.rglob("*"))]
    return kept.fingerprint(plan, [layout.image(), *files])
