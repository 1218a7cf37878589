"""Results survive the way to disk and back, and what is no result is refused."""

import io
import json
from pathlib import Path

import pyarrow.parquet
import pytest
from rich.console import Console

import canned
from pagelab import results, store
from pagelab.errors import PagelabError
from pagelab.recorded import summary
from pagelab.results import Comparison, Recording
from pagelab.table import columns, legend, show_answer, show_table, terminal_table


def test_a_saved_comparison_is_read_back_the_same(tmp_path: Path, comparison: Comparison) -> None:
    store.save(comparison, tmp_path)
    assert results.load(tmp_path) == comparison
    assert results.load(tmp_path / "result.json") == comparison


def test_what_is_saved_is_what_was_read(tmp_path: Path) -> None:
    raw = canned.comparison("radix")
    store.save(Comparison.model_validate(raw), tmp_path)
    kept = json.loads((tmp_path / "result.json").read_text())
    assert kept["runs"][0]["os"]["unusable_free_space_index"] == 0.25
    assert kept["schema"] == raw["schema"]
    assert kept["runs"][0]["schema"] == raw["runs"][0]["schema"]


def test_a_field_that_is_not_known_is_named(tmp_path: Path) -> None:
    raw = canned.comparison("radix")
    raw["runs"][0]["os"]["pages_lost"] = 1
    path = tmp_path / "result.json"
    path.write_text(json.dumps(raw))
    with pytest.raises(PagelabError, match=r"runs\.0\.os\.pages_lost: .*not permitted"):
        results.load(path)


def test_the_parquet_file_has_a_row_a_design_with_the_same_numbers(
    tmp_path: Path, comparison: Comparison
) -> None:
    store.save(comparison, tmp_path)
    rows = pyarrow.parquet.read_table(tmp_path / "result.parquet").to_pylist()
    assert [row["design"] for row in rows] == ["radix", "dpt", "ideal"]
    for row, run in zip(rows, comparison.runs, strict=True):
        assert row["cycles.translation"] == run.cycles.translation
        assert row["walks.latency.p99"] == run.walks.latency.p99
        assert row["timeline"][-1]["table_bytes"] == run.timeline[-1].table_bytes
    # A counter that only one design has is missing from the others.
    assert [row["design_counters.tag_misses"] for row in rows] == [None, 17, None]
    assert [row["tlb_counters.fills"] for row in rows] == [None, 29, None]
    assert [run.tlb_counters for run in comparison.runs] == [{}, {"fills": 29}, {}]


def test_a_single_run_is_a_comparison_of_one(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(canned.run("dpt")))
    loaded = results.load(path)
    assert [run.design for run in loaded.runs] == ["dpt"]
    assert loaded.baseline is loaded.runs[0]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value"),
        ("[]", "top level"),
        (json.dumps({"schema": results.RUN, "design": "radix"}), "complete: Field required"),
        ('{"schema": "other/1", "runs": []}', "schema"),
    ],
)
def test_what_is_no_result_is_refused_with_the_reason(
    text: str, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "result.json"
    path.write_text(text)
    with pytest.raises(PagelabError, match="is not a result of pagelab") as caught:
        results.load(path)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "command"),
    [
        ("pagelab.comparison/1", "compare"),
        ("pagelab.run/0", "simulate"),
        ("pagelab.run/", "simulate"),
    ],
)
def test_a_result_of_another_version_is_refused_with_the_command_that_makes_it(
    schema: str, command: str, tmp_path: Path
) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(canned.comparison() | {"schema": schema}))
    with pytest.raises(PagelabError) as caught:
        results.load(path)
    ours = {"compare": results.COMPARISON, "simulate": results.RUN}[command]
    assert str(caught.value) == (
        f"{path} is {schema}, and this pagelab reads {ours}: `pagelab {command}` makes it anew"
    )


def test_a_missing_result_is_named(tmp_path: Path) -> None:
    with pytest.raises(PagelabError, match=r"nowhere/result\.json: No such file"):
        results.load(tmp_path / "nowhere" / "result.json")


