"""Where misses come from: a program whose misses are known by line, from recording to report."""

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet
import pytest

import pagelab
from emulators import needs_recorder
from pagelab import annotating, pprof, results
from pagelab.errors import PagelabError
from pagelab.results import Comparison, Run

SOURCE = Path(__file__).parent / "code" / "loops.c"

pytestmark = needs_recorder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result of `compare`."""
    folder = tmp_path_factory.mktemp("code")
    program = folder / "loops"
    subprocess.run(["gcc", "-g", "-O1", SOURCE, "-o", program], check=True)
    command = [sys.executable, "-m", "pagelab", "compare", "--quiet", "-m", "dpt-paper"]
    subprocess.run(
        [*command, "-d", "radix,dpt,ideal", "-o", folder / "result", "--", program], check=True
    )
    return folder


@pytest.fixture(scope="module")
def comparison(folder: Path) -> Comparison:
    return results.load(folder / "result")


def _line(comment: str) -> int:
    lines = SOURCE.read_text().splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if comment in line]
    return found


def _by_line(run: Run, name: str) -> Counter[int]:
    """What each line of the program itself came to."""
    found: Counter[int] = Counter()
    for line in run.lines:
        if line.file is not None and line.line is not None and line.file.endswith("loops.c"):
            found[line.line] += getattr(line, name)
    return found


@pytest.mark.parametrize("design", ["radix", "dpt"])
def test_walks_are_charged_to_the_right_lines(comparison: Comparison, design: str) -> None:
    run = annotating.chosen(comparison, design)
    in_order, at_random = _line("in order: one"), _line("at random: nearly")
    walks = _by_line(run, "walks")
    assert walks[in_order] + walks[at_random] >= 0.98 * run.walks.count
    # 16,384 pages, each walked for, found missing and walked for again.
    pages = (64 << 20) // 4096
    assert 2 * pages <= walks[in_order] <= 2 * pages * 1.02
    # 1,536 entries reach 6 MiB of the 64.
    assert 0.85 * 500_000 < walks[at_random] <= 500_000
    faults = _by_line(run, "faults")
    assert faults[in_order] == pages
    assert faults[at_random] == 0
    accesses = _by_line(run, "accesses")
    assert accesses[at_random] == 500_000
    # Instructions that never miss have no line.
    assert accesses[_line("never walks")] <= 1
    (others,) = [line for line in run.lines if line.row == "others"]
    assert others.accesses > 1_999_998


def test_what_is_charged_adds_up_to_the_run(comparison: Comparison) -> None:
    for run in comparison.runs:
        for rows in (run.lines, run.mappings):
            assert sum(row.l1_tlb_misses for row in rows) == run.tlb.l1_misses
            assert sum(row.l2_tlb_misses for row in rows) == run.tlb.l2_misses
            assert sum(row.walks for row in rows) == run.walks.count
            cycles = sum(row.walk_cycles for row in rows)
            assert cycles == round(run.walks.latency.mean * run.walks.count)
            assert sum(row.faults for row in rows) == run.os.faults - run.os.outside.faults
        assert sum(row.accesses for row in run.lines) == run.accesses


def test_the_heat_map_has_every_access_miss_and_fault_where_it_was(
    comparison: Comparison,
) -> None:
    for run in comparison.runs:
        heat_map = run.heat_map
        assert heat_map is not None
        accesses, misses, faults = (
            sum(map(sum, heat_map.counts(counted)))
            for counted in ("accesses", "l2_tlb_misses", "faults")
        )
        faulted = run.os.faults - run.os.outside.faults
        assert (accesses, misses, faults) == (run.accesses, run.tlb.l2_misses, faulted)
        # The array is walked in order before it is used at random: pages of a row fault together,
        # and later rows later.
        rows = [row for row in heat_map.rows if sum(row.faults) == heat_map.bytes_per_row // 4096]
        assert 0.9 * (64 << 20) <= len(rows) * heat_map.bytes_per_row <= 64 << 20
        begun = [next(i for i, count in enumerate(row.faults) if count) for row in rows]
        assert begun == sorted(begun)
        assert begun[0] < begun[-1]


def test_a_heat_map_is_left_out_where_it_is_not_wanted(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pagelab",
        "compare",
        "-q",
        "-m",
        "dpt-paper",
        "-d",
        "ideal",
        "-o",
        "r",
    ]
    subprocess.run([*command, "--no-heat-map", "--", "true"], check=True, cwd=tmp_path)
    (run,) = results.load(tmp_path / "r").runs
    assert run.heat_map is None
    assert "heat_map" not in run.machine
    subprocess.run([*command, "--set", "heat_map=false", "--", "true"], check=True, cwd=tmp_path)
    assert results.load(tmp_path / "r").runs[0].heat_map is None


def test_functions_inlined_ones_and_mappings(comparison: Comparison) -> None:
    run = annotating.chosen(comparison, None)
    functions = {row.function: row for row in annotating.functions(run)}
    assert functions["random_sum"].walks > functions["fill"].walks > 30_000
    assert "stay" not in functions or functions["stay"].walks < 10
    kinds = {row.kind: row for row in run.mappings}
    # 64 MiB are a mapping of their own (mallopt(3), M_MMAP_THRESHOLD).
    assert kinds["anonymous"].walks > 0.98 * run.walks.count
    assert run.changed_files == []


def test_annotate_prints_the_tables_in_80_columns(folder: Path) -> None:
    command = [sys.executable, "-m", "pagelab", "annotate", str(folder / "result")]
    environment = {"COLUMNS": "80", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert max(map(len, done.stdout.splitlines())) <= 80
    first = next(line for line in done.stdout.splitlines() if "loops.c" in line)
    assert f"loops.c:{_line('at random: nearly')}" in first
    assert re.search(r"\d\d\.\d.*random_sum +loops", done.stdout)
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["functions"][0]["function"] == "random_sum"
    assert found["lines"][0]["text"].startswith("sum += words[")


def test_folded_stacks_add_up_and_end_at_the_line(folder: Path, comparison: Comparison) -> None:
    command = [sys.executable, "-m", "pagelab", "annotate", "--folded", str(folder / "result")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    stacks = [line.rsplit(" ", 1) for line in done.stdout.splitlines()]
    run = comparison.baseline
    assert sum(int(count) for _, count in stacks) == round(run.walks.latency.mean * run.walks.count)
    assert stacks[0][0] == f"loops;random_sum;loops.c:{_line('at random: nearly')}"
    inlined = annotating.ordered(run.lines, "walk_cycles")[0].model_copy(
        update={"function": "f<[u8; 4]>", "inlined_into": ["middle", "outer"]}
    )
    (stack,) = annotating.folded(run.model_copy(update={"lines": [inlined]}), "l2_tlb_misses")
    assert stack.startswith("loops;outer;middle;f<[u8: 4]>;loops.c:")
    assert stack.endswith(f" {inlined.l2_tlb_misses}")


@pytest.mark.skipif(shutil.which("go") is None, reason="pprof comes with Go")
def test_pprof_reads_the_profile(folder: Path, comparison: Comparison, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pagelab", "annotate", str(folder / "result")]
    profile = tmp_path / "profile.pb.gz"
    subprocess.run([*command, "--by", "faults", "--pprof", profile], check=True)

    def shown_by(*options: str) -> list[str]:
        show = ["go", "tool", "pprof", *options, str(profile)]
        return subprocess.run(show, capture_output=True, text=True, check=True).stdout.splitlines()

    run = comparison.baseline
    raw = shown_by("-raw")
    first = raw.index("Samples:") + 2
    names = [heading.split("/")[0] for heading in raw[first - 1].split()]
    assert "faults/count[dflt]" in raw[first - 1]
    samples = [line.split(":")[0].split() for line in raw[first : raw.index("Locations")]]
    for name, *counts in zip(names, *samples, strict=True):
        assert sum(map(int, counts)) == sum(getattr(line, name) for line in run.lines), name
    # All lines, in the functions that they are of.
    at_random = f"random_sum {SOURCE}:{_line('at random: nearly')}"
    assert any(f"M=1 {at_random}" in line for line in raw)
    assert any(re.fullmatch(rf"1: .* {folder / 'loops'} .*", line) for line in raw)
    top = shown_by("-top", "-sample_index=walks")
    assert top[0] == "File: loops"
    walks = {line.function: line.walks for line in annotating.functions(run)}
    shown = {row[-1]: row[0] for row in map(str.split, top) if row}
    assert int(shown["random_sum"]) == walks["random_sum"]
    assert int(shown["fill"]) == walks["fill"]


@pytest.mark.skipif(shutil.which("go") is None, reason="pprof comes with Go")
def test_pprof_shows_what_a_function_was_inlined_into(
    comparison: Comparison, tmp_path: Path
) -> None:
    worst = annotating.ordered(comparison.baseline.lines, "walk_cycles")[0]
    inlined = worst.model_copy(update={"function": "inner", "inlined_into": ["middle", "outer"]})
    # Rows of which less is known, and a name that is no ASCII.
    other = worst.model_copy(update={"function": None, "file": None, "line": None})
    unknown = other.model_copy(update={"row": "unknown", "object": None})
    run = comparison.baseline.model_copy(
        update={"lines": [inlined, other, unknown, worst.model_copy(update={"function": "λ"})]}
    )
    profile = tmp_path / "profile.pb.gz"
    profile.write_bytes(pprof.profile(comparison, run, "walks"))
    command = ["go", "tool", "pprof", "-top", "-cum", str(profile)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    found = {" ".join(row[5:]): (row[0], row[3]) for row in rows if len(row) > 5 and "%" in row[1]}
    walks = str(worst.walks)
    assert found["inner (inline)"] == (walks, walks)
    assert found["middle (inline)"] == found["outer"] == ("0", walks)
    assert found["[loops]"] == found["(no file)"] == found["λ"] == (walks, walks)


def test_a_profile_that_cannot_be_written_is_named(folder: Path) -> None:
    command = [sys.executable, "-m", "pagelab", "annotate", str(folder / "result")]
    done = subprocess.run([*command, "--pprof", "/nowhere/p"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "cannot write /nowhere/p" in done.stderr


def test_the_table_is_in_the_report_and_in_parquet(folder: Path, comparison: Comparison) -> None:
    page = (folder / "result" / "report.html").read_text()
    assert "Where misses come from" in page
    assert "sum += words[(state &gt;&gt; 33) % WORDS];" in page
    table = pyarrow.parquet.read_table(folder / "result" / "lines.parquet")
    assert table.num_rows == sum(len(run.lines) for run in comparison.runs)
    assert {"design", "function", "file", "line", "walk_cycles"} <= set(table.column_names)


def test_a_changed_program_is_said_to_be_changed(folder: Path, tmp_path: Path) -> None:
    program = tmp_path / "loops"
    shutil.copy(folder / "loops", program)
    recorded = pagelab.record(
        [program], tmp_path / "trace", code=True, window=pagelab.Window(limit=300_000)
    )
    subprocess.run(["gcc", "-O2", SOURCE, "-o", program], check=True)
    run = pagelab.simulate(recorded, "radix", machine="dpt-paper")
    assert str(program) in run.changed_files
    assert not _by_line(run, "walks")


def test_functions_of_a_jit_have_the_names_that_it_tells_perf(tmp_path: Path) -> None:
    program, said = tmp_path / "jit", tmp_path / "said"
    subprocess.run(["gcc", "-O1", SOURCE.parent / "jit.c", "-o", program], check=True)
    recorded = pagelab.record([program, said], tmp_path / "trace", code=True)
    # Whoever simulates need not have it.
    names = Path(said.read_text())
    assert "made::again" in names.read_text()
    names.unlink()
    run = pagelab.simulate(recorded, "radix", machine="dpt-paper")
    found = {line.function: line for line in run.lines if line.module == "[JIT]"}
    touch, again = found["made::touch(char*)"], found["made::again(char*)"]
    # 8,192 pages: each is walked for, found missing and walked for again. The second-level TLB has
    # 1,536 entries, so the next time each misses. `ret` loads as well: from the stack, last touched
    # 8,192 pages before.
    loads = 8192 + 1
    assert (touch.l2_tlb_misses, touch.walks, touch.faults) == (loads, loads + 8192, 8192)
    assert (again.l2_tlb_misses, again.walks, again.faults) == (loads, loads, 0)
    assert touch.accesses == again.accesses == loads
    assert "[JIT];made::again(char*) 8193" in annotating.folded(run, "l2_tlb_misses")
    # A part of it has the names as well.
    window = pagelab.Window(limit=recorded.accesses - 8192)
    part = pagelab.simulate(recorded, "radix", machine="dpt-paper", window=window)
    assert "made::touch(char*)" in {line.function for line in part.lines}


def test_lines_of_a_jit_are_those_that_it_tells_perf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, source = tmp_path / "jitdump", tmp_path / "made.js"
    subprocess.run(["gcc", "-O1", SOURCE.parent / "jitdump.c", "-o", program], check=True)
    source.write_text("function touch(a) {\n  s += *a;\n  a += 4096\n}\n")
    monkeypatch.chdir(tmp_path)
    recorded = pagelab.record([program], tmp_path / "trace", code=True)
    (dump,) = tmp_path.glob("jit-*.dump")
    dump.unlink()
    run = pagelab.simulate(recorded, "radix", machine="dpt-paper")
    found = {(line.function, line.line): line for line in run.lines if line.module == "[JIT]"}
    # As above; `again` runs twice, then from where it was moved to. Line 3 loads nothing.
    expected = {
        ("made::touch", 2): (8192, 8192, "s += *a;"),
        ("made::touch", 4): (1, 0, "}"),
        ("made::again", 2): (2 * 8192, 0, "s += *a;"),
        ("made::again", 4): (2, 0, "}"),
    }
    assert {
        key: (line.l2_tlb_misses, line.faults, line.text) for key, line in found.items()
    } == expected
    assert {line.file for line in found.values()} == {"made.js"}
    assert "[JIT];made::again;made.js:2 16384" in annotating.folded(run, "l2_tlb_misses")
    # A part of it has the lines as well.
    window = pagelab.Window(limit=recorded.accesses - 8192)
    part = pagelab.simulate(recorded, "radix", machine="dpt-paper", window=window)
    assert ("made::touch", 2) in {(line.function, line.line) for line in part.lines}


def test_memory_that_is_a_file_has_its_name(tmp_path: Path) -> None:
    program, data = tmp_path / "mapped", tmp_path / "data"
    subprocess.run(["gcc", "-O1", SOURCE.parent / "mapped.c", "-o", program], check=True)
    data.write_bytes(bytes(16 << 20))
    recorded = pagelab.record([program, data], tmp_path / "trace", code=True)
    run = pagelab.simulate(recorded, "radix", machine="dpt-paper")
    found = {(row.kind, row.name): row for row in run.mappings}
    assert len(found) == len(run.mappings)
    assert found["private-file", str(data)].l2_tlb_misses == 4096
    assert found["shared-file", str(data)].l2_tlb_misses == 2048
    libc = next(row for row in run.mappings if row.name and "libc.so" in row.name)
    assert libc.place.startswith("private-file libc.so")
    assert sum(row.l2_tlb_misses for row in run.mappings) == run.tlb.l2_misses


def test_without_code_it_says_how_to_get_it(tmp_path: Path) -> None:
    chase = pagelab.workloads.pointer_chase(pages=200, loads=2_000, windows=0)
    plain = pagelab.compare(chase, ["radix"])
    assert plain.runs[0].lines == []
    with pytest.raises(PagelabError, match="--no-code"):
        annotating.chosen(plain, None)
