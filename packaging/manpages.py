"""Manual pages of every command, made from the commands' own help; man(7) is the format.

manpages.py FOLDER      writes pagelab.1, pagelab-compare.1, ...
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

import pagelab
from pagelab.cli import app

# typer has click's classes under names of its own, and stubs of neither are public.
Command = Any
Context = Any


def pages() -> Iterator[tuple[str, str]]:
    """Name and text of each page."""
    root = get_command(app)
    yield from _pages(root, root.make_context("pagelab", [], resilient_parsing=True), [])


def _pages(command: Command, context: Context, above: list[str]) -> Iterator[tuple[str, str]]:
    path = [*above, context.info_name]
    names = command.list_commands(context) if hasattr(command, "list_commands") else []
    below = [(name, command.get_command(context, name)) for name in names]
    yield "-".join(path), _page(command, context, path, below)
    for name, one in below:
        inner = one.make_context(name, [], parent=context, resilient_parsing=True)
        yield from _pages(one, inner, path)


def _page(
    command: Command, context: Context, path: list[str], below: list[tuple[str, Command]]
) -> str:
    name = "-".join(path)
    summary, _, rest = (command.help or "").partition("\n")
    lines = [
        f'.TH {name.upper()} 1 "" "pagelab {pagelab.__version__}"',
        ".SH NAME",
        f"{_text(name)} \\- {_text(summary.strip().rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {_text(' '.join(path))}",
        _text(" ".join(command.collect_usage_pieces(context))),
        ".SH DESCRIPTION",
        *_paragraphs(summary, rest),
    ]
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.get_params(context) if one.param_type_name == "option"]
    for title, given in (("ARGUMENTS", arguments), ("OPTIONS", options)):
        described = [
            (one, record) for one in given if (record := one.get_help_record(context)) is not None
        ]
        if described:
            lines += [f".SH {title}"]
        for one, (term, said) in described:
            if title == "ARGUMENTS":  # whose type says nothing to a person
                term = one.metavar or one.name.upper()
            lines += [".TP", f".B {_text(term)}", _text(" ".join(said.split())) or "\\&"]
    if below:
        lines += [".SH COMMANDS"]
        for inner, one in below:
            said = (one.help or "").partition("\n")[0]
            lines += [".TP", f".BR {_text(f'{name}-{inner}')} (1)", _text(said)]
    if command.epilog:
        lines += [".SH EXAMPLES" if command.epilog.startswith("Example") else ".SH NOTES"]
        lines += _paragraphs(*(re.sub(r"^Example:\s*", "", command.epilog).splitlines()))
    if len(path) > 1:
        lines += [".SH SEE ALSO", f".BR {_text('-'.join(path[:-1]))} (1)"]
    return "\n".join(lines) + "\n"


def _paragraphs(*texts: str) -> Iterator[str]:
    paragraphs = [" ".join(one.split()) for one in re.split(r"\n\s*\n|\f", "\n".join(texts))]
    for number, paragraph in enumerate(filter(None, paragraphs)):
        if number:
            yield ".PP"
        yield _text(paragraph)


def _text(markdown: str) -> str:
    """A line of running text: what roff would take for its own is escaped, `code` is bold."""
    text = markdown.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"`([^`]+)`|\*\*([^*]+)\*\*", lambda m: f"\\fB{m[1] or m[2]}\\fP", text)
    # A line that begins with one of these would be a request.
    return re.sub(r"^([.'])", r"\\&\1", text)


def write(folder: Path) -> None:
    """All pages, into a folder that is made."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages():
        (folder / f"{name}.1").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
