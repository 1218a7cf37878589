"""The plugins that see a guest's accesses, against a program that knows what it accesses."""

import shutil
import subprocess
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest

from pagelab.linux import guest, layout
from pagelab.linux.guest import Machine

WORDS = 1 << 17
PAGES = WORDS * 8 // 4096
LINES = WORDS * 8 // 64


@pytest.fixture(scope="module")
def binaries() -> dict[str, Path]:
    # Not under /tmp, which guests do not see.
    root = layout.find().root
    folder = root / "build" / "tests" / "accesses"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    sources = {
        "accesses": (Path(__file__).parent / "accesses.c", []),
        "nodes": (root / "linux" / "guest" / "nodes.c", ["-shared", "-fPIC"]),
        "pages": (root / "linux" / "guest" / "pages.c", ["-shared", "-fPIC"]),
    }
    for name, (source, flags) in sources.items():
        subprocess.run(
            ["gcc", "-O2", "-Wall", "-Werror", *flags, "-o", folder / name, source], check=True
        )
    return {name: folder / name for name in sources}


def _count(
    machine: Machine, binaries: dict[str, Path], node: int, *options: str, passes: int = 1
) -> tuple[list[int], ...]:
    two = replace(machine, nodes=2, memory=512)
    told = (f"boundary={guest.node_boundary(two)}", *options)
    two = replace(two, plugin=binaries["nodes"], plugin_options=told)
    result = guest.run(two, [str(binaries["accesses"]), str(node), str(passes)])
    assert result.status == 0, result.describe()
    counts = [int(word) for word in result.files[guest.COUNTS].split()]
    assert len(counts) == 6
    return counts[0:2], counts[2:4], counts[4:6]


@pytest.mark.parametrize("node", [0, 1])
def test_accesses_count_for_the_node_the_memory_is_bound_to(
    machine: Machine, binaries: dict[str, Path], node: int
) -> None:
    loads, stores, _ = _count(machine, binaries, node, passes=3)
    assert loads[node] == pytest.approx(3 * WORDS, abs=500)
    assert stores[node] == pytest.approx(WORDS, abs=500)
    assert loads[1 - node] < 500
    assert stores[1 - node] < 500


def test_only_loads_that_miss_the_cache_are_misses(
    machine: Machine, binaries: dict[str, Path]
) -> None:
    _, _, small = _count(machine, binaries, 1, "cache=64", passes=2)
    _, _, large = _count(machine, binaries, 1, "cache=4096", passes=2)
    assert small[1] == pytest.approx(2 * LINES, abs=200)
    assert large[1] == pytest.approx(LINES, abs=200)


def test_instructions_below_an_address_do_not_count(
    machine: Machine, binaries: dict[str, Path]
) -> None:
    loads, stores, _ = _count(machine, binaries, 1, "from=0x7fffffffffff")
    assert sum(loads + stores) == 0


def test_pages_come_in_order(machine: Machine, binaries: dict[str, Path]) -> None:
    noting = replace(machine, nodes=2, memory=512, plugin=binaries["pages"])
    result = guest.run(noting, [str(binaries["accesses"]), "1", "2"])
    assert result.status == 0, result.describe()
    content = result.files[guest.COUNTS]
    words = [int.from_bytes(content[at : at + 8], "little") for at in range(0, len(content), 8)]
    first = int(result.stdout, 16) >> 12
    mine = [word for word in words if first <= word >> 1 < first + PAGES]
    loads = [(first + page) << 1 for page in range(PAGES)]
    stores = [word | 1 for word in loads]
    # Another program of the guest may run in between: then a page is noted once more.
    assert [word for word, _ in groupby(mine)] == [*loads, *loads, *stores]
