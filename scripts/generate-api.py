#!/usr/bin/env python3
"""Writes designs.py, tlbs.py, machines.py and workloads.py from the compiled part's own lists.

They are files rather than made at run time so that editors, type checkers and people can read
them. `--check` writes nothing and exits with 1 when one is out of date; tests/test_catalogue.py
runs it.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from textwrap import indent, wrap
from typing import Any

from pagelab import _core

PACKAGE = Path(__file__).resolve().parents[1] / "python" / "pagelab"
PRESET = "dpt-paper"
MADE = "Made by scripts/generate-api.py; do not edit."

# What the compiled part says that it expects, and how Python writes it.
TYPES = {
    "a boolean": "bool",
    "f64": "float",
    "a size in bytes": "int | str",
    "a sequence": "list[Any]",
    "an array": "list[Any]",
    "a string": "str",
}


def keys_of(table: str) -> list[str]:
    """The keys of a table of the machine; of the machine itself for ''."""
    return between_ticks(refusal(f"{table}.{'?'}" if table else "?", "1"))


def type_of(key: str) -> str:
    """The Python type of a key's value."""
    said = refusal(key, '"?"')
    if "unknown variant" in said:
        return f"Literal[{', '.join(map(json.dumps, between_ticks(said)))}]"
    listed = re.search(r"there are (.+?)(?: in `|\n|$)", said)
    if listed:
        return f"Literal[{', '.join(map(json.dumps, listed[1].split(', ')))}]"
    expected = re.search(r"expected (.+)", said)
    what = expected[1] if expected else "a string"
    for known, written in TYPES.items():
        if what.startswith(known):
            return written
    return "int" if re.match(r"[ui]\d+", what) else "Mapping[str, Any]"


def refusal(key: str, value: str) -> str:
    """What is said of a value that a key cannot have; nothing when it can."""
    try:
        _core.machine(PRESET, [f"{key}={value}"])
    except _core.Error as error:
        return str(error).partition(": ")[2]
    return ""


def between_ticks(text: str) -> list[str]:
    """The words after `expected`, of which there may be one, two or many."""
    return re.findall(r"`([^`]+)`", text.partition("expected")[2].partition("\nin ")[0])


def identifier(name: str) -> str:
    """A name as Python can have it."""
    return re.sub(r"\W", "_", name)


def sentence(text: str) -> str:
    """A description as a docstring's first line."""
    return text[0].upper() + text[1:] + "."


def paragraph(text: str) -> str:
    """Text in lines."""
    return "\n".join(wrap(text, 92, initial_indent="- ", subsequent_indent="  "))


def arguments(keys: list[tuple[str, str]]) -> str:
    """Keyword arguments that may be left out: (name, type)."""
    return "".join(f"    {name}: {kind} | None = None,\n" for name, kind in keys)


def function(name: str, given: str, returns: str, doc: str, body: str, *, method: str = "") -> str:
    """The text of a function, or of a method when its first argument is named."""
    first = f"    {method},\n" if method else ""
    return (
        f"def {name}(\n{first}    *,\n{given}) -> {returns}:\n"
        f"{indent(f'''{chr(34) * 3}{doc}{chr(34) * 3}''', '    ')}\n"
        f"    return {body}\n"
    )


def machine_config() -> dict[str, Any]:
    """Every key of a preset, and the tables that it leaves out."""
    config: dict[str, Any] = json.loads(_core.machine(PRESET, []))
    return config | {key: {} for key in keys_of("") if key not in config and keys_of(key)}


def part(name: str, tables: list[str], given: str, returns: str, doc: str, call: str) -> str:
    """The function of a page table or a TLB; keys of a second table have its name before them."""
    keys = [
        (f"{table}_{key}" if at else key, type_of(f"{table}.{key}"))
        for at, table in enumerate(tables)
        for key in keys_of(table)
    ]
    return function(
        identifier(name),
        arguments(keys) + given,
        returns,
        sentence(doc),
        f'{call}("{name}", locals())',
    )


