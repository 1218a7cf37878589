"""A group of commands whose modules are imported when one of them is asked for.

What one command needs (Arrow, Jinja, the models of results) takes longer to import than another
takes to run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group


@dataclass(frozen=True)
class Lazy:
    """Place of a command: a function, or a `typer.Typer` with commands of its own."""

    module: str
    attribute: str
    epilog: str | None = None
    # Options end where the program begins, so that the program keeps its own.
    program_follows: bool = False

    def load(self, name: str) -> Any:
        """Imports it."""
        found = getattr(import_module(self.module), self.attribute)
        parent = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False)
        if isinstance(found, typer.Typer):
            parent.add_typer(found, name=name)
        else:
            options = {"allow_interspersed_args": not self.program_follows}
            parent.command(name, epilog=self.epilog, context_settings=options)(found)
        return get_group(parent).commands[name]


@dataclass
class _Commands(Mapping[str, Any]):
    """Commands by name; each is loaded when it is looked at."""

    lazy: Mapping[str, Lazy]
    loaded: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        if name not in self.loaded:
            self.loaded[name] = self.lazy[name].load(name)
        return self.loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.lazy)

    def __len__(self) -> int:
        return len(self.lazy)


def group(commands: Mapping[str, Lazy]) -> type[TyperGroup]:
    """The class of a group of these commands, in this order."""

    class Group(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands: Any = _Commands(commands)

    return Group
