"""The parts of `pagelab reproduce fbmm`: what is computed from counts, and what is kept."""

import json
from pathlib import Path

import pytest

from pagelab.errors import PagelabError, UsageError
from pagelab.linux import layout, manager, suite
from pagelab.linux.fbmm import lines, part, placement, ranges, report, tiers

PLAN = report.read(layout.find())


def test_every_part_has_its_table_and_benchmarks() -> None:
    where = layout.find()
    assert {one.name for one in report.PARTS} | {"title"} == set(PLAN)
    suites = [*PLAN["costs"]["suites"].values(), *PLAN["threads"]["suites"].values()]
    suites += [name for move in PLAN["gups"]["move"] for name in move["suites"].values()]
    suites += [*PLAN["memcached"]["suites"].values(), *PLAN["ranges"]["suites"].values()]
    jobs = list(suite.load(where.linux / "bench", [*suites, PLAN["placement"]["suite"]]))
    assert all((job.folder / job.entry.program).is_file() for job in jobs)


def test_the_share_is_of_all_loads() -> None:
    counts = [[90, 10, 1, 2, 30, 10], [50, 50, 3, 4, 0, 40]]
    assert tiers.share(counts, slice(0, 2)) == 60 / 200
    assert tiers.share(counts, slice(4, 6)) == 50 / 80


def test_memcached_has_a_row_a_stretch_and_the_papers_below() -> None:
    stretch = [{"reads": 32000, "loads": 0.1, "misses": 0.75}]
    text = tiers.render_memcached({"paper": {"Linux": 0.57}}, {"Linux": stretch, "other": stretch})
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert rows[2] == ["32,000 reads", "75.0 %", "10.0 %", "75.0 %", "10.0 %"]
    assert rows[3] == ["paper", "57.0 %", "", "", ""]


def test_exact_placement_by_a_slow_round_robin() -> None:
    for weights in ([1, 1], [3, 2], [1, 3], [5, 2]):
        turn = [0] * weights[0] + [1] * weights[1]
        for pages in range(40):
            counts = {
                sum(turn[(start + page) % len(turn)] == 0 for page in range(pages))
                for start in range(len(turn))
            }
            least, most = placement.expected(weights, pages)
            assert least <= min(counts) <= max(counts) <= most


def test_ranges_are_where_their_files_are_mapped() -> None:
    maps = (
        "7f0000010000-7f0000014000 rw-p 00020000 00:1b 77   /anon (deleted)\n"
        "7f0000014000-7f0000015000 r--p 00000000 00:00 0 \n"
    )
    # Pages 0x20 to 0x23 of file 77 are mapped; file 78 is not.
    table = "77 16 18 1000\n77 34 10 5000\n78 0 5 1\n"
    first = 0x7F0000010
    assert ranges.place(maps, table) == [(first, 2, 1016), (first + 2, 2, 5000)]


def test_lines_that_a_patch_adds() -> None:
    patch = (
        "--- a/mm/x.c\n+++ b/mm/x.c\n@@ -1 +1,2 @@\n-old\n+new\n+more\n"
        "--- /dev/null\n+++ b/y.h\n@@ -0,0 +1 @@\n+z\n"
    )
    assert lines.changed(patch) == {"files": 2, "lines": 3}


def test_each_memory_file_system_is_counted() -> None:
    where = layout.find()
    found = lines.measure(where, PLAN["lines"], lambda _: None)
    assert set(found) == {*manager.names(where), manager.LIBRARY, "kernel"}
    for name in manager.names(where):
        assert 50 < found[name]["lines"] < 1500


def test_what_was_measured_is_measured_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def measure(*_: object) -> part.Data:
        calls.append(1)
        return {"x": len(calls)}

    one = part.Part("lines", "Lines", measure, lambda _, data: f"x is {data['x']}\n")
    monkeypatch.setattr(report, "PARTS", (one,))
    where = layout.find()

    def run(*, again: bool = False) -> str:
        return report.reproduce(where, [], tmp_path, lambda _: None, again=again).markdown

    assert "x is 1" in run()
    assert "x is 1" in run()
    assert "x is 2" in run(again=True)
    kept = json.loads((tmp_path / "lines.json").read_text())
    (tmp_path / "lines.json").write_text(json.dumps(kept | {"state": "another kernel"}))
    assert "x is 3" in run()
    (tmp_path / "lines.json").write_text("{")
    assert "x is 4" in run()


def test_a_part_that_fails_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> part.Data:
        raise PagelabError("no kernel")

    good = part.Part("lines", "Lines", lambda *_: 1, lambda *_: "fine\n")
    bad = part.Part("calls", "Calls", fail, lambda *_: "")
    where = layout.find()
    monkeypatch.setattr(report, "PARTS", (bad, good))
    text = report.reproduce(where, [], tmp_path, lambda _: None, again=False).markdown
    assert "fine" in text
    assert "- Calls: no kernel" in text
    with pytest.raises(PagelabError, match="no kernel"):
        report.reproduce(where, ["calls"], tmp_path, lambda _: None, again=False)
    with pytest.raises(UsageError, match="calls"):
        report.reproduce(where, ["nonsense"], tmp_path, lambda _: None, again=False)
