"""Recording a guest: a program that knows its accesses, and walks beside the simulator's."""

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pagelab.errors import PagelabError
from pagelab.linux import build, guest, layout, recording
from pagelab.linux.guest import Machine

PAGELAB = [sys.executable, "-m", "pagelab"]
# As in walks.c. Other programs of the guest have their mappings between the two, at a third of the
# addresses (TASK_UNMAPPED_BASE).
SMALL, LARGE, REGION = 0x1000_0000_0000, 0x2000_0000_0000, 4 << 20
PAGES, STRIDE, TOUCHES = 48, 17, 5
WORDS = [SMALL + i * STRIDE * 4096 + i * 8 for i in range(PAGES)]
TOUCHED = [LARGE + i * 3 * 4096 for i in range(TOUCHES)]


@dataclass
class Walk:
    """A line of the list."""

    purpose: str
    address: int
    page_bytes: int
    entries: list[tuple[int, int]]


@dataclass
class Recording:
    """A recorded guest."""

    recorded: recording.Recorded
    trace: Path
    walks: list[Walk]
    # Lines of the trace: the program's accesses to the two regions, and what was mapped there.
    lines: list[str]

    @property
    def accesses(self) -> list[tuple[str, int]]:
        """The program's in the two regions, in order."""
        rows = [line.split(",") for line in self.lines]
        return [(row[0], int(row[1], 16)) for row in rows if row[0] in "LS"]


