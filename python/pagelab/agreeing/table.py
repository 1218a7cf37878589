"""The table of programs and settings, 80 columns wide."""

import textwrap
from collections.abc import Sequence

from pagelab.agreeing.counts import COLLAPSED, COPIED, FAULTS, KEPT, PLACED, Agreement

_ROW = "{:<14} {:<16} {:>13} {:>6} {:>9} {:>9} {:>7}"
# The most that faults and collapses may differ.
_NEAR, _NEAR_COLLAPSES = 0.01, 0.05


HEAD = _ROW.format("program", "setting", "faults", "", "copied", "kept", "folios")


def row(one: Agreement, before: str) -> str:
    """A program and setting; `before` is the program of the row above.

    A count is "kernel/simulator", or one number where they are equal. Counts without a column are
    in a line below.
    """
    name = "" if one.program == before else one.program
    if one.failed:
        return f"{name:<14} {one.setting:<16} {one.failed.splitlines()[0]}"[:80]
    faults = one.line(FAULTS)
    told = f"{faults.difference:+.1%}" if faults.kernel else ""
    others = (one.line(COPIED), one.line(KEPT), one.folios())
    found = _ROW.format(name, one.setting, str(faults), told, *map(str, others)).rstrip()
    further = ", ".join(f"{line.name} {line}" for line in one.further())
    below = textwrap.wrap(further, 80, initial_indent=" " * 15, subsequent_indent=" " * 15)
    return "\n".join([found, *below])


def summary(found: Sequence[Agreement]) -> str:
    """Lines on all rows."""
    compared = [one for one in found if not one.failed]
    near = sum(
        abs(one.line(FAULTS).difference) <= _NEAR for one in compared if one.line(FAULTS).kernel
    )
    equal = {
        "copied": [one.line(COPIED) for one in compared],
        "kept": [one.line(KEPT) for one in compared],
        "folios": [one.folios() for one in compared],
    }
    said = [
        f"{name} in {sum(line.kernel == line.simulator for line in lines)}"
        for name, lines in equal.items()
    ]
    return "\n".join(
        [
            f"{len(compared)} of {len(found)} compared: faults within 1 % in {near};",
            f"equal numbers of {', '.join(said)}.",
            *_further(compared),
        ]
    )


def _further(compared: Sequence[Agreement]) -> list[str]:
    """A line on collapses and one on pages by node, where there were some."""
    said = []
    collapsed = [line for one in compared for line in one.further() if line.name == COLLAPSED]
    if collapsed:
        near = sum(
            abs(line.simulator - line.kernel) <= _NEAR_COLLAPSES * line.kernel for line in collapsed
        )
        said.append(f"Collapses within 5 % in {near} of {len(collapsed)}.")
    placed = [
        nodes
        for one in compared
        if (nodes := [line for line in one.further() if line.name.startswith(PLACED)])
    ]
    if placed:
        exact = sum(all(line.kernel == line.simulator for line in nodes) for nodes in placed)
        said.append(f"Pages by node equal in {exact} of {len(placed)}.")
    return said