def designs() -> str:
    """pagelab/designs.py."""
    made = [
        f'"""The designs. {MADE}\n\n'
        "A page table with the TLB that processors have; `with_tlb` gives it one of `tlbs`.\n"
        "A key that is left out is as the machine says. Every function raises\n"
        "`pagelab.errors.UsageError` for a value that no machine can have; docs/designs/ has a\n"
        'page a design.\n\n>>> dpt(cpd=False)\nDesign(\'dpt:cpd=false\')\n"""\n\n'
        "from collections.abc import Mapping\nfrom typing import Any, Literal\n\n"
        "from pagelab.design import Design as Design\n"
        "from pagelab.design import changed, names, usual\n\n"
        f"PageSize = {type_of_pages()}\n\n"
    ]
    for name, description in _core.designs():
        if "+" not in name:
            given = "    pages: PageSize | None = None,\n"
            tables = _core.design(name)[3]
            made.append(part(name, tables, given, "Design", description, "changed"))
    made.append(
        "USUAL = tuple(map(Design, usual()))\n"
        '"""Every page table with the TLB that processors have: what a comparison takes unless '
        'told."""\n'
        'ALL = tuple(map(Design, names()))\n"""Every page table with each TLB it goes with."""\n'
    )
    return "\n".join(made)


def tlbs() -> str:
    """pagelab/tlbs.py."""
    made = [
        f'"""The TLBs. {MADE}\n\n'
        "Each is for `Design.with_tlb`. "
        "A key that is left out is as the machine says.\nEvery function raises "
        "`pagelab.errors.UsageError` for a value that no machine can have.\n\n"
        ">>> from pagelab import designs\n>>> designs.radix().with_tlb(range(entries=64))\n"
        'Design(\'radix+range:range.entries=64\')\n"""\n\n'
        "from typing import Any\n\n"
        "from pagelab.design import Tlb as Tlb\nfrom pagelab.design import changed_tlb\n\n"
    ]
    for name, description in _core.designs():
        table, _, tlb = name.partition("+")
        if tlb and table == "radix":
            doc = description.removeprefix(f"{table} with ")
            made.append(part(tlb, [tlb], "", "Tlb", doc, "changed_tlb"))
    return "\n".join(made)


def type_of_pages() -> str:
    """The page sizes."""
    from pagelab.pages import SIZES

    return f"Literal[{', '.join(map(json.dumps, SIZES))}]"


def machines() -> str:
    """pagelab/machines.py."""
    config = machine_config()
    of_designs = {table for name, _ in _core.designs() for table in _core.design(name)[3]}
    every_table = [key for key, value in config.items() if isinstance(value, dict)]
    tables = [table for table in every_table if table not in of_designs]
    made = [
        f'"""The machines. {MADE}\n\n'
        "A machine is not changed: each of its methods returns another one.\n\n"
        '>>> dpt_paper.tlb(l2_cycles=9).memory(memory_bytes="4GiB")\n'
        "Machine('dpt-paper with tlb.l2_cycles=9, memory.memory_bytes=4GiB')\n"
        '"""\n\nfrom collections.abc import Mapping\nfrom dataclasses import dataclass\n'
        "from typing import Any, Literal\n\nfrom pagelab.machine import MachineBase\n\n",
        "@dataclass(frozen=True, repr=False)\nclass Machine(MachineBase):\n"
        '    """A machine; a method for each table of its keys, but for those of designs.\n\n'
        "    Every method raises `pagelab.errors.UsageError` for a value that the machine cannot\n"
        "    have. Keys end in their unit: `ns`, `cycles`, `kib`, `bytes` (a number, or text with\n"
        '    a unit: "4GiB"). docs/simulate.md says what each of them means.\n    """\n',
    ]
    for table in ["", *tables]:
        keys = [key for key in keys_of(table) if table or key not in every_table]
        prefix = f"{table}." if table else ""
        kinds = [(key, type_of(prefix + key)) for key in keys]
        doc = f"Changes keys of `{table}`." if table else "Changes keys that are in no table."
        text = function(
            table or "general",
            arguments(kinds),
            '"Machine"',
            doc,
            f'self._with("{table}", locals())',
            method="self",
        )
        made.append(indent(text, "    "))
    for name, description in _core.machines():
        made.append(f'{identifier(name)} = Machine("{name}")\n"""{sentence(description)}"""\n')
    made.append(
        'here = Machine("here")\n"""The machine in front of you, measured on first use."""\n'
    )
    every = ", ".join(identifier(name) for name, _ in _core.machines())
    made.append(f'ALL = ({every},)\n"""Every preset."""\n')
    return "\n".join(made)


