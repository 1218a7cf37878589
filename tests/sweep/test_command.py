"""`pagelab sweep` and `pagelab diff` as a user runs them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pagelab.cli import app
from pagelab.errors import PagelabError, UsageError
from pagelab.experiment.store import Store
from pagelab.sweeping import file, plan, table

# The second point's memory is too small for it.
FILE = """
measure = ["cycles.elapsed"]
[set]
"dram.latency_ns" = 60
[vary]
workload = ["pointer-chase:pages=2000,loads=2000"]
"memory.memory_bytes" = [67108864, 4194304]
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.toml").write_text(FILE)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments])


def test_a_run_that_fails_is_a_row_and_is_not_tried_again_unless_asked() -> None:
    first = run("sweep", "two.toml", "--json", "-q", "-o", "out", "-j", "1")
    assert isinstance(first.exception, PagelabError)
    assert "1 of 2 runs failed" in str(first.exception)
    printed = json.loads(first.stdout)
    assert printed["counts"] == {"done": 1, "failed": 1, "missing": 0}
    done, failed = table.load(Path("out"))
    assert done["status"] == "done"
    assert done["cycles.elapsed"] > 0
    assert failed["status"] == "failed"
    assert "memory" in failed["error"]
    html = Path("out/report.html").read_text()
    assert "Runs that failed" in html

    # A mark on what is kept shows what is run again.
    store = Store(Path("pagelab-results/store"))
    cases = [case for _, case in plan.plan(file.load(Path("two.toml")), Path())]
    times = [store.get(case.key) for case in cases]
    assert run("sweep", "two.toml", "-q", "-o", "out").exception
    assert [store.get(case.key) for case in cases] == times
    assert run("sweep", "two.toml", "-q", "-o", "out", "--only", "failed").exception
    assert store.get(cases[0].key) == times[0]
    assert store.get(cases[1].key) != times[1]


def test_a_table_that_is_not_whole_is_no_success() -> None:
    said = run("sweep", "two.toml", "-q", "-o", "out", "--only", "failed")
    assert "2 of 2 runs are missing" in str(said.exception)
    assert [row["status"] for row in table.load(Path("out"))] == ["missing", "missing"]


def test_how_many_and_how_long_and_nothing_is_written() -> None:
    said = run("sweep", "two.toml", "--dry-run", "-q")
    assert said.exit_code == 0
    # One was run to be timed.
    assert "2 points, 2 runs, of which 1 are kept" in said.stdout
    assert "of processor time, judged by 1 run:" in said.stdout
    assert not Path("pagelab-results/sweep-two").exists()


def test_json_is_asked_of_everything_that_is_no_script() -> None:
    said = run("sweep", "two.toml", "--dry-run", "-q", "--json", "-j", "2")
    told = json.loads(said.stdout)
    assert (told["points"], told["runs"], told["kept"], told["judged_by"]) == (2, 2, 1, 1)
    assert told["memory_bytes"] > 0
    assert told["processor_seconds"] > 0
    assert told["at_once"] == 2
    counts = {"done": 0, "failed": 0, "missing": 0}
    for share in ("1/2", "2/2"):
        said = run("sweep", "two.toml", "-q", "--json", "--shard", share, "-j", "1")
        told = json.loads(said.stdout)
        assert told["shard"] == share
        counts = {status: counts[status] + count for status, count in told["counts"].items()}
    assert counts == {"done": 1, "failed": 1, "missing": 0}
    said = run("sweep", "two.toml", "--emit", "slurm", "--json")
    assert isinstance(said.exception, UsageError)
    assert said.stdout == ""


def test_there_is_a_file_to_begin_with() -> None:
    Path("tlb.toml").write_text(run("sweep", "--example").stdout)
    said = run("sweep", "tlb.toml", "--emit", "slurm")
    assert said.exit_code == 0
    points = plan.plan(file.load(Path("tlb.toml")), Path())
    assert len(points) == 2 * (2 * 3 + 1)


def test_a_share_in_which_a_run_failed_is_no_success() -> None:
    # What failed before, too.
    for _ in range(2):
        said = run("sweep", "two.toml", "-q", "--shard", "1/1", "-j", "1")
        assert "1 of 2 runs of share 1/1 failed" in str(said.exception)
    Path("two.toml").write_text(FILE.replace(", 4194304", ""))
    assert run("sweep", "two.toml", "-q", "--shard", "1/1", "-j", "1").exit_code == 0


