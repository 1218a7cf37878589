"""A design: a page table with a TLB, and what is changed of them.

`pagelab.designs` has one function a page table, `pagelab.tlbs` one a TLB.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pagelab import _core, pages, systems
from pagelab.errors import UsageError, unknown

# A number, text, a truth value, a list of those, or a table of them by key.
Value = Any


@dataclass(frozen=True)
class Tlb:
    """A TLB other than the one that processors have, with its changed keys: `pagelab.tlbs`."""

    name: str
    changes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Tlb('{':'.join([self.name, *self.changes])}')"


@dataclass(frozen=True)
class Design:
    """A page table with a TLB.

    `name` is one of `pagelab list designs`; `changes` are `KEY=VALUE` of the machine's keys that
    are the design's own, without the page table's name before them; `pages` is the page size that
    memory is backed with where it can be, and `system` the operating system (`pagelab.systems`),
    each `None` for what the machine says.

    >>> from pagelab import designs
    >>> designs.dpt(cpd=False)
    Design('dpt:cpd=false')
    >>> designs.radix(levels=5, pages="2M")
    Design('radix:levels=5:pages=2M')
    """

    name: str
    changes: tuple[str, ...] = ()
    pages: str | None = None
    system: str | None = None

    @staticmethod
    def parse(text: str) -> "Design":
        """A design as the command line takes it. Raises UsageError for what is none.

        >>> Design.parse("dpt:cpd=false")
        Design('dpt:cpd=false')
        >>> Design.parse("radix:pages=64K:os=foliomap").overrides
        ['memory.page_policy=64K', 'memory.accounting=foliomap']
        >>> Design.parse("victima")
        Design('radix+victima')
        >>> Design.parse("dtp")
        Traceback (most recent call last):
        ...
        pagelab.errors.UsageError: unknown design 'dtp'; did you mean 'dpt'? Valid: ...
        """
        # An operating system has parameters of its own, and comes last.
        text, _, system = text.partition(":os=")
        name, *changes = text.split(":")
        try:
            name = _core.design(name)[0]
        except _core.Error as error:
            raise unknown("design", name, names()) from error
        size = None
        keys = []
        for change in changes:
            key, equals, value = change.partition("=")
            if not equals:
                raise UsageError(f"'{change}' of {text} is not a change; write it as KEY=VALUE")
            if key == "pages":
                size = pages.parse(value)
            else:
                keys.append(change)
        return Design(name, tuple(keys), size, systems.parse(system) if system else None)

    def with_tlb(self, tlb: Tlb) -> "Design":
        """The page table with another TLB. Raises UsageError where they do not go together.

        >>> from pagelab import designs, tlbs
        >>> designs.radix(levels=5).with_tlb(tlbs.mosaic(pages=16))
        Design('radix+mosaic:levels=5:mosaic.pages=16')
        >>> designs.dpt().with_tlb(tlbs.victima())
        Traceback (most recent call last):
        ...
        pagelab.errors.UsageError: unknown design 'dpt+victima'; ...
        """
        name = f"{self.name}+{tlb.name}"
        if name not in names():
            raise unknown("design", name, names())
        changes = (f"{tlb.name}.{change}" for change in tlb.changes)
        return replace(self, name=name, changes=(*self.changes, *changes))

    @property
    def label(self) -> str:
        """Name in results: everything but the page size."""
        system = [f"os={self.system}"] if self.system else []
        return ":".join([self.name, *self.changes, *system])

    @property
    def title(self) -> str:
        """Name in progress and errors."""
        return self.label if self.pages is None else f"{self.label} {self.pages}"

    @property
    def overrides(self) -> list[str]:
        """The machine's keys with their values, that of the page size among them."""
        _, page_table, _, tables, _ = _core.design(self.name)
        first = tables[0] if tables else page_table
        keys = [
            change if change.split(".")[0] in tables else f"{first}.{change}"
            for change in self.changes
        ]
        if self.pages is not None:
            keys += assignments({"memory.page_policy": pages.policy(self.pages)})
        if self.system is not None:
            keys += systems.overrides(self.system)
        return keys

    def __str__(self) -> str:
        size = [f"pages={self.pages}"] if self.pages else []
        system = [f"os={self.system}"] if self.system else []
        return ":".join([self.name, *self.changes, *size, *system])

    def __repr__(self) -> str:
        return f"Design('{self}')"


