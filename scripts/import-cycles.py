#!/usr/bin/env python3
"""Fails where files of a crate import from each other, directly or by way of others.

What a file names by `use`, or by a path from `crate`, `super` or `self`, is followed through what
others give away (`pub use`, no import) to the file that defines it. Not followed is what is named
by way of a module (`module::item`), as lists of all designs or workloads do. Tests may import what
they like.
"""

import re
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
Name = tuple[str, ...]

COMMENT = re.compile(r"//.*")
TESTS = re.compile(r"#\[cfg\(test\)\]\s*mod \w+ \{.*", re.DOTALL)
USE = re.compile(r"(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
PATH = re.compile(r"\b(?:crate|super|self)(?:::\w+)+")


class Crate:
    """The files of a crate, by the names of their modules."""

    def __init__(self, source: Path) -> None:
        self.source = source
        files = [
            file for file in source.rglob("*.rs") if "test" not in str(file.relative_to(source))
        ]
        self.files = {self.module(file): file for file in files}
        self.texts = {module: text_of(file) for module, file in self.files.items()}
        self.given = dict(self.gives_away())

    def module(self, file: Path) -> Name:
        """The name of the module that a file is."""
        names = file.relative_to(self.source).with_suffix("").parts
        return names[:-1] if names[-1] in ("mod", "lib", "main") else names

    def gives_away(self) -> list[tuple[Name, Name]]:
        """Names that modules have for what is another's, and whose it is."""
        found = []
        for module, text in self.texts.items():
            for public, tree in USE.findall(text):
                for path, alias in leaves(tree):
                    target = self.absolute(module, path)
                    if public and target is not None:
                        found.append(((*module, alias), target))
        return found

    def absolute(self, module: Name, path: str) -> Name | None:
        """What a path in a module names, from the root of the crate; None for another crate's."""
        names = path.split("::")
        if names[0] == "crate":
            return tuple(names[1:])
        if names[0] not in ("self", "super"):
            return (*module, *names) if (*module, names[0]) in self.files else None
        while names and names[0] in ("self", "super"):
            module = module[:-1] if names[0] == "super" else module
            names = names[1:]
        return (*module, *names)

    def defining(self, name: Name, depth: int = 0) -> Name | None:
        """The module that defines what is named."""
        for length in range(len(name), -1, -1):
            head = name[:length]
            if head in self.given and depth < 16:
                return self.defining((*self.given[head], *name[length:]), depth + 1)
            if head in self.files:
                return head
        return None

    def imports(self) -> dict[Name, set[Name]]:
        """Of each module, those that it imports from."""
        found: dict[Name, set[Name]] = {module: set() for module in self.files}
        for module, text in self.texts.items():
            uses = [
                leaf for public, tree in USE.findall(text) if not public for leaf, _ in leaves(tree)
            ]
            paths = PATH.findall(USE.sub("", text))
            for path in uses + paths:
                target = self.absolute(module, path)
                of = self.defining(target) if target is not None else None
                if of is not None and of != module:
                    found[module].add(of)
        return found


def text_of(file: Path) -> str:
    """What a file says, but for comments and tests."""
    return TESTS.sub("", COMMENT.sub("", file.read_text(encoding="utf-8")))


def leaves(tree: str) -> list[tuple[str, str]]:
    """The paths of a `use`, each with the name that it has here."""
    tree = " ".join(tree.split())
    if not tree.endswith("}"):
        path, _, alias = tree.partition(" as ")
        return [(path, alias or path.rsplit("::", 1)[-1])]
    prefix, _, rest = tree.partition("{")
    parts, depth, last = [], 0, 0
    for at, letter in enumerate(rest):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if (letter == "," and depth == 0) or depth < 0:
            parts.append(rest[last:at].strip())
            last = at + 1
    return [leaf for part in parts if part for leaf in leaves(prefix + part)]


def main() -> int:
    """The exit status."""
    failed = 0
    for manifest in sorted(ROOT.glob("crates/**/Cargo.toml")):
        crate = Crate(manifest.parent / "src")
        try:
            TopologicalSorter(crate.imports()).prepare()
        except CycleError as error:
            names = [str(crate.files[module].relative_to(ROOT)) for module in error.args[1]]
            print(f"FAILED: these import from each other: {' <- '.join(names)}", file=sys.stderr)
            failed += 1
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