def test_what_cannot_be_compared_is_no_difference() -> None:
    Path("x.parquet").write_text("no table")
    for command in (("diff", "a", "b"), ("diff", "x.parquet", "x.parquet")):
        assert isinstance(run(*command).exception, UsageError)


def test_what_two_sweeps_differ_in() -> None:
    one = FILE.replace("[67108864, 4194304]", "[67108864]")
    for name, latency in (("a", 60), ("b", 240)):
        text = one.replace('latency_ns" = 60', f'latency_ns" = {latency}')
        Path(f"{name}.toml").write_text(text)
        assert run("sweep", f"{name}.toml", "-q", "-o", name, "-j", "1").exit_code == 0
    same = run("diff", "a", "a")
    assert (same.exit_code, same.stdout.strip()) == (0, "no difference")
    other = run("diff", "a", "b", "--measure", "cycles.elapsed", "--json")
    assert other.exit_code == 1
    [change] = json.loads(other.stdout)["changes"]
    assert change["ratio"] > 1
    assert change["changed"] == 1


def test_a_measure_that_is_no_number_of_a_result() -> None:
    Path("two.toml").write_text(FILE.replace("cycles.elapsed", "cycles.elapsd"))
    said = run("sweep", "two.toml", "-q", "-j", "1")
    assert "no result has a number called cycles.elapsd" in str(said.exception)


def test_numbers_of_plots_need_not_be_measures() -> None:
    # Its name is no markup.
    Path("x[bold].csv").write_text("S,10000000\nL,10001000\n")
    text = 'measure = ["cycles.elapsed"]\n[vary]\ntrace = ["x[bold].csv"]\n'
    text += 'design = ["radix", "dpt"]\n[[plot]]\nx = "design"\ny = "walks.count"\n'
    text += '[[plot]]\npareto = true\nx = "loads"\ny = "walks.count"\n'
    Path("plots.toml").write_text(text.replace('"loads"', '"loadz"'))
    said = run("sweep", "plots.toml", "-q", "-j", "1")
    assert "plot: no result has a number called loadz" in str(said.exception)
    Path("plots.toml").write_text(text)
    said = run("sweep", "plots.toml", "-q", "-j", "1", "-o", "out")
    assert said.exception is None
    assert "x[bold].csv" in said.stdout
    html = Path("out/report.html").read_text()
    assert "walks.count over design" in html
    assert '<span class="dot ' in html
    assert run("diff", "out", "out").stdout.strip() == "no difference"


@pytest.mark.parametrize("name", ["workload", "status"])
def test_a_measure_that_is_an_axis(name: str) -> None:
    Path("two.toml").write_text(FILE.replace("cycles.elapsed", name))
    said = run("sweep", "two.toml", "-q", "-j", "1")
    assert f"no result has a number called {name}" in str(said.exception)


@pytest.mark.parametrize(
    "options",
    [
        ("--only", "done"),
        ("--shard", "4/3"),
        ("--shard", "\N{SUPERSCRIPT TWO}/3"),
        ("--emit", "pbs"),
        # Everything would be missing.
        ("--again", "--only", "failed"),
    ],
)
def test_options_that_make_no_sense(options: tuple[str, ...]) -> None:
    assert isinstance(run("sweep", "two.toml", *options).exception, UsageError)


def test_a_script_for_sbatch() -> None:
    script = run("sweep", "two.toml", "--emit", "slurm", "--shards", "7").stdout
    assert script.startswith("#!/bin/sh\n")
    assert "#SBATCH --array=1-7\n" in script
    assert f"{Path('two.toml').resolve()}" in script
    assert '--shard "$SLURM_ARRAY_TASK_ID/7"' in script


def test_a_script_of_a_link_looks_for_traces_beside_it_and_does_what_was_asked() -> None:
    Path("other").mkdir()
    Path("other/two.toml").symlink_to(Path("two.toml").resolve())
    emit = ("sweep", "other/two.toml", "--emit", "slurm")
    assert f"{Path.cwd()}/other/two.toml" in run(*emit).stdout
    assert " --only failed " in run(*emit, "--only", "failed").stdout
    assert " --again " in run(*emit, "--again").stdout