def test_two_results_of_one_second_get_directories_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = {store.directory(None, "a program/with a name") for _ in range(3)}
    assert len(made) == 3
    assert all(path.is_dir() and path.parent == Path("pagelab-results") for path in made)


def test_a_directory_that_cannot_be_written_is_named_before_anything_runs(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")
    with pytest.raises(PagelabError, match=r"cannot write results to .*taken"):
        store.directory(taken, "x")


def test_the_table_fits_80_columns() -> None:
    raw = canned.comparison("radix", "radix5", "dpt", "ideal")
    for run in raw["runs"]:
        run["cycles"]["elapsed"] = 987_654_321_987_654
        run["os"]["peak_table_bytes"] = 987_654_321
        run["complete"] = False
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(terminal_table(Comparison.model_validate(raw)))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    assert max(map(len, legend(Comparison.model_validate(raw)).splitlines())) <= 80
    # One line a design: nothing wrapped, nothing cut.
    assert sum(line.startswith(("radix", "dpt", "ideal")) for line in lines) == 4
    assert not any("\N{HORIZONTAL ELLIPSIS}" in line for line in lines)


@pytest.mark.parametrize("width", [100, 80, 40, 1])
def test_names_are_folded_and_numbers_never_cut(width: int) -> None:
    raw = canned.comparison("radix", "dpt")
    name = "dpt+range:cpd=false,range.entries=7"
    raw["runs"][1]["design"] = name
    comparison = Comparison.model_validate(raw)
    console = Console(width=width, file=io.StringIO())
    show_table(comparison, console)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    words = " ".join(lines).split()
    for run in comparison.runs:
        for column in columns(comparison)[1:]:
            assert column.cell(comparison, run).split()[0] in words
    assert not any("\N{HORIZONTAL ELLIPSIS}" in line for line in lines)
    # All of the name is there, in the first column of the lines of its run.
    assert "".join(line.split()[0] for line in lines[3:]) == name
    # Where there is room for the numbers, no line is longer than the terminal.
    assert width < 80 or max(map(len, lines)) <= width


def test_a_percent_sign_stays_with_its_number(comparison: Comparison) -> None:
    for width in range(20, 90):
        output = io.StringIO()
        show_answer(comparison, Console(file=output, width=width))
        lines = output.getvalue().splitlines()
        assert " %" in output.getvalue().replace("\n", " ")
        assert not any(line.startswith("%") or line.endswith(" ") for line in lines)
        assert max(map(len, lines)) <= width


def test_the_table_of_page_sizes_fits_80_columns_and_has_a_column_for_each_cost() -> None:
    raw = canned.comparison("radix", "radix5", "dpt", "ideal")
    for run, pages in zip(raw["runs"], ("4K", "64K", "madvise", "1G"), strict=True):
        run["pages"] = pages
        run["cycles"]["elapsed"] = 987_654_321_987_654
        run["complete"] = False
    comparison = Comparison.model_validate(raw)
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(terminal_table(comparison))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    assert max(map(len, legend(comparison).splitlines())) <= 80
    for heading in ("pages", "transl.", "faults", "zero.", "memory"):
        assert heading in lines[0].split()
    assert not any("\N{HORIZONTAL ELLIPSIS}" in line for line in lines)


def test_several_machines_have_a_table_each() -> None:
    raw = canned.comparison("radix", "dpt", "radix", "dpt")
    for run in raw["runs"][2:]:
        run["machine"]["name"] = "here"
    console = Console(width=80, record=True, file=io.StringIO())
    show_table(Comparison.model_validate(raw), console)
    lines = console.export_text().splitlines()
    assert [line for line in lines if line.endswith(":")] == ["dpt-paper:", "here:"]
    assert sum("base" in line for line in lines) == 2


def test_a_design_has_its_parts_in_json_and_parquet(tmp_path: Path) -> None:
    raw = canned.comparison("radix", "dpt")
    raw["runs"][1] |= {"design": "dpt+mosaic:cpd=false", "tlb_design": "mosaic"}
    raw["runs"][1]["machine"]["memory"] = {"page_policy": "thp"}
    store.save(Comparison.model_validate(raw), tmp_path)
    rows = pyarrow.parquet.read_table(tmp_path / "result.parquet").to_pylist()
    parts = [(row["page_table"], row["tlb_design"], row["pages"]) for row in rows]
    assert parts == [("radix", "conventional", "4K"), ("dpt", "mosaic", "2M")]
    loaded = results.load(tmp_path).runs[1]
    assert (loaded.page_table, loaded.tlb_design, loaded.pages) == parts[1]


def test_what_instructions_miss_is_said_of_designs_in_which_they_do() -> None:
    raw = canned.comparison("radix", "dpt", "ideal")
    served = {"l1": 1, "l2": 0, "llc": 0, "dram": 0}
    tlb = {"lookups": 1, "l1_misses": 0, "l2_misses": 0, "l1_mpki": 0.0, "l2_mpki": 0.004}
    fetch = {"fetches": 1, "served_by": served, "prefetches": served, "l1_mpki": 0.0, "walks": 0}
    for run in raw["runs"]:
        run["fetch"] = fetch | {"tlb": tlb}
    assert "Misses of instructions" not in legend(Comparison.model_validate(raw))
    raw["runs"][1]["fetch"] = fetch | {"tlb": tlb, "l1_mpki": 1.25}
    text = " ".join(legend(Comparison.model_validate(raw)).split())
    assert "second-level TLB: dpt 1.25, 0.00 and 0.00; others none." in text


def test_shares_of_the_nodes_are_shown_where_there_are_nodes() -> None:
    raw = canned.comparison("radix", "dpt")
    assert "node" not in legend(Comparison.model_validate(raw))
    for run in raw["runs"]:
        run["nodes"] = [
            {"bytes": 1, "resident_bytes": 0, "reads": 3, "share": 0.75, "queue_cycles": 0},
            {"bytes": 1, "resident_bytes": 0, "reads": 1, "share": 0.25, "queue_cycles": 0},
        ]
    text = legend(Comparison.model_validate(raw))
    assert text.replace("\n", " ").count("75.0, 25.0") == len(raw["runs"])
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(("number", "name"), [(9, "SIGKILL"), (40, "signal 40")])
def test_the_signal_that_ended_a_program_is_named_if_it_has_a_name(number: int, name: str) -> None:
    raw = canned.recording(exit_status=128 + number, signal=number)
    said = summary(Recording.model_validate(raw))
    assert f"ended by {name}" in said


def test_calls_that_were_refused_are_named_but_for_those_that_every_program_tries() -> None:
    def said(*calls: tuple[str, str, int]) -> str:
        refused = [{"call": call, "error": error, "times": times} for call, error, times in calls]
        return summary(Recording.model_validate(canned.recording(refused=refused)))

    assert "REFUSED" not in said()
    assert "REFUSED" not in said(("rseq", "ENOSYS", 1), ("clone3", "ENOSYS", 9))
    text = said(("io_uring_setup", "ENOSYS", 1), ("rseq", "ENOSYS", 1), ("unshare", "EINVAL", 2))
    assert text.endswith("unshare 2 (EINVAL), io_uring_setup 1 (ENOSYS)")
    text = said(("setrlimit(RLIMIT_AS)", "without effect", 1))
    assert text.endswith("GRANTED, but not as by a kernel: setrlimit(RLIMIT_AS) 1 (without effect)")


def test_results_that_pagelab_never_writes_are_refused(tmp_path: Path) -> None:
    def refused(raw: object, said: str) -> None:
        (tmp_path / "result.json").write_text(json.dumps(raw))
        with pytest.raises(PagelabError, match=rf"result\.json is not a result .*: {said}"):
            results.load(tmp_path)

    refused(canned.comparison(runs=[]), "runs: there is none")
    for key in ("elapsed", "total"):
        raw = canned.comparison("radix", "dpt")
        raw["runs"][1]["cycles"][key] = 0
        refused(raw, rf"runs\.1\.cycles\.{key} is 0")
    raw = canned.comparison("radix")
    raw["runs"][0]["instructions"] = 0
    refused(raw, r"runs\.0\.instructions is 0")