@pytest.fixture(scope="module")
def recorded(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    where = layout.find()
    if not where.emulator.exists():
        pytest.skip("no emulator: make linux-qemu")
    # Not under /tmp, which guests do not see.
    program = build.build_program(where, Path(__file__).parent / "walks.c")
    trace = tmp_path_factory.mktemp("recording") / "trace"
    # With less than 512 MB Linux has no transparent huge pages.
    machine = replace(
        machine, memory=768, emulator=where.emulator, append=guest.FOUR_LEVELS, accel="tcg"
    )
    result, counts = recording.record(where, machine, [str(program)], trace)
    assert result.status == 0
    text = subprocess.run(
        [*PAGELAB, "trace", "cat", trace], capture_output=True, text=True, check=True
    ).stdout
    lines = [line for line in text.splitlines() if _is_ours(line)]
    return Recording(counts, trace, _walks(recording.walks_of(trace)), lines)


def _is_ours(line: str) -> bool:
    kind, _, rest = line.partition(",")
    if kind not in ("L", "S", "map", "unmap"):
        return False
    address = int(rest.split(",")[0], 16)
    return any(start <= address < start + REGION for start in (SMALL, LARGE))


def _walks(path: Path) -> list[Walk]:
    walks = []
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            _, _, purpose, address, size, _, _, *reads = line.split(",")
            pairs = [read.split("=") for read in reads]
            entries = [(int(entry, 16), int(value, 16)) for entry, value in pairs]
            walks.append(Walk(purpose, int(address, 16), int(size), entries))
    return walks


def test_every_access_of_the_program_is_there_in_its_order(recorded: Recording) -> None:
    stores, loads = [("S", word) for word in WORDS], [("L", word) for word in WORDS]
    assert recorded.accesses == [*stores, *loads, *(("S", word) for word in TOUCHED)]
    counts = recorded.recorded
    assert counts.whole
    assert 0 < counts.by_kernel < counts.accesses
    assert counts.instructions > 2 * PAGES


def test_pages_are_mapped_as_the_guest_has_them(recorded: Recording) -> None:
    mapped = [line.split(",")[1:3] for line in recorded.lines if line.startswith("map,")]
    small = [[f"{word & ~4095:x}", "4096"] for word in WORDS]
    assert mapped == [*small, [f"{LARGE:x}", "2097152"]]


def test_the_first_store_faults_and_the_walk_after_it_finds_the_page(recorded: Recording) -> None:
    tables: dict[int, int] = {}
    for word in WORDS:
        walks = [walk for walk in recorded.walks if walk.address == word]
        first, second = walks[:2]
        assert (first.purpose, first.page_bytes) == ("store", 0)
        assert not first.entries[-1][1] & 1
        assert (second.purpose, second.page_bytes) == ("store", 4096)
        # Each entry is in the table that the one before names, at 9 bits of the address.
        table = second.entries[0][0] & ~0xFFF
        assert len(second.entries) == 4
        for level, (entry, value) in zip((3, 2, 1, 0), second.entries, strict=True):
            assert entry == table + (word >> (12 + 9 * level) & 511) * 8
            assert value & 1
            table = value & 0x000F_FFFF_FFFF_F000
        leaf = second.entries[-1][0] & ~0xFFF
        assert tables.setdefault(word >> 21, leaf) == leaf
    assert len(set(tables.values())) == len(tables) == 2
    large = [walk for walk in recorded.walks if walk.address in TOUCHED and walk.page_bytes]
    assert {walk.address for walk in large} == set(TOUCHED)
    assert {(walk.page_bytes, len(walk.entries)) for walk in large} == {(2 << 20, 3)}


def test_the_simulators_tree_reads_the_same_entries(recorded: Recording, tmp_path: Path) -> None:
    judged = recording.judge(recording.walks_of(recorded.trace))
    found = [walk for walk in recorded.walks if walk.page_bytes]
    assert judged.differences == []
    assert judged.different == 0
    assert judged.levels == 4
    assert sum(judged.walks.values()) == len(found)
    assert judged.reads == sum(len(walk.entries) for walk in found)
    # And the comparison can fail: one digit of the last entry of one line.
    lines = recording.walks_of(recorded.trace).read_text().splitlines(keepends=True)
    place = next(n for n, line in enumerate(lines) if f",{WORDS[3]:x},4096," in line)
    head, _, last = lines[place].rpartition(",")
    entry, _, value = last.partition("=")
    lines[place] = f"{head},{int(entry, 16) ^ 8:x}={value}"
    wrong = tmp_path / "wrong"
    wrong.write_text("".join(lines))
    assert recording.judge(wrong).different == 1


def _simulate(source: Path) -> dict[str, int]:
    none = [f"radix.pwc.{cache}.entries=0" for cache in ("pgd", "pud", "pmd")]
    settings = [word for key in none for word in ("--set", key)]
    command = [
        *PAGELAB,
        "simulate",
        "-m",
        "dpt-paper",
        "--trace",
        str(source),
        "--design",
        "radix",
        "--pages",
        "1G",
    ]
    done = subprocess.run(
        [
            *command,
            *settings,
            "--json",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    result = json.loads(done.stdout)
    return {key: result["walks"][key] for key in ("count", "reads")}


def test_a_simulation_reads_as_much_as_the_guest_did(recorded: Recording, tmp_path: Path) -> None:
    """One walk a page, since nothing is cached at first; the guest's own are those of the list."""
    for first, distinct in ((SMALL, PAGES), (LARGE, 1)):
        last = first + REGION
        part = tmp_path / f"{first:x}.csv"
        ours = [line for line in recorded.lines if first <= int(line.split(",")[1], 16) < last]
        part.write_text("\n".join(ours) + "\n")
        simulated = _simulate(part)
        own = [w for w in recorded.walks if first <= w.address < last and w.page_bytes]
        each = {len(walk.entries) for walk in own}
        assert simulated == {"count": distinct, "reads": distinct * each.pop()}
        assert not each
    whole = _simulate(recorded.trace)
    assert 3 <= whole["reads"] / whole["count"] <= 4


def test_walks_by_hash_read_what_the_simulators_dpt_does(machine: Machine, tmp_path: Path) -> None:
    where = layout.find()
    if not where.emulator.exists():
        pytest.skip("no emulator: make linux-qemu")
    program = build.build_program(where, Path(__file__).parent / "walks.c")
    # In 1 GB steps may not lead out of the kernel's own memory.
    machine = replace(
        machine,
        memory=1280,
        emulator=where.emulator,
        append=f"{guest.FOUR_LEVELS} dpt=on",
        processor="dpt",
        accel="tcg",
    )
    trace = tmp_path / "trace"
    result, _ = recording.record(where, machine, [str(program)], trace)
    assert result.status == 0
    judged = recording.judge(recording.walks_of(trace))
    assert judged.differences == []
    # Each page of the program was walked to by hash at least once, the kernel's by the tree.
    assert sum(judged.hashed.values()) > PAGES
    assert judged.walks


def test_why_nothing_was_recorded_is_said_with_how_the_guest_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QEMU knows that nobody reads what it reports, and not why."""

    def lost(*_: object, **__: object) -> guest.Result:
        return guest.Result(guest.Ending.LOST, None, ["Broken pipe"])

    monkeypatch.setattr(guest, "run", lost)
    monkeypatch.setattr(build, "build_program", lambda *_: tmp_path / "program")
    machine = Machine(tmp_path, tmp_path)
    with pytest.raises(PagelabError, match=r"Broken pipe\nof the recording: the guest: "):
        recording.record(layout.find(), machine, ["true"], tmp_path / "trace")
    assert not (tmp_path / "trace").exists()
    # What can be known before is said before.
    for trace in (tmp_path / "no-such-folder" / "trace", tmp_path):
        with pytest.raises(PagelabError, match=f"cannot write {trace}: "):
            recording.record(layout.find(), machine, ["true"], trace)


def test_functions_of_the_kernel_are_named(recorded: Recording) -> None:
    done = subprocess.run(
        [*PAGELAB, "simulate", "-d", "radix", "--json", str(recorded.trace)],
        capture_output=True,
        check=True,
    )
    lines = json.loads(done.stdout)["lines"]
    named = {line["function"] for line in lines if line["object"] == "[kernel]"}
    # The program touches pages that are not mapped.
    assert {"exc_page_fault", "handle_mm_fault"} <= named
