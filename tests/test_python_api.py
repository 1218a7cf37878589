"""pagelab from Python: the examples of the functions and of docs/python.md, and the notebook."""

import doctest
import importlib
import json
import subprocess
import sys
import threading
from pathlib import Path

import jedi  # type: ignore[import-untyped]
import nbclient
import nbformat
import pytest

import pagelab
from emulators import needs_recorder
from pagelab import _core, designs, machines, tlbs, workloads
from processes import PATIENCE

DOCS = Path(__file__).parents[1] / "docs"
MODULES = [
    "pagelab.api",
    "pagelab.design",
    "pagelab.designs",
    "pagelab.frames",
    "pagelab.machine",
    "pagelab.machines",
    "pagelab.pages",
    "pagelab.sources",
    "pagelab.tlbs",
    "pagelab.window",
    "pagelab.workloads",
]
TABLES = {name.partition("+")[0] for name, _ in _core.designs()}
TLBS = {name.partition("+")[2] for name, _ in _core.designs()} - {""}
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
CHASE = workloads.pointer_chase(pages=2000, loads=20_000, windows=0)


@needs_recorder
@pytest.mark.parametrize("name", MODULES)
def test_every_example_of_a_function_says_what_happens(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name), optionflags=OPTIONS)
    assert result.attempted > 0
    assert result.failed == 0


