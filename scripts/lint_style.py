#!/usr/bin/env python3
"""Refuses words and shapes that make sources hard to read: a part of `make lint`.

- A comment or docstring, in Rust or Python, that begins with a relative clause ("What is counted",
  "Whether a page is mapped"): it begins with a noun or a verb.
- A function of Rust, Python or C of more than 100 lines.
- A page of more words than its shelf has, unless it says why: `<!-- words 3000: the reason -->`.
- A line of prose of more than 120 characters, in comments and on pages.

The file scripts/openings.toml has what may stand, a count for each file, which may only fall. A
file that moves takes its line in there along.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

Place = tuple[int, str]
Counts = dict[str, dict[str, int]]
Found = dict[str, dict[str, list[Place]]]

RATCHET = "scripts/openings.toml"
RULES = {
    "openings": "comments begin with a relative clause",
    "functions": "functions have more than 100 lines",
    "lines": "lines of prose have more than 120 characters",
    "pages": "words too many",
}
CLAUSE = re.compile(r"(?:What|Whether|How|Where|Who|Whose|Which|Why|Of|Those)\b")
FUNCTION_LINES = 100
LINE_CHARACTERS = 120
# An address, which no line can hold otherwise.
LONGEST_WORD = 80
# The first that fits.
PAGE_WORDS = (("docs/guide/", 1500), ("docs/developers/", 1500), ("", 2500))
EXCEPTION = re.compile(r"<!-- words (\d+): (\S.*) -->")
# Dated, and not edited afterwards.
NOTEBOOK = "docs/notebook/"

# In Rust and C: what may hold braces that are none.
LITERAL = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|r(?P<hashes>\#*)".*?"(?P=hashes)"""
    r"""|"(?:\\.|[^"\\])*"|'(?:\\[^\n]{1,10}?|[^'\\\n])'""",
    re.DOTALL,
)
RUST_FUNCTION = re.compile(r"\bfn\s+(\w+)")
C_FUNCTION = re.compile(
    r"^(?!struct |enum |union )\w[^\n;={]*\n?[^\n;={}]*\)[^;={}]*\n\{$", re.MULTILINE
)


def without_words(found: re.Match[str]) -> str:
    """A match's lines, empty, so that what follows keeps its number."""
    return "\n" * found[0].count("\n")


def rust_comments(text: str) -> Iterator[Place]:
    """Lines of comments; a line that goes on with a comment begins with a blank."""
    before = (0, "")
    for found in LITERAL.finditer(text):
        if not (found["comment"] or "").startswith("//"):
            continue
        mark, said = re.match(r"(//[/!]?) ?(.*)", found[0]).groups()  # type: ignore[union-attr]
        line = 1 + text.count("\n", 0, found.start())
        alone = not text[text.rfind("\n", 0, found.start()) + 1 : found.start()].strip()
        yield line, (" " if alone and before == (line - 1, mark) else "") + said
        before = (line, mark) if alone else (0, "")


def python_comments(text: str) -> Iterator[Place]:
    """The same of comments and docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and (said := ast.get_docstring(node)):
            for at, one in enumerate(said.splitlines()):
                yield node.body[0].lineno + at, (" " if at else "") + one
    before = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            alone = not token.line[:column].strip()
            said = token.string.removeprefix("#").removeprefix(" ")
            yield line, (" " if alone and before == line - 1 else "") + said
            before = line if alone else 0


def closing(code: str, at: int, opening: str, closed: str) -> int:
    """The place of the bracket that closes the one at `at`."""
    depth = 0
    for place in range(at, len(code)):
        depth += (code[place] in opening) - (code[place] in closed)
        if depth == 0:
            return place
    return len(code)


def rust_functions(text: str) -> Iterator[Place]:
    """Functions that are too long."""
    code = LITERAL.sub(without_words, text)
    for found in RUST_FUNCTION.finditer(code):
        at = found.end()
        while at < len(code) and code[at] not in "{;":
            at = 1 + (closing(code, at, "([", ")]") if code[at] in "([" else at)
        if at < len(code) and code[at] == "{":
            yield from too_long(code, found.start(), closing(code, at, "{", "}"), found[1])


def c_functions(text: str) -> Iterator[Place]:
    """The same, of functions whose braces have lines of their own."""
    code = LITERAL.sub(without_words, text)
    for found in C_FUNCTION.finditer(code):
        end = closing(code, found.end() - 1, "{", "}")
        yield from too_long(code, found.start(), end, found[0].split("(")[0])


def too_long(code: str, start: int, end: int, name: str) -> Iterator[Place]:
    """A function from one place to another, if it is too long."""
    lines = code.count("\n", start, end) + 1
    if lines > FUNCTION_LINES:
        yield 1 + code.count("\n", 0, start), f"{name}: {lines} lines"


def python_functions(text: str) -> Iterator[Place]:
    """The same, without decorators."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield node.lineno, f"{node.name}: {lines} lines"


