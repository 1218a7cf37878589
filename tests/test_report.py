"""The report opens offline in a browser, fits its screen and shows what it was given."""

import json
import re
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import canned
from pagelab import report
from pagelab.counts import CYCLE_PARTS
from pagelab.report.bars import levels_chart
from pagelab.report.heat import heat_maps
from pagelab.report.templating import environment
from pagelab.results import Comparison

Browser = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def page(tmp_path: Path, comparison: Comparison) -> Path:
    path = tmp_path / "report.html"
    report.write(comparison, path)
    return path


def test_other_cores_caches_are_a_level_where_they_are_coherent(comparison: Comparison) -> None:
    name = "another core's caches"
    assert name not in dict(levels_chart(comparison).legend).values()
    made = canned.comparison()
    walks, caches = (made["runs"][0][key] for key in ("walks", "caches"))
    caches["coherence"] = {"transfers": 7, "upgrades": 1, "invalidations": 1}
    walks["served_by"] |= {"l1": 0, "l2": 0, "llc": 0, "dram": 21, "other_cores": 7}
    chart = levels_chart(Comparison.model_validate(made))
    assert name in dict(chart.legend).values()
    widths = {segment.kind: segment.width for segment in chart.rows[0].segments}
    assert widths == {"other_cores": 25.0, "dram": 75.0}


def test_nothing_is_fetched(page: Path) -> None:
    text = page.read_text()
    assert "default-src 'none'" in text
    assert not re.search(r"""(src|href)=["'](?!data:)""", text)
    assert "@import" not in text
    assert "url(" not in text


def test_it_renders_without_a_word_on_the_console(page: Path, chromium: Browser) -> None:
    done = chromium(page, "--dump-dom")
    assert not re.findall(r".*CONSOLE.*", done.stderr)
    # A map of memory a design, and a picture each of accesses, misses and faults: the script ran
    # to its end.
    assert done.stdout.count("<canvas") == 6
    assert "dpt would run this program" in done.stdout


def test_a_broken_script_would_be_noticed(page: Path, chromium: Browser) -> None:
    page.write_text(page.read_text().replace("drawAll();", "drawNothing();", 1))
    assert "CONSOLE" in chromium(page, "--dump-dom").stderr


def test_the_screenshot_is_not_blank(page: Path, tmp_path: Path, chromium: Browser) -> None:
    image = tmp_path / "shot.png"
    chromium(page, f"--screenshot={image}", "--window-size=1200,2400")
    rows = _png_rows(image)
    assert len(rows) == 2400
    # Text and charts from top to bottom: few rows of pixels are alike.
    for part in range(4):
        assert len(set(rows[part * 500 : part * 500 + 500])) > 100


def _png_rows(path: Path) -> list[bytes]:
    """The rows of a PNG as they are stored, filtered but not compressed."""
    data, at, packed = path.read_bytes(), 8, b""
    width = height = channels = 0
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert depth == 8
            channels = {2: 3, 6: 4}[colour]
        elif kind == b"IDAT":
            packed += body
        at += 12 + length
    pixels = zlib.decompress(packed)
    stride = 1 + width * channels
    return [pixels[i * stride : (i + 1) * stride] for i in range(height)]


@pytest.mark.parametrize("width", [400, 800, 1600])
def test_nothing_sticks_out_sideways(
    width: int, page: Path, tmp_path: Path, chromium: Browser
) -> None:
    # A frame, because a window cannot be made as narrow as a telephone.
    outer = tmp_path / "outer.html"
    inner = json.dumps(page.read_text()).replace("</", "<\\u002f")
    outer.write_text(
        f'<iframe id="f" style="width:{width}px;height:900px;border:0"></iframe>'
        "<script>const f = document.getElementById('f');"
        "f.onload = () => { const d = f.contentDocument.documentElement;"
        "document.title = `${d.clientWidth} ${d.scrollWidth}`; };"
        f"f.srcdoc = {inner};</script>"
    )
    found = re.search(r"<title>(\d+) (\d+)</title>", chromium(outer, "--dump-dom").stdout)
    assert found is not None
    assert (int(found[1]), int(found[2])) == (width, width)


