"""Pages of the site that are made and not written: a hook of mkdocs (mkdocs.yml).

The home page is README.md. Commands describe themselves by their help; keys of a machine and fields
of a result by the schemas that the compiled part gives. None of these pages is a file: they are as
new as the program. In every page `docs/NAME.md` and `docs/NAME.md, "Heading"` become links, which
mkdocs checks, and `<!-- table: NAME.csv -->` and `<!-- file: NAME.txt -->` what the file has.
"""

import csv
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import accuracy_table
import machines_table
from markdown.extensions.toc import slugify
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from typer.main import get_command

from pagelab import _core
from pagelab.cli import app

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^(```.*?^```|(?: {4}|\t)[^\n]*)$", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"^<!-- table: (\S+) -->$", re.MULTILINE)
INCLUDED = re.compile(r"^<!-- file: (\S+) -->$", re.MULTILINE)
MENTION = re.compile(r"`?\bdocs/([\w/-]+\.(?:md|ipynb))`?(?:,\s\"([^\"]+)\")?")
KEYS = """# Keys of a machine

A machine is a TOML file or a preset; `--set KEY=VALUE` changes one key. A key whose default is
“none” may be left out, and `--set KEY=none` takes it out of a preset. The column `dpt-paper` has
that preset's values. docs/simulate.md explains how the parts work together, docs/machines.md where
the presets' figures are from.

"""
# Units by how a name ends, or by its table; other numbers count what their meaning says.
UNITS = {
    "ns": re.compile(r"(_|\b)ns$"),
    "cycles": re.compile(
        r"cycles(_a_line)?$|^core\.(misprediction|execution\.arithmetic\..*)$"
        r"|^cycles\.(?!frequency)|^walks\.(latency\.(?!histogram)|mean_with_wait|walker_wait)"
        r"|^(per_core|windows)\[\](\.after)?\."
        r"(data|faults|fetch|migrations|mispredictions|recoverable|translation|zeroing|compute)$"
    ),
    "GB/s": re.compile(r"gigabytes_per_second$"),
    "GHz": re.compile(r"ghz$"),
    "Hz": re.compile(r"_hz$"),
    "KiB": re.compile(r"(_|\b)kib$"),
    "MiB": re.compile(r"(_|\b)mib$"),
    "bytes": re.compile(r"bytes(_per_row)?$|strides\.longest$|zone_starts$|stack_limit$"),
    "frames": re.compile(r"^memory_map\[\]\."),
    "µs": re.compile(r"_us$"),
}
FIELDS = """# Fields of a result

`pagelab simulate --json` prints one run, schema `pagelab.run/2`; the `result.json` of `compare` has
a list of them as `runs`. Columns of the Parquet file have the same names, joined by dots.

"""
# typer has click's classes under names of its own.
Command = Any
Context = Any
Schema = dict[str, Any]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are made."""
    pages = {
        "index.md": (ROOT / "README.md").read_text(encoding="utf-8").replace("](docs/", "]("),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        "reference/commands.md": commands(),
        "reference/machine.md": machine_keys(),
        "reference/result.md": result_fields(),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Makes links of pages named in running text, and leaves the notebook out of the search."""
    if page.file.src_uri.startswith("notebook/"):
        # What it names was there on its day.
        page.meta["search"] = {"exclude": True}
        return markdown
    folder = str(PurePosixPath(page.file.src_uri).parent)

    def link(found: re.Match[str]) -> str:
        name, heading = found.groups()
        if "NAME" in name:
            return found[0]
        target = os.path.relpath(name, folder)
        anchor = f"#{slugify(heading, '-')}" if heading else ""
        return f"[{f'“{heading}”' if heading else title(name)}]({target}{anchor})"

    markdown = TABLE.sub(lambda found: made_table(found[1]), markdown)
    markdown = INCLUDED.sub(included, markdown)
    parts = FENCE.split(markdown)
    # What the pattern matches is at odd places.
    return "".join(part if at % 2 else MENTION.sub(link, part) for at, part in enumerate(parts))