@needs_recorder
def test_every_example_of_the_page_says_what_happens(tmp_path: Path) -> None:
    # In a process of its own, as the recorded program writes to its standard output.
    script = (
        "import doctest, sys; "
        f"sys.exit(doctest.testfile({str(DOCS / 'python.md')!r}, module_relative=False, "
        f"optionflags={OPTIONS}).failed)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


@needs_recorder
def test_the_notebook_runs_and_draws_the_report(tmp_path: Path) -> None:
    notebook = nbformat.read(  # type: ignore[no-untyped-call]
        DOCS / "python.ipynb", as_version=4
    )
    nbclient.NotebookClient(
        notebook,
        timeout=PATIENCE,
        kernel_name="python3",
        resources={"metadata": {"path": tmp_path}},
    ).execute()
    shown = [
        output["data"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output["output_type"] == "execute_result"
    ]
    drawn = [data["text/html"] for data in shown if "pagelab" in data.get("text/html", "")]
    assert any("Where the cycles go" in html for html in drawn)
    assert not any("<script" in html for html in drawn)


def test_the_package_is_light_until_it_is_used() -> None:
    script = (
        "import sys, pagelab; "
        "heavy = {'pydantic', 'pyarrow', 'polars', 'jinja2', 'rich', 'typer'} & set(sys.modules); "
        "print(sorted(heavy), pagelab.compare.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "[] compare\n", done.stderr


def test_all_that_is_named_is_there() -> None:
    for name in pagelab.__all__:
        assert getattr(pagelab, name) is not None
    assert callable(pagelab.measure)
    with pytest.raises(AttributeError, match="comparee"):
        _ = pagelab.comparee


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("pagelab.comp", {"compare"}),
        ("pagelab.designs.", {name.replace("-", "_") for name in TABLES}),
        ("pagelab.tlbs.", TLBS),
        ("pagelab.machines.", {"dpt_paper", "skylake_sp"}),
        ("pagelab.machines.dpt_paper.", {"tlb", "memory", "config"}),
        ("pagelab.workloads.", {"bfs", "pointer_chase", "xsbench"}),
    ],
)
def test_an_editor_completes_names(typed: str, completed: set[str]) -> None:
    script = jedi.Script(f"import pagelab\n{typed}", project=jedi.Project(DOCS.parent / "python"))
    assert completed <= {found.name for found in script.complete()}


def test_an_editor_completes_keys() -> None:
    [signature] = jedi.Script("from pagelab import designs\ndesigns.dpt(").get_signatures()
    assert {"cpd", "fap", "pages"} <= {parameter.name for parameter in signature.params}


def test_an_object_and_its_name_on_the_command_line_are_one() -> None:
    mosaic = designs.dpt(fap=False, pages="2M").with_tlb(tlbs.mosaic(pages=16))
    assert str(mosaic) == "dpt+mosaic:fap=false:mosaic.pages=16:pages=2M"
    for design in (designs.dpt(cpd=False), mosaic):
        assert pagelab.Design.parse(str(design)) == design
    given = pagelab.simulate(CHASE, designs.radix(levels=5))
    parsed = pagelab.simulate(CHASE, "radix:levels=5")
    assert given.model_dump(exclude={"host"}) == parsed.model_dump(exclude={"host"})


def test_every_value_reaches_the_machine() -> None:
    machine = (
        machines.skylake_sp.general(name="mine", seed=3)
        .core(ghz=3.5)
        .tlb(l2_4k={"entries": 3072, "ways": 12})
        .caches(walks_enter="l2")
        .memory(
            nodes=[
                {"bytes": "8GiB", "latency_ns": 80.0, "gigabytes_per_second": 100.0},
                {"bytes": "16GiB", "latency_ns": 180.0, "gigabytes_per_second": 30.0},
            ],
            manager={"name": "bandwidth", "weights": "3:2"},
        )
        .set("dpt.cpd=false", "dpt.dmt.4K=4096")
    )
    config = machine.config
    assert (config["name"], config["seed"], config["core"]["ghz"]) == ("mine", 3, 3.5)
    assert config["tlb"]["l2_4k"] == {"entries": 3072, "ways": 12}
    assert config["caches"]["walks_enter"] == "l2"
    assert [node["bytes"] for node in config["memory"]["nodes"]] == [8 << 30, 16 << 30]
    assert config["memory"]["manager"]["name"] == "bandwidth"
    assert (config["dpt"]["cpd"], config["dpt"]["dmt"]["4K"]) == (False, 4096)
    # What was not named is as it was.
    assert config["dpt"]["dmt"]["2M"] == machines.skylake_sp.config["dpt"]["dmt"]["2M"]
    assert machines.skylake_sp.config["seed"] == 1


def test_mistakes_are_named_where_they_are_made() -> None:
    with pytest.raises(pagelab.UsageError, match="levels"):
        designs.radix(levels="five")  # type: ignore[arg-type]
    with pytest.raises(pagelab.UsageError, match=r"mosaic\.pages"):
        tlbs.mosaic(pages="five")  # type: ignore[arg-type]
    with pytest.raises(pagelab.UsageError, match=r"unknown design 'radix\+mosaic\+range'"):
        designs.radix().with_tlb(tlbs.mosaic()).with_tlb(tlbs.range())
    with pytest.raises(pagelab.UsageError, match="footprint"):
        workloads.bfs(footprint="1 nibble")
    with pytest.raises(pagelab.UsageError, match="Valid: 4K"):
        pagelab.simulate(CHASE, pages="3M")
    with pytest.raises(pagelab.UsageError, match="no trace"):
        pagelab.simulate("there-is-none.trace")
    with pytest.raises(pagelab.PagelabError, match="no access"):
        pagelab.simulate(CHASE, window=pagelab.Window(skip=1_000_000))


def test_a_comparison_is_a_table(tmp_path: Path) -> None:
    comparison = pagelab.compare(CHASE, ["radix", "ideal"], out=tmp_path)
    frame = comparison.to_polars()
    assert frame["design"].to_list() == ["radix", "ideal"]
    parts = ("compute", "data", "translation", "faults", "migrations")
    added = sum(frame[f"cycles.{part}"] for part in parts)
    assert (frame["cycles.total"] >= added).all()
    assert frame["walks.count"].to_list() == [run.walks.count for run in comparison.runs]
    assert {file.name for file in tmp_path.iterdir()} == {
        "report.html",
        "result.json",
        "result.parquet",
    }
    assert comparison.runs[0].to_arrow().num_rows == 1
    assert "radix" in comparison.runs[0]._repr_html_()


def test_a_run_is_found_by_what_tells_it_from_others() -> None:
    comparison = pagelab.compare(
        CHASE, ["radix", "dpt"], pages=["4K", "2M"], machine=["dpt-paper", "zen4"]
    )
    for run in comparison.runs:
        assert comparison[run.design, run.pages, run.machine_name] is run
    assert comparison["zen4", "2M", "dpt"] is comparison["dpt 2M", "zen4"]
    with pytest.raises(
        pagelab.UsageError, match=r"\['radix', '4K'\] are 2 runs: .*'dpt-paper'.*zen4"
    ):
        comparison["radix", "4K"]
    with pytest.raises(pagelab.UsageError, match=r"no run \['dtp'\]. There are: 'radix', '4K'"):
        comparison["dtp"]


def test_a_comparison_prints_a_line_a_run() -> None:
    comparison = pagelab.compare(CHASE, ["radix", "ideal"], pages=["4K", "64K", "2M"])
    many = comparison.model_copy(update={"runs": comparison.runs * 5})
    for one in (comparison, many):
        assert repr(one) == str(one)
        assert len(repr(one).splitlines()) <= 10
        assert "radix 4K: base" in repr(one)
    assert "23 more" in repr(many).splitlines()[-1]
    assert len(repr(comparison.runs[0])) < 200
    assert repr([comparison]).count("\n") < 10


def test_the_answer_is_in_the_result(tmp_path: Path) -> None:
    comparison = pagelab.compare(CHASE, ["radix", "ideal", "dpt"], out=tmp_path)
    kept = json.loads((tmp_path / "result.json").read_text())["answer"]
    assert kept["decisions"][0]["best"] == "dpt"
    assert kept["headline"] in comparison.answer.text
    # It is made anew of the runs, whatever the file says.
    assert pagelab.load(tmp_path).answer == comparison.answer


def test_a_sweep_returns_failed_points_among_the_rows(tmp_path: Path) -> None:
    file = tmp_path / "chase.toml"
    file.write_text(
        'measure = ["cycles.elapsed"]\n[vary]\nworkload = ["pointer-chase:pages=2000,loads=2000"]\n'
        'design = ["radix"]\n"memory.memory_bytes" = [4194304, 1073741824]\n'
    )
    found = pagelab.sweep(file, store=tmp_path / "store", out=tmp_path / "first")
    assert found.counts == {"done": 1, "failed": 1, "missing": 0}
    assert {path.name for path in (tmp_path / "first").iterdir()} == {
        "sweep.parquet",
        "report.html",
    }
    assert len(repr(found)) < 200
    assert pagelab.diff(tmp_path / "first", tmp_path / "first").same


@needs_recorder
def test_annotations_add_up_to_the_totals(tmp_path: Path) -> None:
    comparison = pagelab.compare(["true"], ["radix"], machine="dpt-paper", out=tmp_path)
    for source in (comparison, comparison.runs[0], tmp_path):
        found = pagelab.annotate(source, by="faults")
        os = comparison.runs[0].os
        assert sum(line.faults for line in found.lines) == os.faults - os.outside.faults
        faults = [line.faults for line in found.functions]
        assert faults == sorted(faults, reverse=True)
    with pytest.raises(pagelab.UsageError, match="walks, l2, l1, faults"):
        pagelab.annotate(comparison, by="cycles")


def test_a_thread_may_simulate() -> None:
    found: list[pagelab.Run] = []
    thread = threading.Thread(target=lambda: found.append(pagelab.simulate(CHASE)))
    thread.start()
    thread.join()
    assert found[0].accesses == 20_000


@needs_recorder
def test_a_program_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    comparison = pagelab.compare(["sh", "-c", "exit 3"], ["radix"])
    assert comparison.recording is not None
    assert comparison.recording.exit_status == 3
    assert comparison.command == ["sh", "-c", "exit 3"]
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(pagelab.PagelabError, match="there-is-none"):
        pagelab.compare(["there-is-none"], ["radix"])
    assert list(tmp_path.iterdir()) == []