@pytest.mark.parametrize("machines", [1, 2])
@pytest.mark.parametrize("width", [390, 700, 1000, 1100, 1200])
def test_no_figure_of_a_table_is_cut(
    tmp_path: Path, chromium: Browser, width: int, machines: int
) -> None:
    made = canned.comparison(*["radix", "dpt", "ideal"] * machines)
    for run in made["runs"][3:]:
        run["machine"]["name"] = "sapphire-rapids"
    page = tmp_path / "report.html"
    report.write(Comparison.model_validate(made), page)
    probe = (
        "<script>onload = () => { document.title = [...document.querySelectorAll('.scroll')]"
        ".map(box => box.scrollWidth - box.clientWidth).join(' '); };</script>"
    )
    page.write_text(page.read_text().replace("</body>", f"{probe}</body>"))
    dom = chromium(page, "--dump-dom", f"--window-size={width},2000").stdout
    found = re.search(r"<title>([-\d ]+)</title>", dom)
    assert found
    # Three tables, and one more machine's figures.
    assert [int(hidden) for hidden in found[1].split()] == [0] * (2 + machines)


def test_an_option_and_its_value_stay_on_one_line() -> None:
    unbroken = environment("pagelab.report").filters["unbroken"]
    assert unbroken("11 % & more: --pages 4K,2M shows what, as --thp would.") == (
        "11\N{NO-BREAK SPACE}% &amp; more: "
        '<span class="option">--pages 4K,2M</span> shows what, as '
        '<span class="option">--thp</span> would.'
    )


def test_each_run_has_a_table_of_what_only_its_design_counts() -> None:
    raw = canned.comparison("radix", "dpt", "ideal")
    radix, dpt, ideal = raw["runs"]
    radix["design_counters"] = {"nodes": {"allocated": 4321, "by_level": [[1, 0], [0, 2]]}}
    dpt["design_counters"] = {"stale": 0, "moves": [0, 0], "table_bytes": 8192}
    dpt["tlb_counters"] = {"fills": 1_200_000, "never": 0}
    ideal["design_counters"] = None
    of_radix, of_dpt = report.page(Comparison.model_validate(raw)).counters
    assert [column.name for column in of_radix.columns] == ["counter", "in all"]
    assert of_radix.rows == [
        ["nodes.allocated", "4,321"],
        ["nodes.by_level.0", "1, 0"],
        ["nodes.by_level.1", "0, 2"],
    ]
    assert of_dpt.label == "dpt"
    # 600 million instructions.
    assert of_dpt.rows == [["fills", "1,200,000", "2.00"], ["table_bytes", "8.00 KiB", "–"]]
    assert of_dpt.zero == ["never", "stale", "moves"]


def test_rates_of_counters_are_those_of_the_windows() -> None:
    raw = canned.comparison("dpt")
    (run,) = raw["runs"]

    def rate(*windows: dict[str, Any]) -> str:
        run["windows"] = list(windows)
        (table,) = report.page(Comparison.model_validate(raw)).counters
        return next(row[2] for row in table.rows if row[0] == "fills")

    assert rate(canned.window(instructions=4000) | {"tlb_counters": {"fills": 6}}) == "1.50"
    few, many = (
        canned.window(instructions=1000) | {"tlb_counters": {"fills": count}} for count in (1, 3)
    )
    # Deviation of the mean 1, Student's t of one degree of freedom 12.706.
    assert rate(few, many) == "2.00 ± 12.71"


def test_a_design_that_counts_nothing_has_no_section(tmp_path: Path) -> None:
    raw = canned.comparison("radix", "ideal")
    path = tmp_path / "report.html"
    report.write(Comparison.model_validate(raw), path)
    assert "What only" not in path.read_text()
    raw["runs"][0]["tlb_counters"] = {"<b>": 5}
    report.write(Comparison.model_validate(raw), path)
    text = path.read_text()
    assert "What only this design counts" in text
    assert "&lt;b&gt;" in text
    assert "<b>" not in text.split("What only")[1].split("</section>")[0]


def test_names_from_outside_stay_text(tmp_path: Path, chromium: Browser) -> None:
    hostile = "</script><script>console.log('broken out')</script>"
    raw = canned.comparison(name=hostile, command=[hostile])
    raw["runs"][1]["design"] = hostile
    for run in raw["runs"]:
        run["heat_map"]["rows"][0]["kind"] = hostile
    path = tmp_path / "report.html"
    report.write(Comparison.model_validate(raw), path)
    done = chromium(path, "--dump-dom")
    assert "CONSOLE" not in done.stderr
    assert done.stdout.count("<canvas") == 6


