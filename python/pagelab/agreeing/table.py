"""The table of programs and settings, 80 columns wide."""

from collections.abc import Sequence

from pagelab.agreeing.counts import COPIED, FAULTS, KEPT, Agreement

_ROW = "{:<14} {:<16} {:>13} {:>6} {:>9} {:>9} {:>7}"
# The most that faults may differ.
_NEAR = 0.01


HEAD = _ROW.format("program", "setting", "faults", "", "copied", "kept", "folios")


def row(one: Agreement, before: str) -> str:
    """A program and setting; `before` is the program of the row above.

    A count is "kernel/simulator", or one number where they are equal.
    """
    name = "" if one.program == before else one.program
    if one.failed:
        return f"{name:<14} {one.setting:<16} {one.failed.splitlines()[0]}"[:80]
    faults = one.line(FAULTS)
    told = f"{faults.difference:+.1%}" if faults.kernel else ""
    others = (one.line(COPIED), one.line(KEPT), one.folios())
    return _ROW.format(name, one.setting, str(faults), told, *map(str, others)).rstrip()


def summary(found: Sequence[Agreement]) -> str:
    """Two lines on all rows."""
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
    return (
        f"{len(compared)} of {len(found)} compared: faults within 1 % in {near};\n"
        f"equal numbers of {', '.join(said)}."
    )
