"""The file of a sweep: which points it stands for, and what is said of one that is wrong."""

import json
import os
import subprocess
import sys
import threading
from itertools import product
from pathlib import Path

import pytest

from pagelab import _core
from pagelab.errors import PagelabError, UsageError
from pagelab.sweeping import file, plan

FILE = """
[vary]
workload = ["stream", "bfs"]
design = ["radix", "dpt"]
"dpt.max_soa_step" = [4, 8]
"""


def load(tmp_path: Path, text: str) -> file.Sweep:
    (tmp_path / "sweep.toml").write_text(text)
    return file.load(tmp_path / "sweep.toml")


def test_every_combination_in_the_files_order(tmp_path: Path) -> None:
    found = [tuple(point.values()) for point in load(tmp_path, FILE).points()]
    assert found == list(product(["stream", "bfs"], ["radix", "dpt"], [4, 8]))


def test_what_has_no_end_is_not_read_to_it(tmp_path: Path) -> None:
    # With so much memory that reading on would end.
    code = f"""
import resource
from pathlib import Path
from pagelab.errors import PagelabError
from pagelab.sweeping import file

resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
for path in ("/dev/zero", {str(tmp_path / "large.toml")!r}):
    try:
        file.load(Path(path))
    except PagelabError as error:
        print(error)
"""
    (tmp_path / "large.toml").write_text("#" * (4 << 20) + "\n" + FILE)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert len(told) == 2
    assert all(line.endswith("is no sweep's file: it has more than 4 MiB") for line in told)


@pytest.mark.parametrize(
    "more",
    [
        "replicates = 1_000_000_000\n" + FILE,
        FILE + f'"core.width" = {list(range(1, 1001))}\n"tlb.l2_cycles" = {list(range(1, 1001))}',
    ],
)
def test_more_runs_than_can_be_listed_are_refused(more: str, tmp_path: Path) -> None:
    with pytest.raises(PagelabError, match=r"sweep\.toml: .* make [\d,]*,000,000 combinations"):
        load(tmp_path, more)


def test_a_sweep_may_come_through_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    writer = threading.Thread(target=(tmp_path / "fifo").write_text, args=(FILE,), daemon=True)
    writer.start()
    assert len(file.load(tmp_path / "fifo").points()) == 8


def test_only_where(tmp_path: Path) -> None:
    text = FILE + '[[only]]\n"dpt.max_soa_step" = 4\nwhere = { design = "dpt" }\n'
    found = {(p["design"], p["dpt.max_soa_step"]) for p in load(tmp_path, text).points()}
    assert found == {("radix", 8), ("dpt", 4), ("dpt", 8)}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [("'>= 8'", {8}), ("'< 8'", {4}), ("'!= 4'", {8}), ("[4, 8]", {4, 8}), ("4", {4})],
)
def test_conditions_may_be_bounds_and_lists(tmp_path: Path, wanted: str, found: set[int]) -> None:
    text = FILE + f'[[only]]\nwhere = {{ "dpt.max_soa_step" = {wanted} }}\n'
    assert {p["dpt.max_soa_step"] for p in load(tmp_path, text).points()} == found


def test_keys_that_change_together_are_one_axis(tmp_path: Path) -> None:
    text = FILE + (
        '[[together]]\n"caches.llc.kib" = 1024\n"caches.llc.ways" = 16\n'
        '[[together]]\n"caches.llc.kib" = 512\n"caches.llc.ways" = 8\n'
    )
    sweep = load(tmp_path, text)
    assert len(sweep.points()) == 2 * 8
    pairs = {(p["caches.llc.kib"], p["caches.llc.ways"]) for p in sweep.points()}
    assert pairs == {(1024, 16), (512, 8)}