def title(name: str) -> str:
    """What a page is called: its first heading up to a colon."""
    page = ROOT / "docs" / name
    if page.suffix != ".md" or not page.exists():
        return name
    first = page.read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix("# ").partition(":")[0]


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table, whose cells have no line of their own to break."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell(one) for one in line) + " |" for line in lines)


def made_table(name: str) -> str:
    """The table of a file of values, or one of presets, of workloads or of accuracy."""
    if name == "presets":
        return "\n".join(machines_table.lines())
    if name == "workloads":
        rows = [(f"`{one}`", *said.split("; ", 1)) for one, said in _core.workloads()]
        return table(("name", "what it does", "parameters of its own, defaults"), rows)
    if name.startswith("accuracy:"):
        return table(*accuracy_table.table(name.partition(":")[2], accuracy_table.read()))
    with (ROOT / "docs" / name).open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    return table(tuple(head), [tuple(row) for row in rows])


def included(found: re.Match[str]) -> str:
    """A file, by its path from docs/, as a block of text or of code."""
    file = ROOT / "docs" / found[1]
    language = "rust" if file.suffix == ".rs" else "text"
    return f"```{language}\n{file.read_text(encoding='utf-8').rstrip()}\n```"


def cell(text: str) -> str:
    """Text on one line, with bars that do not end a cell."""
    return " ".join(text.split()).replace("|", "\\|")


def commands() -> str:
    """Every command by its own help."""
    root = get_command(app)
    context = root.make_context("pagelab", [], resilient_parsing=True)
    return "# Commands\n\nEach is what `--help` prints.\n\n" + "\n".join(
        section(command, inner, path) for command, inner, path in below(root, context, ["pagelab"])
    )


def below(
    command: Command, context: Context, path: list[str]
) -> Iterator[tuple[Command, Context, list[str]]]:
    """The commands of a command, each followed by its own."""
    for name in command.list_commands(context) if hasattr(command, "list_commands") else []:
        one = command.get_command(context, name)
        inner = one.make_context(name, [], parent=context, resilient_parsing=True)
        yield one, inner, [*path, name]
        yield from below(one, inner, [*path, name])


def section(command: Command, context: Context, path: list[str]) -> str:
    """One command."""
    name = " ".join(path)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    lines = [f"{'#' * min(len(path), 3)} {name}", "", f"    {usage}", "", command.help or "", ""]
    rows = []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record and "--help" not in parameter.opts:
            term, said = record
            if parameter.param_type_name == "argument":
                term = parameter.metavar or parameter.name.upper()
            rows.append((f"`{term}`", said))
    if rows:
        lines += [table(("option", "meaning"), rows), ""]
    if command.epilog:
        example = re.sub(r"^Example:\s*", "", command.epilog)
        lines += ["Example:", "", *(f"    {line.strip()}" for line in example.splitlines()), ""]
    return "\n".join(lines)


def machine_keys() -> str:
    """Every key of a machine's description."""
    schema = json.loads(_core.machine_schema())
    preset = json.loads(_core.machine("dpt-paper", []))
    text = KEYS
    tables: list[tuple[str, Schema]] = [("", schema)]
    for place, (name, keys) in enumerate(tables, 1):
        rows, inside = [], []
        for key, value in properties(keys):
            path = f"{name}.{key}" if name else key
            kind, inner = resolve(schema, value)
            if inner is not None and "properties" in inner:
                inside.append((path, inner | {"description": said(value, inner)}))
                continue
            default = "none" if nullable(value) else shown(value.get("default"))
            if "default" not in value and key in keys.get("required", []):
                default = "required"
            type_ = with_unit(kind, path)
            rows.append((f"`{path}`", type_, default, shown(at(preset, path)), said(value, inner)))
        # The tables in a table follow it.
        tables[place:place] = inside
        text += f"## {name}\n\n{prose(keys)}\n\n" if name else ""
        if rows:
            text += table(("key", "type, unit", "default", "`dpt-paper`", "meaning"), rows) + "\n\n"
    return text


