"""What `annotate` prints of names that are other people's."""

import io

from rich.console import Console

import canned
from pagelab import annotating
from pagelab.counts import Line, MappingCosts
from pagelab.results import Comparison

COSTS = dict.fromkeys(("accesses", "walks", "fault_cycles", *annotating.COLUMNS), 1)


def test_names_neither_steer_the_terminal_nor_push_the_figures_out() -> None:
    name = "/\x1b]0;title\x07\u202e[bold]" + "\N{CJK UNIFIED IDEOGRAPH-6F22}" * 50
    place = {"object": name, "function": name, "file": name, "line": 1, "text": f"\t{name}"}
    line = Line.model_validate(COSTS | place | {"row": "line", "inlined_into": [], "program": 0})
    memory = MappingCosts.model_validate(COSTS | {"kind": "file", "name": name, "program": 0})
    comparison = Comparison.model_validate(canned.comparison())
    update = {"lines": [line], "mappings": [memory], "changed_files": [name]}
    run = comparison.baseline.model_copy(update=update)
    output = io.StringIO()
    annotating.show(comparison, run, Console(file=output, width=80), "walk_cycles", 10)
    lines = output.getvalue().splitlines()
    assert all(line.isprintable() for line in lines)
    rows = [line.split() for line in lines if "100.0" in line]
    # Functions, lines and memory.
    assert [row[:4] for row in rows] == [["100.0"] * 4] * 3


def test_what_is_in_no_file_is_a_jits_unless_an_address_names_it() -> None:
    place = dict.fromkeys(("object", "file", "line", "text")) | {"inlined_into": []}

    def module(function: str | None, row: str) -> str:
        of = COSTS | place | {"function": function, "row": row, "program": 0}
        return Line.model_validate(of).module

    assert module("LazyCompile:~add", "line") == "[JIT]"
    assert module("0x401000", "line") == ""
    assert module(None, "unknown") == ""


def test_what_has_no_name_is_called_by_what_there_is() -> None:
    place = dict.fromkeys(("function", "line", "text")) | {"inlined_into": [], "row": "line"}

    def line(**known: str) -> Line:
        of = COSTS | place | {"object": "/usr/lib/libc.so.6", "file": None, "program": 0}
        return Line.model_validate(of | known)

    named = line(function="libc.so.6+0x2a1f0")
    assert (named.place, named.position) == ("libc.so.6+0x2a1f0", "libc.so.6+0x2a1f0")
    # The file is another one by now.
    assert (line().place, line().position) == ("libc.so.6", "libc.so.6")
    assert line(file="/src/rtld.c").position == "rtld.c"
