"""Results as tables of Arrow and polars."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pagelab.errors import PagelabError

if TYPE_CHECKING:
    import polars
    import pyarrow


def arrow(rows: Sequence[Mapping[str, Any]]) -> "pyarrow.Table":
    """A table of a row each; nested fields become columns with dotted names, lists stay lists.

    >>> arrow([{"design": "radix", "cycles": {"total": 3}}]).column_names
    ['design', 'cycles.total']
    """
    import pyarrow

    flattened = [flat(row) for row in rows]
    columns = dict.fromkeys(key for row in flattened for key in row)
    return pyarrow.table({key: column([row.get(key) for row in flattened]) for key in columns})


def csv(table: "pyarrow.Table") -> str:
    """A table as RFC 4180 has it; without columns of lists, for which it has no place."""
    import pyarrow
    from pyarrow import csv

    plain = [name for name in table.column_names if not pyarrow.types.is_nested(table[name].type)]
    sink = pyarrow.BufferOutputStream()
    csv.write_csv(table.select(plain), sink)
    return str(sink.getvalue().to_pybytes(), "utf-8")


def polars_frame(table: "pyarrow.Table") -> "polars.DataFrame":
    """The same in polars. Raises PagelabError where polars is not installed."""
    try:
        import polars
    except ImportError as error:
        raise PagelabError("polars is not installed:  pip install 'pagelab[polars]'") from error
    frame = polars.from_arrow(table)
    assert isinstance(frame, polars.DataFrame)
    return frame


def column(values: list[Any]) -> "pyarrow.Array":
    """A column of a table; text, where runs give values of different types."""
    import pyarrow

    try:
        return pyarrow.array(values)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OverflowError):
        # Runs of different designs may give one name to values of different types, and whole
        # numbers may be larger than Arrow's.
        return pyarrow.array([None if value is None else str(value) for value in values])


def flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one, its keys joined by dots."""
    found: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, dict):
            found |= flat(item, f"{prefix}{key}.")
        else:
            found[prefix + key] = item
    return found
