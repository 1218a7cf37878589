#!/usr/bin/env python3
"""Adds tests that failed and passed when run again to .ci/flaky, a line each time: date and name.

Fails for one that is there for the third time: it is to be mended, and its lines removed.

    scripts/flaky.py build/ci/test-python-first.log
"""

import datetime
import re
import sys
from pathlib import Path

LIST = Path(__file__).resolve().parents[1] / ".ci" / "flaky"
TOO_OFTEN = 3
# As pytest, cargo test and `pagelab linux test` name them.
_FAILED = re.compile(
    r"^(?:FAILED|ERROR) (\S+?(?:\[.*?\])?)(?= - |$)"
    r"|^test (\S+)(?: - should panic)? \.\.\. FAILED"
    r"|^flaky (\S+): ",
    re.M,
)


def failed(log: str) -> list[str]:
    r"""Names of the tests that a log says have failed.

    >>> failed("test a::b ... FAILED\nflaky dpt/storm: failed 1 of 2 times\n")
    ['a::b', 'dpt/storm']
    """
    return sorted({"".join(names) for names in _FAILED.findall(log)})


def add(log: str, known: Path, today: str) -> list[str]:
    """Adds what has failed to the list; the names that are there too often."""
    lines = known.read_text(encoding="utf-8").splitlines() if known.exists() else []
    names = failed(log)
    lines += [f"{today} {name}" for name in names]
    known.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    seen = [line.partition(" ")[2] for line in lines]
    return [name for name in names if seen.count(name) >= TOO_OFTEN]


def main() -> None:
    """Adds what a log says."""
    log = Path(sys.argv[1]).read_text(encoding="utf-8", errors="replace")
    too_often = add(log, LIST, datetime.datetime.now(datetime.UTC).date().isoformat())
    for name in failed(log):
        print(f"flaky   {name}")
    if too_often:
        sys.exit(f"FAILED  as often as {TOO_OFTEN} times, by .ci/flaky: {', '.join(too_often)}")
    print("        commit .ci/flaky, which has them now")


if __name__ == "__main__":
    main()
