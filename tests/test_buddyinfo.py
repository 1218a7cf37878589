"""Memory that begins as a /proc/buddyinfo says."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from pagelab import buddyinfo, machines
from pagelab.cli import app
from pagelab.errors import UsageError

# A machine with two nodes, as proc_buddyinfo(5) prints it.
TWO_NODES = """\
Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      3
Node 0, zone    DMA32      1      2      4      2      5      4      3      3      4      2     75
Node 0, zone   Normal      7    100     47     83    112     22      5     12     22      1      0
Node 1, zone   Normal     20     31     47     83    112     22      5     12     22      1     18
"""
SMALL = "Node 0, zone Normal 20000 9000 4000 2000 500 100 20 5 1 0 0\n"
CHASE = ("-w", "pointer-chase:pages=2000,loads=2000", "-q", "--json")


def simulate(*words: str) -> Result:
    return CliRunner().invoke(app, ["simulate", "-d", "radix", "-m", "zen4", *CHASE, *words])


def test_nodes_and_zones_are_added_up() -> None:
    free = buddyinfo.parse(TWO_NODES, "it")
    expected = [28, 133, 98, 168, 229, 48, 13, 27, 49, 5, 96]
    assert free.blocks == tuple(expected)
    assert free.bytes == sum(count << (12 + order) for order, count in enumerate(expected))
    assert free.huge == (5 << 21) + (96 << 22)
    assert (free.total, free.available) == (None, None)


def test_this_machines_own_is_read() -> None:
    path = Path("/proc/buddyinfo")
    if not path.exists():
        pytest.skip("this kernel has no /proc/buddyinfo")
    free = buddyinfo.read(path)
    assert free.bytes > 0
    memory = buddyinfo.on(machines.zen4, free).config["memory"]
    assert tuple(memory["free_blocks"]) == free.blocks
    assert memory["memory_bytes"] > free.bytes


@pytest.mark.parametrize("orders", [1, 9, 11, 14, 19])
def test_kernels_with_other_orders(orders: int) -> None:
    free = buddyinfo.parse("Node 0, zone Normal" + " 3" * orders, "it")
    assert len(free.blocks) == orders
    memory = buddyinfo.on(machines.zen4, free).config["memory"]
    had = sum(count << (12 + order) for order, count in enumerate(memory["free_blocks"]))
    assert had == free.bytes
    assert memory["free_blocks"][:10] == [3] * min(orders, 10)


def test_more_than_can_be_simulated_keeps_its_shape() -> None:
    free = buddyinfo.parse("Node 0, zone Normal 0 0 0 0 0 0 0 0 0 40000 600000", "it")
    said: list[str] = []
    memory = buddyinfo.on(machines.zen4, free, said.append).config["memory"]
    assert len(said) == 1
    assert 14 < memory["free_blocks"][10] / memory["free_blocks"][9] < 16
    assert memory["memory_bytes"] <= 128 << 30


def test_what_is_available_besides_counts_where_it_is_given() -> None:
    meminfo = "MemTotal: 16000000 kB\nMemAvailable: 8000000 kB\nActive(anon): 3 kB\nHugePages: 0\n"
    free = buddyinfo.parse(TWO_NODES + meminfo, "it")
    memory = buddyinfo.on(machines.zen4, free).config["memory"]
    had = sum(count << (12 + order) for order, count in enumerate(memory["free_blocks"]))
    assert (8_000_000 << 10) - (4 << 20) < had <= 8_000_000 << 10


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no line like"),
        ("Node 0, zone Normal 0 0 0\n", "no block is free"),
        ("Node 0, zone Normal 1 2 x\n", "line 1"),
        (TWO_NODES + "Node 0, zone Normal 1 2\n", "line 5"),
        (TWO_NODES + TWO_NODES, "twice"),
        ("Node 0, zone Normal 1 2\nNode 1, zone Normal 1 2 3\n", "another number"),
        ("Node 0, zone Normal" + " 1" * 20, "20 orders"),
        ("Node 0, zone Normal -5 3\n", "line 1"),
        (f"Node 0, zone Normal {1 << 60}\n", "blocks of one order"),
        ("Node 0, zone Normal ٣ 3\n", "line 1"),
        ("\x00" * 50, "line 1"),
    ],
)
def test_what_is_no_buddyinfo_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(text)
    done = simulate("--buddyinfo", str(tmp_path / "file"))
    assert isinstance(done.exception, UsageError)
    assert "is no /proc/buddyinfo" in str(done.exception)
    assert said in str(done.exception)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "none", Path("/dev/zero")):
        with pytest.raises(UsageError):
            buddyinfo.read(place)


@given(st.text(alphabet="Node 0,zRZ:1k\nB-\x00", max_size=200))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        found = buddyinfo.parse(text, "it")
    except UsageError:
        return
    assert found.bytes > 0


def test_without_free_blocks_huge_pages_fall_back(tmp_path: Path) -> None:
    runs = []
    for text in (SMALL, TWO_NODES):
        (tmp_path / "file").write_text(text)
        done = simulate("--pages", "2M", "--buddyinfo", str(tmp_path / "file"))
        assert done.exit_code == 0, done.exception
        runs.append(json.loads(done.stdout))
    assert runs[0]["os"]["blocks"]["given"] == 0
    assert runs[0]["os"]["blocks"]["no_free_block"] == runs[1]["os"]["blocks"]["given"] > 0


def test_a_program_needs_no_more_than_is_free(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("Node 0, zone Normal 20 9 4 2\n")
    done = simulate("--buddyinfo", str(tmp_path / "file"))
    assert done.exit_code == 1
    assert "memory" in str(done.exception)


def test_advice_takes_it_for_the_model_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(TWO_NODES)
    words = ["advise", "-q", "--buddyinfo", str(tmp_path / "file"), "--", "true"]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, UsageError)
    assert "--why" in str(done.exception)
