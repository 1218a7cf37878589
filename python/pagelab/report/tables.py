"""Parts of the report's tables."""

from dataclasses import dataclass
from typing import Any

from pagelab import units


@dataclass(frozen=True)
class Column:
    """A heading of a table, and what it means."""

    name: str
    unit: str
    tip: str


@dataclass(frozen=True)
class Table:
    """A table of the report: a text for each column in each row."""

    columns: list[Column]
    rows: list[list[str]]


def flat(table: dict[Any, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Values of a nested table, names joined by dots; lists of plain values stay whole."""
    out: list[tuple[str, Any]] = []
    for key, value in table.items():
        if nested(value):
            inner = value if isinstance(value, dict) else dict(enumerate(value))
            out += flat(inner, f"{prefix}{key}.")
        else:
            out.append((f"{prefix}{key}", value))
    return out


def nested(value: Any) -> bool:
    """True if a value is a table, or a list of tables or lists."""
    return isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(item, dict | list) for item in value)
    )


def shown(value: Any, key: str = "") -> str:
    """A plain value as people read it; its name says whether it is bytes."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return units.size(value) if key.endswith("bytes") else f"{value:,}"
    if isinstance(value, list):
        return ", ".join(shown(item) for item in value)
    return "none" if value is None else str(value)