def test_seeds_may_change_together_with_other_keys(tmp_path: Path) -> None:
    text = FILE + (
        '[[together]]\nseed = 1\n"core.width" = 4\n[[together]]\nseed = 2\n"core.width" = 6\n'
    )
    sweep = load(tmp_path, text)
    assert sweep.axes[-1] == "seed"
    assert {(p["core.width"], p["seed"]) for p in sweep.points()} == {(4, 1), (6, 2)}


def test_a_baseline_has_what_changes_together_with_it(tmp_path: Path) -> None:
    text = (
        'baseline = { "caches.llc.kib" = 512 }\n'
        + FILE
        + (
            '[[together]]\n"caches.llc.kib" = 1024\n"caches.llc.ways" = 16\n'
            '[[together]]\n"caches.llc.kib" = 512\n"caches.llc.ways" = 8\n'
        )
    )
    assert load(tmp_path, text).baseline == {"caches.llc.kib": 512, "caches.llc.ways": 8}


def test_replicates_are_seeds(tmp_path: Path) -> None:
    sweep = load(tmp_path, "replicates = 3\n" + FILE)
    assert sweep.axes == ["workload", "design", "dpt.max_soa_step", "seed"]
    assert [point["seed"] for point in sweep.points()[:4]] == [1, 2, 3, 1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[vary]\nworklod = ['bfs']", "unknown axis 'worklod'; did you mean 'workload'?"),
        ("[vary]\ndesign = ['dpt']", "vary either workload or trace"),
        ("[vary]\nworkload = 'bfs'", "vary.workload: Input should be a valid list"),
        ("replicats = 3\n" + FILE, "replicats: Extra inputs"),
        (FILE + "[[only]]\ndesin = 'dpt'\nwhere = {}", "only: unknown axis 'desin'"),
        (
            FILE + 2 * "[[only]]\nwhere = { design = '%s' }\n" % ("dpt", "radix"),
            "no point is left",
        ),
        (FILE + "[[only]]\nwhere = { design = 'ideall' }", "only: design is never 'ideall'"),
        (FILE + "[[only]]\ndesign = 'ideall'\nwhere = {}", "but one of radix, dpt"),
        ("baseline = { design = 'radx' }\n" + FILE, "baseline: design is never 'radx'"),
        (
            "baseline = { design = 'dpt', 'dpt.max_soa_step' = 4 }\n"
            + FILE
            + "[[only]]\ndesign = 'dpt'\nwhere = { 'dpt.max_soa_step' = 8 }",
            "baseline: no point has all of these values",
        ),
        (FILE + "seed = [1, 2, 1]", "vary.seed: 1 is there twice"),
        (FILE + "seed = []", "vary.seed: no value is given"),
        (
            FILE + 2 * "[[together]]\n'core.width' = 4\n",
            "together: {'core.width': 4} is there twice",
        ),
        (FILE + "[[together]]\ndesign = 'radix'", "together: design is given by vary, too"),
        ("replicates = 2\n" + FILE + "[[together]]\nseed = 1", "seed is given by replicates, too"),
        ("[vary]\ntrace = ['a']\n'workload.footprint' = [1]", "a trace has no parameters"),
        ("[vary]\nworkload = ['bfs']\ncore.width = [4]", "a key with dots in it belongs in quotes"),
        ("set.core.width = 4\n" + FILE, "a key with dots in it belongs in quotes"),
        (FILE + "[[plot]]\nx = 'desing'\ny = 'cycles.elapsed'", "plot: x: unknown axis 'desing'"),
        (FILE + "[[plot]]\nx = 'design'\nline = 'desing'\ny = 'a'", "plot: line: unknown axis"),
        (
            FILE + "[[only]]\nwhere = { 'dpt.max_soa_step' = '>= x' }",
            "only: '>= x' is no bound: a number belongs after >=",
        ),
        ("baseline = { desin = 'dpt' }\n" + FILE, "baseline: unknown axis 'desin'"),
        ("[[together]]\na.b = 1\n[vary", "sweep.toml: "),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(PagelabError) as raised:
        load(tmp_path, text)
    assert says in str(raised.value)
    assert "sweep.toml" in str(raised.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('"dpt"', '"dtp"'), "did you mean 'dpt'"),
        (('"bfs"', '"bsf"'), "unknown workload 'bsf'"),
        (("dpt.max_soa_step", "dpt.max_soa_steps"), "max_soa_steps"),
        (('"dpt"', '"dpt:max_soa_step=4"'), "has a value of dpt.max_soa_step, which varies, too"),
        (("[vary]", "[vary]\ncopies = ['x']"), "copies: 'x' is not a whole number above 0"),
        (("[vary]", "[vary]\ncopies = [1.5]"), "copies: 1.5 is not a whole number above 0"),
        (("[vary]", "[vary]\ncopies = [0]"), "copies: 0 is not a whole number above 0"),
    ],
)
def test_what_cannot_be_simulated_is_said_before_anything_runs(
    tmp_path: Path, change: tuple[str, str], says: str
) -> None:
    sweep = load(tmp_path, FILE.replace(*change))
    with pytest.raises(UsageError) as raised:
        plan.plan(sweep, tmp_path)
    assert says in str(raised.value)