def result_fields() -> str:
    """Every field of a run's result."""
    schema = json.loads(_core.run_schema())
    text = FIELDS
    tables: list[tuple[str, Schema]] = [("", schema)]
    seen = {"MachineConfig"}
    for place, (name, fields) in enumerate(tables, 1):
        rows, inside = [], []
        for key, value in properties(fields):
            path = f"{name}.{key}" if name else key
            kind, inner = resolve(schema, value)
            described = said(value, inner)
            title = reference(value)
            if key == "machine" and not name:
                described += " Its keys: [machine](machine.md)."
            elif inner is not None and "properties" in inner and title not in seen:
                seen.add(title)
                inside.append((path + ("[]" if value.get("type") == "array" else ""), inner))
            rows.append((f"`{path}`", with_unit(kind, path), described))
        tables[place:place] = inside
        if name:
            text += f"## {name}\n\n{prose(fields)}\n\n"
        text += table(("field", "type, unit", "meaning"), rows) + "\n\n"
    return text


def properties(schema: Schema) -> list[tuple[str, Schema]]:
    """Names and schemas of a table's members."""
    return list(schema.get("properties", {}).items())


def reference(value: Schema) -> str:
    """The name of a value's type, of several types the first with a name; "" for none."""
    items = value.get("items")
    choices = [value, *value.get("anyOf", []), *([items] if isinstance(items, dict) else [])]
    return next((one["$ref"].rpartition("/")[2] for one in choices if "$ref" in one), "")


def resolve(schema: Schema, value: Schema) -> tuple[str, Schema | None]:
    """What a value's type is called, and the type if it has a name."""
    name = reference(value)
    if not name:
        return plain(value), None
    inner: Schema = schema["$defs"][name]
    if "properties" in inner:
        return ("list of tables" if value.get("type") == "array" else "table"), inner
    names = [str(one["const"]) for one in inner.get("oneOf", []) if "const" in one]
    names += [str(one) for one in inner.get("enum", [])]
    return (", ".join(f"`{one}`" for one in names) or plain(inner)), inner


def plain(value: Schema) -> str:
    """A type without a name."""
    kinds = value.get("type", "any")
    names = [kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind != "null"]
    return {"object": "table", "array": "list"}.get(names[0], names[0])


def with_unit(kind: str, path: str) -> str:
    """A type, and the unit of what is counted or measured."""
    units = (unit for unit, names in UNITS.items() if names.search(path))
    return ", ".join([kind, *units]) if kind in ("integer", "number", "list") else kind


def nullable(value: Schema) -> bool:
    """Whether a value may be left out."""
    return "null" in value.get("type", []) or {"type": "null"} in value.get("anyOf", [])


def said(value: Schema, inner: Schema | None) -> str:
    """What is said of a value, and of each name that it may have."""
    text = str(value.get("description") or (inner or {}).get("description", ""))
    for one in (inner or {}).get("oneOf", []):
        # A name, or a table that has one among its keys.
        keys = one.get("properties", {})
        name = one.get("const", keys.get("name", {}).get("const"))
        if name is not None and "description" in one:
            text += f" `{name}`: {one['description']}"
            for key, value in keys.items():
                text += f" `{key}`: {value['description']}" if "description" in value else ""
    return text


def prose(schema: Schema) -> str:
    """A description's paragraphs."""
    return str(schema.get("description", ""))


def shown(value: object) -> str:
    """A value as TOML would have it; "" for one that is not there."""
    return "" if value is None else f"`{json.dumps(value)}`"


def at(config: object, path: str) -> object:
    """The value of a key; None for one that is not there."""
    for key in path.split("."):
        config = config.get(key) if isinstance(config, dict) else None
    return config