def page_lines(text: str) -> Iterator[Place]:
    """Lines of prose on a page: no code, no table, no line that is one address."""
    text = re.sub(r"^ *```.*?^ *```", without_words, text, flags=re.DOTALL | re.MULTILINE)
    for line, said in enumerate(text.splitlines(), 1):
        if said and not said.startswith(("    ", "\t", "|")):
            yield line, said


def wide(lines: Iterable[Place], width: list[str]) -> Iterator[Place]:
    """Lines that are too wide in the file, unless one word of them is as wide."""
    for line, said in lines:
        longest = max(map(len, said.split()), default=0)
        if len(width[line - 1]) > LINE_CHARACTERS and longest < LONGEST_WORD:
            yield line, said


def page_words(name: str, text: str) -> Iterator[Place]:
    """A place for each word too many."""
    limit = next(words for prefix, words in PAGE_WORDS if name.startswith(prefix))
    if found := EXCEPTION.search(text):
        limit = int(found[1])
    words = len(text.split())
    yield from [(1, f"{words} words, {limit} at most")] * (words - limit)


def findings(name: str, text: str) -> dict[str, list[Place]]:
    """All that is wrong with a file, by rule."""
    width = text.split("\n")
    suffix = Path(name).suffix
    if suffix == ".md":
        lines = list(wide(page_lines(text), width))
        return {"lines": lines, "pages": list(page_words(name, text))}
    if suffix == ".c":
        return {"functions": list(c_functions(text))}
    rust = suffix == ".rs"
    comments = list((rust_comments if rust else python_comments)(text))
    clauses = [(line, said) for line, said in comments if CLAUSE.match(said)]
    functions = list((rust_functions if rust else python_functions)(text))
    return {"openings": clauses, "functions": functions, "lines": list(wide(comments, width))}


def sources(root: Path) -> Iterator[str]:
    """Files that are looked at, if git knows them."""
    patterns = ["crates/*.rs", "python/*.py", "linux/*.c", "*.md"]
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.check_output(command, cwd=root, text=True)
    for name in sorted(listed.split("\0")):
        if name and not name.startswith(NOTEBOOK) and (root / name).is_file():
            yield name


def text_of(counts: Counts) -> str:
    """The file of counts."""
    text = "# What scripts/lint_style.py finds and lets stand; a count may only fall.\n"
    for rule, files in counts.items():
        text += f"\n[{rule}]\n" + "".join(f'"{name}" = {n}\n' for name, n in files.items())
    return text


def compare(found: Found, allowed: Counts) -> tuple[int, Counts]:
    """The number of counts that rose, all printed, and the counts that may stand from here on."""
    rose = 0
    kept: Counts = {}
    for rule, files in found.items():
        before = allowed.get(rule, {})
        for name, places in files.items():
            if len(places) > before.get(name, 0):
                may = before.get(name, 0)
                print(f"FAILED: {name}: {len(places)} {RULES[rule]}; {may} may stand")
                print("".join(f"  line {line}: {said}\n" for line, said in places[:9]), end="")
                rose += 1
        fewer = {name: min(n, len(files.get(name, []))) for name, n in sorted(before.items())}
        kept[rule] = {name: n for name, n in fewer.items() if n}
    return rose, kept


def main() -> int:
    """The exit status."""
    options = argparse.ArgumentParser(description="Lints words: the script says more.")
    options.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    options.add_argument("--count", action="store_true", help="print the counts")
    options.add_argument("--lower", action="store_true", help="let stand what is there and no more")
    options.add_argument("--list", nargs="+", default=[], metavar="FILE", help="print each place")
    given = options.parse_args()
    found: Found = {rule: {} for rule in RULES}
    words = 0
    for name in sources(given.root):
        text = (given.root / name).read_text(encoding="utf-8")
        words += len(text.split()) if name.endswith(".md") else 0
        for rule, places in findings(name, text).items():
            if places:
                found[rule][name] = places
            for line, said in places if name in given.list else []:
                print(f"{name}:{line}: {said.strip()}")
    ratchet = given.root / RATCHET
    allowed: Counts = tomllib.loads(ratchet.read_text()) if ratchet.exists() else {}
    rose, kept = compare(found, allowed)
    fallen = sum(sum(allowed[rule].values()) - sum(kept[rule].values()) for rule in allowed)
    if given.count:
        for rule, files in found.items():
            print(f"{sum(map(len, files.values())):6} {RULES[rule]}")
        print(f"{words:6} words on all pages")
    if given.lower:
        ratchet.write_text(text_of(kept))
    elif fallen:
        print(f"{RATCHET}: {fallen} fewer than may stand; scripts/lint_style.py --lower")
    return int(rose > 0)


if __name__ == "__main__":
    sys.exit(main())