def names() -> list[str]:
    """The names of all designs."""
    return [name for name, _ in _core.designs()]


def usual() -> list[str]:
    """Every page table with the TLB that processors have and no virtual machine."""
    return [name for name in names() if _core.design(name)[4]]


def chosen(
    designs: Iterable[Design | str] | None, sizes: Sequence[str] | None = None
) -> list[Design]:
    """Designs to compare, each once. Raises UsageError for designs that there are not.

    A design that does not name a page size is there with each of `sizes`. Without `designs`, every
    page table with the TLB that processors have and no virtual machine, as the others are several
    times as many; with several page sizes, `radix` and `ideal`.

    >>> [str(design) for design in chosen(["radix", "dpt:pages=1G"], ["4K", "2M"])]
    ['radix:pages=4K', 'radix:pages=2M', 'dpt:pages=1G']
    """
    if designs is None and sizes is not None and len(sizes) > 1:
        designs = ["radix", "ideal"]
    if designs is None:
        designs = usual()
    wanted: list[str | None] = list(sizes) if sizes else [None]
    sized = [
        replace(design, pages=size)
        for design in (Design.parse(one) if isinstance(one, str) else one for one in designs)
        for size in ([design.pages] if design.pages else wanted)
    ]
    if not sized:
        raise UsageError(f"no design is named. Valid: {', '.join(names())}")
    return list(dict.fromkeys(sized))


def changed(name: str, given: Mapping[str, Value]) -> Design:
    """A design with some of its keys changed; those that are `None` are not.

    `pages` is the page size; a key of a second table has that's name before it, as `nested_tlb`.
    Raises UsageError for a value that no machine can have.
    """
    keys = dict(given)
    pages = keys.pop("pages")
    for table in _core.design(name)[3][1:]:
        keys = {re.sub(f"^{table}_", f"{table}.", key): value for key, value in keys.items()}
    design = Design(name, tuple(assignments(keys)), pages)
    check("dpt-paper", design.overrides)
    return design


def changed_tlb(name: str, keys: Mapping[str, Value]) -> Tlb:
    """The same of a TLB."""
    tlb = Tlb(name, tuple(assignments(keys)))
    check("dpt-paper", [f"{name}.{change}" for change in tlb.changes])
    return tlb


def check(machine: str, overrides: list[str]) -> dict[str, Any]:
    """The machine with its keys changed, as the compiled part reads it; raises UsageError."""
    if machine.endswith(".toml") and Path(machine).exists() and not Path(machine).is_file():
        # A file that comes through a pipe is gone when it was read once.
        raise UsageError(
            f"{machine} is no regular file, and a machine's file is read several times: copy it "
            "into one"
        )
    try:
        config: dict[str, Any] = json.loads(_core.machine(machine, overrides))
    except _core.Error as error:
        raise UsageError(str(error)) from error
    return config


def assignments(keys: Mapping[str, Value], prefix: str = "") -> Iterable[str]:
    """`KEY=VALUE` of everything in a table that is not `None`; tables in it make dotted keys.

    An empty table is a value.

    >>> list(assignments({"levels": 5, "pwc": {"pmd": {"entries": 64}}, "upper": None}))
    ['levels=5', 'pwc.pmd.entries=64']
    """
    for key, value in keys.items():
        if isinstance(value, Mapping) and value:
            yield from assignments(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}={_toml(value)}"


def _toml(value: Value) -> str:
    """A value as an override has it: a word stands for itself."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        word = re.fullmatch(r"[A-Za-z0-9][\w.-]*", value) and not _read_as_something_else(value)
        return value if word else json.dumps(value)
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key} = {_quoted(item)}" for key, item in value.items())
        return f"{{ {inside} }}"
    if isinstance(value, Iterable):
        return f"[{', '.join(_quoted(item) for item in value)}]"
    return repr(value)


def _quoted(value: Value) -> str:
    return json.dumps(value) if isinstance(value, str) else _toml(value)


def _read_as_something_else(text: str) -> bool:
    if text in ("true", "false"):
        return True
    try:
        float(text.replace("_", ""))
    except ValueError:
        return re.fullmatch(r"0[xob]\w+", text) is not None
    return True
