"""Markdown that reads well as it is on a terminal of 80 columns."""

import textwrap
from collections.abc import Sequence

WIDTH = 80


def paragraph(text: str) -> str:
    """Text in lines of 80 columns."""
    return "\n".join(textwrap.wrap(text, WIDTH, break_on_hyphens=False))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table, its first column to the left and the others to the right."""
    widths = [max(3, *map(len, column)) for column in zip(head, *rows, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = []
    for first, *others in (head, rule, *rows):
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])
