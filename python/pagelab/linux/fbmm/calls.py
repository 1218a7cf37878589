"""Table 4: how often real programs ask for memory, and for how much."""

from pagelab.linux import markdown, suite
from pagelab.linux.fbmm import part
from pagelab.linux.fbmm.part import Data, Say
from pagelab.linux.layout import Layout
from pagelab.measure import probe


def measure(layout: Layout, plan: Data, say: Say) -> Data:
    """The mmap and brk calls of each program, run on this machine under `pagelab-probe calls`."""
    load = suite.compile_program(layout, part.job(layout, "fbmm/memcached-linux"))
    found = {}
    for name, command in plan["programs"].items():
        say(f"counting the calls of {name}")
        program = [str(load) if word == "ZIPF" else word for word in command]
        found[name] = probe.run("calls", lambda _: None, program=program).parts["calls"]
    return found


def render(plan: Data, data: Data) -> str:
    """The paper's programs and ours, in the paper's columns."""
    rows = []
    for name, ours in data.items():
        rows.append([name, "here", *_cells(ours)])
        if name in plan["paper"]:
            rows.append([name, "paper", *map(_number, plan["paper"][name])])
    rows += [
        [name, "paper", *map(_number, values)]
        for name, values in plan["paper"].items()
        if name not in data
    ]
    head = ["program", "", "mmap calls", "brk calls", "average pages", "allocations a second"]
    return markdown.table(head, rows)


def _cells(ours: Data) -> list[str]:
    values = (ours["mmap"], ours["brk"], ours["mean_pages"], ours["per_second"])
    return [_number(value) for value in values]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