def workloads() -> str:
    """pagelab/workloads.py."""
    listed = _core.workloads()
    of_each = [_core.workload_parameters(name) for name, _ in listed]
    common = [row for row in of_each[0] if all(row in others for others in of_each)]
    made = [
        f'"""The built-in programs. {MADE}\n\n'
        "A parameter is a number, or text with a unit (`10GiB`, `40M`). Every function raises\n"
        "`pagelab.errors.UsageError` for a value out of its range. docs/workloads.md describes\n"
        f"them.\n\nOf every program:\n\n{rows(common)}\n\n"
        '>>> pointer_chase(pages="4k", loads=10_000)\n'
        "Workload('pointer-chase:pages=4k,loads=10000')\n"
        '"""\n\nfrom typing import TypedDict, Unpack\n\n'
        "from pagelab.sources import Workload as Workload\n"
        "from pagelab.sources import workload\n\nQuantity = int | str\n\n\n"
        'class Common(TypedDict, total=False):\n    """Parameters of every program."""\n\n'
        + "".join(f"    {key}: Quantity\n" for key, *_ in common)
    ]
    for (name, description), parameters in zip(listed, of_each, strict=True):
        own = [row for row in parameters if row not in common]
        given = [f'"{key}": {key},' for key, *_ in own]
        doc = f"{sentence(description.partition(';')[0])}\n\n{rows(own)}\n"
        made.append(
            function(
                identifier(name),
                arguments([(key, "Quantity") for key, *_ in own])
                + "    **common: Unpack[Common],\n",
                "Workload",
                doc,
                f'workload("{name}", {{{"".join(given)} **common}})',
            )
        )
    every = ", ".join(identifier(name) for name, _ in listed)
    made.append(f'ALL = ({every},)\n"""Every built-in program, to be called."""\n')
    return "\n".join(made)


def rows(parameters: list[tuple[str, str, int, int, int]]) -> str:
    """Lines on parameters: what each means, its default and its range."""
    return "\n".join(
        paragraph(f"{key}: {says}; {amount(usual)} unless set, {amount(least)} to {amount(most)}.")
        for key, says, usual, least, most in parameters
    )


def amount(value: int) -> str:
    """A number as one would write it."""
    bits = value.bit_length()
    if bits > 20 and value == (1 << bits) - 1:
        return f"2**{bits} - 1"
    if bits > 36 and value == 1 << (bits - 1):
        return f"2**{bits - 1}"
    for shift, unit in ((30, "GiB"), (20, "MiB")):
        if value and value % (1 << shift) == 0:
            return f"{value >> shift}{unit}"
    return f"{value:,}"


def formatted(text: str, name: str) -> str:
    """The text as the project's style has it."""
    ruff = [sys.executable, "-m", "ruff"]
    for command in (["check", "--fix", "-q", "--exit-zero"], ["format", "-q"]):
        text = subprocess.run(
            [*ruff, *command, "--stdin-filename", str(PACKAGE / name), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return text


def main() -> None:
    """Writes or checks the files."""
    stale = []
    for name, make in (
        ("designs.py", designs),
        ("tlbs.py", tlbs),
        ("machines.py", machines),
        ("workloads.py", workloads),
    ):
        text = formatted(make(), name)
        file = PACKAGE / name
        if file.exists() and file.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv[1:]:
            file.write_text(text, encoding="utf-8")
            print(f"wrote {file}")
    if stale and "--check" in sys.argv[1:]:
        sys.exit(f"out of date: {', '.join(stale)}; run scripts/generate-api.py")


if __name__ == "__main__":
    main()