def test_parameters_of_the_workload_and_keys_reach_the_case(tmp_path: Path) -> None:
    text = 'set = { "core.width" = 6 }\n' + FILE.replace(
        '"dpt.max_soa_step" = [4, 8]', '"workload.footprint" = ["16M"]\ncopies = [2]\nseed = [7]'
    )
    _, case = plan.plan(load(tmp_path, text), tmp_path)[0]
    assert case.task["overrides"] == ["core.width=6", "seed=7"]
    first, second = case.task["source"]["programs"]
    assert first == second
    assert first["parameters"] == {"footprint": "16M", "seed": "7"}


def test_replicates_have_other_data_unless_the_program_names_its_own(tmp_path: Path) -> None:
    text = "replicates = 2\n[vary]\nworkload = ['stream', 'bfs:seed=9']\n"
    cases = [case for _, case in plan.plan(load(tmp_path, text), tmp_path)]
    seeds = [case.task["source"]["parameters"]["seed"] for case in cases]
    assert seeds == ["1", "2", "9", "9"]


def test_a_part_of_the_machine_may_be_left_out(tmp_path: Path) -> None:
    text = 'set = { "caches.prefetch" = "none" }\n' + FILE
    _, case = plan.plan(load(tmp_path, text), tmp_path)[0]
    machine = json.loads(_core.machine("dpt-paper", case.task["overrides"]))
    assert "prefetch" not in machine["caches"]


def test_traces_are_known_by_their_content(tmp_path: Path) -> None:
    for name, content in (("a.csv", b"1"), ("b.csv", b"1"), ("c.csv", b"2")):
        (tmp_path / name).write_bytes(content)
    sweep = load(tmp_path, '[vary]\ntrace = ["?.csv"]')
    a, b, c = (case.key for _, case in plan.plan(sweep, tmp_path))
    assert a == b != c
    with pytest.raises(PagelabError, match=r"no file is called .*\*\.trace"):
        plan.plan(load(tmp_path, '[vary]\ntrace = ["*.trace"]'), tmp_path)


def test_patterns(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv", "b[1].csv"):
        (tmp_path / name).write_text("S,10000000\n")

    def named(*patterns: str) -> list[object]:
        sweep = load(tmp_path, f"[vary]\ntrace = {list(patterns)}")
        return [point["trace"] for point, _ in plan.plan(sweep, tmp_path)]

    # One that two patterns stand for is no replicate of itself.
    assert named("?.csv", "a.csv") == ["a.csv", "b.csv"]
    assert named("b[1].csv") == ["b[1].csv"]
    assert named(f"{tmp_path}/?.csv") == [f"{tmp_path}/{name}" for name in ("a.csv", "b.csv")]