def _run_with(rows: list[tuple[str, int, list[int], list[int]]]) -> dict[str, Any]:
    return {
        "accesses_per_column": 1024,
        "bytes_per_row": 4096,
        "rows": [
            {
                "kind": kind,
                "address": address,
                "accesses": accesses,
                "l2_tlb_misses": missed,
                "faults": [],
            }
            for kind, address, accesses, missed in rows
        ],
    }


def test_designs_that_agree_in_every_cell_share_a_picture() -> None:
    raw = canned.comparison("radix", "dpt", "ideal")
    rows = [
        ("heap", 0x5000, [7, 0, 9], [0, 0, 2]),
        ("heap", 0x6000, [0, 0, 1], []),
        ("heap", 0x9000, [1, 0, 0], []),
        ("stack", 0xF000, [3, 3, 3], []),
    ]
    for run in raw["runs"]:
        run["heat_map"] = _run_with(rows)
    # One cell more misses in this design, none in that.
    raw["runs"][1]["heat_map"]["rows"][3]["l2_tlb_misses"] = [0, 1, 0]
    raw["runs"][2]["heat_map"]["rows"][0]["l2_tlb_misses"] = []
    comparison = Comparison.model_validate(raw)
    found = heat_maps(comparison)
    assert [(picture["of"], picture["designs"]) for picture in found] == [
        ("accesses", "radix, dpt, ideal"),
        ("second-level TLB misses", "radix"),
        ("second-level TLB misses", "dpt"),
    ]
    accesses, of_radix, of_dpt = found
    assert accesses["cells"] == [[0, 7, 2, 9], [2, 1], [0, 1], [0, 3, 1, 3, 2, 3]]
    assert of_radix["cells"] == [[2, 2], [], [], []]
    assert of_dpt["cells"] == [[2, 2], [], [], [1, 1]]
    heap, stack = accesses["bands"]
    # Between 0x7000 and 0x9000 nothing was accessed.
    assert heap == {"kind": "heap", "rows": ["0x5000", "0x6000", "0x9000"], "gaps": [2]}
    assert stack["kind"] == "stack"
    assert (accesses["columns"], accesses["step"], accesses["size"]) == (3, 1024, "4.00 KiB")
    assert accesses["ticks"][0] == [0.0, "0"]
    heat_map = comparison.runs[0].heat_map
    assert heat_map is not None
    assert heat_map.counts("l2_tlb_misses") == [[0, 0, 2], [0, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_a_result_without_heat_maps_has_no_section_of_them(tmp_path: Path) -> None:
    raw = canned.comparison()
    path = tmp_path / "report.html"
    report.write(Comparison.model_validate(raw), path)
    assert 'id="heat"' in path.read_text()
    for run in raw["runs"]:
        del run["heat_map"]
    report.write(Comparison.model_validate(raw), path)
    assert 'id="heat"' not in path.read_text()


def test_shares_in_the_bars_add_up_to_the_time(comparison: Comparison) -> None:
    chart = report.page(comparison).cycles
    assert chart.reference is not None
    for row, run in zip(chart.rows, comparison.runs, strict=True):
        width = sum(segment.width for segment in row.segments) / chart.reference
        assert width == pytest.approx(
            run.cycles.elapsed / comparison.baseline.cycles.elapsed, abs=1e-9
        )


def test_histograms_hold_every_walk(comparison: Comparison) -> None:
    chart = report.page(comparison).latency
    assert [ridge.design for ridge in chart.ridges] == ["radix", "dpt"]
    assert chart.without == ["ideal"]
    for ridge in chart.ridges:
        shares = [
            float(match[1]) for bar in ridge.bars if (match := re.search(r"([\d.]+) %", bar.tip))
        ]
        assert sum(shares) == pytest.approx(100, abs=0.05 * len(shares))


def test_a_run_without_walks_or_time_still_renders(tmp_path: Path) -> None:
    raw = canned.comparison("ideal")
    run = raw["runs"][0]
    run["timeline"] = []
    run["instructions"] = run["accesses"] = run["loads"] = run["stores"] = 0
    for key in ("elapsed", "total", *CYCLE_PARTS):
        run["cycles"][key] = 0
    report.write(Comparison.model_validate(raw), tmp_path / "report.html")
    assert "No design walked a page table" in (tmp_path / "report.html").read_text()
