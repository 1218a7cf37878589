"""Writes the path of the emulator to record with into a file, for make.

    scripts/emulator.py [--any] FILE

Exits with 1 and says why when there is none, or (without --any) when it is not one of ours, whose
addresses are a native run's (docs/record.md, "Addresses"): make then builds one.
"""

import sys
from pathlib import Path

from pagelab import emulator
from pagelab.emulator import NoEmulatorError


def main() -> int:
    """Runs the command line."""
    *options, file = sys.argv[1:]
    try:
        found = emulator.find()
    except NoEmulatorError as error:
        print(error, file=sys.stderr)
        return 1
    if not found.places_as_linux:
        print(f"{found.version} does not place mappings as Linux does", file=sys.stderr)
        if "--any" not in options:
            return 1
    Path(file).write_text(f"{found.path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
