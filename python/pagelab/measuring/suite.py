"""The programs of `pagelab validate --suite`."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from pagelab.measuring import probe

# Programs that come with the probe (crates/probe/src/programs).
BUILT_IN = (
    "random-updates",
    "chase",
    "chase-two-fields",
    "linked-list",
    "hash-table",
    "sorted-array",
    "b-tree",
    "sort",
    "graph-search",
    "stream",
)

_SQL = """
create table t(k integer primary key, v integer, w text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < {rows})
insert into t select i, (i * 7919) % {rows}, 'row ' || i from n;
create index by_v on t(v);
select sum(length(b.w)) from t a join t b on b.v = a.k;
"""

_PYTHON = """
import random
draw = random.Random(1)
keys = list(range(400_000))
draw.shuffle(keys)
table = {key: str(key) for key in keys}
total = 0
for key in keys:
    total += len(table[key])
print(total)
"""

_C = "int f{0}(int x) {{ int s = 0; for (int i = 0; i < x; i++) s += i * {0} ^ x; return s; }}\n"


@dataclass(frozen=True)
class Program:
    """A name and the command that runs it."""

    name: str
    command: list[str]


def programs(directory: Path, only: list[str] | None = None) -> tuple[list[Program], list[str]]:
    """The programs that can be run here, and the names of those that are not installed.

    What they read is written into `directory`.
    """
    found = [Program(name, [str(probe.find()), "program", name]) for name in BUILT_IN]
    missing = []
    for name, command in _installed(directory).items():
        if shutil.which(command[0]) is None:
            missing.append(name)
        else:
            found.append(Program(name, command))
    if only is not None:
        found = [program for program in found if program.name in only]
    return found, missing


def names() -> list[str]:
    """All names of the suite."""
    return [*BUILT_IN, *_installed(Path())]


def _installed(directory: Path) -> dict[str, list[str]]:
    """Programs of the distribution, by name."""
    return {
        "sqlite3": ["sqlite3", ":memory:", f".read {directory / 'query.sql'}"],
        "python-dict": ["/usr/bin/python3", str(directory / "dictionary.py")],
        "gcc": [compiler(), "-quiet", "-O2", str(directory / "functions.c"), "-o", "/dev/null"],
    }


def compiler() -> str:
    """The compiler proper: what `gcc` starts takes the time."""
    found = sorted(Path("/usr/lib/gcc").glob("x86_64-linux-gnu/*/cc1"))
    found += sorted(Path("/usr/libexec/gcc").glob("x86_64-linux-gnu/*/cc1"))
    return str(found[-1]) if found else "cc1"


def prepare(directory: Path) -> None:
    """Writes what the programs read."""
    (directory / "query.sql").write_text(query(200_000), encoding="ascii")
    (directory / "dictionary.py").write_text(_PYTHON, encoding="ascii")
    (directory / "functions.c").write_text(functions(250), encoding="ascii")


def query(rows: int) -> str:
    """A table of so many rows that is joined with itself, in SQL."""
    return _SQL.format(rows=rows)


def functions(number: int) -> str:
    """So many functions in C."""
    return "".join(_C.format(one) for one in range(number))
