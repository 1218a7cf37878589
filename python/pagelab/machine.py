"""A machine: a preset or a file, and the keys of it that are changed.

`pagelab.machines` has the presets.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from pagelab import systems
from pagelab.design import Value, assignments, check
from pagelab.measuring import here


@dataclass(frozen=True)
class MachineBase:
    """Base of `pagelab.machines.Machine`, which adds a method for each table of keys.

    `base` is a preset's name, the path of a TOML file, or "here" for the machine in front of you,
    which is measured when it is first used; `changes` are `KEY.KEY=VALUE`.
    """

    base: str
    changes: tuple[str, ...] = ()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The machine of a TOML file. Raises UsageError when it cannot be read."""
        return cls(os.fspath(path)).check()

    def set(self, *changes: str) -> Self:
        """The machine with keys changed as the command line's `--set` does it.

        Raises UsageError for a key that it does not have and for a value that it cannot have.

        >>> from pagelab import machines
        >>> machines.dpt_paper.set("tlb.l2_cycles=9").config["tlb"]["l2_cycles"]
        9
        """
        return replace(self, changes=(*self.changes, *changes)).check()

    @cached_property
    def config(self) -> dict[str, Any]:
        """Every key with its value; the site's reference (`make docs`) says what each means."""
        return check(self.file(), list(self.changes))

    def file(self, say: Callable[[str], None] = lambda _: None) -> str:
        """The preset's name or the file that it is in; `say` is told when it is measured first."""
        if self.base != here.NAME:
            return self.base
        return str(here.preset(say))

    @property
    def name(self) -> str:
        """Name in results."""
        return str(self.config["name"])

    def _with(self, table: str, keys: Mapping[str, Value]) -> Self:
        """The machine with keys of a table changed that a method was given."""
        prefix = f"{table}." if table else ""
        given = {key: value for key, value in keys.items() if key != "self"}
        return self.set(*assignments(given, prefix))

    def check(self) -> Self:
        """Itself. Raises UsageError; what is not measured yet is not looked at."""
        if self.base != here.NAME:
            check(self.base, list(self.changes))
        return self

    def __str__(self) -> str:
        return self.base if not self.changes else f"{self.base} with {', '.join(self.changes)}"

    def __repr__(self) -> str:
        return f"Machine('{self}')"


def manager(text: str | None) -> list[str]:
    """The change of the machine that names a memory manager: `bandwidth:weights=3:2`."""
    return [] if text is None else [systems.manager(text)]
