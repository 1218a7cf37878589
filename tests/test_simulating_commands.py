"""Simulations of built-in programs and of traces, as a user runs them."""

import subprocess
from pathlib import Path

import pytest

from commands import interrupted, pagelab, result, simulated, without_host


# Under LRU a cyclic chain over more lines than fit never hits; DRRIP keeps a part of them (Jaleel
# et al., ISCA 2010, section 4.2).
def test_a_replacement_policy_is_a_name_or_a_table(tmp_path: Path) -> None:
    chain = ["-w", "pointer-chase:pages=4000,loads=80000", "-d", "radix"]
    caches = ["--set", "caches.l2.kib=64", "--set", "caches.llc.kib=128"]
    caches += ["--set", "caches.llc.ways=16"]

    def hits(policy: str) -> tuple[object, float]:
        key = ("--set", f"caches.llc.replacement={policy}")
        run = simulated(tmp_path, *chain, *caches, *key)
        named = run["machine"]["caches"]["llc"].get("replacement")
        return named, run["caches"]["data"]["llc"] / run["accesses"]

    named, share = hits("lru")
    assert named is None
    assert share < 0.01
    named, share = hits('"drrip"')
    assert named == "drrip"
    assert share > 0.1
    keys = {"name": "drrip", "leaders": 4, "selector_bits": 8, "one_in": 32}
    named, share = hits('{ name = "drrip", leaders = 4, selector_bits = 8 }')
    assert named == keys
    assert share > 0.1
    compared = pagelab("compare", *chain, "--set", "caches.llc.replacement=srrip", cwd=tmp_path)
    assert compared.returncode == 0, compared.stderr
    refused = pagelab("simulate", *chain, "--set", "caches.llc.replacement=ships", cwd=tmp_path)
    assert "unknown variant `ships`, expected one of `lru`" in refused.stderr


# A cyclic chain over more pages than the TLB holds misses at every load, by the definition of
# LRU; over fewer pages it misses once a page.
@pytest.mark.parametrize("design", ["radix", "dpt"])
def test_a_chain_that_overflows_the_tlb_walks_at_every_access(design: str, tmp_path: Path) -> None:
    run = simulated(tmp_path, "-d", design, "-w", "pointer-chase:pages=20000,loads=100000")
    assert run["accesses"] == run["tlb"]["l2_misses"] == 100_000
    served = run["walks"]["served_by"]
    assert sum(served.values()) == run["walks"]["reads"]
    histogram = run["walks"]["latency"]["histogram"]
    assert sum(count for _, count in histogram) == run["walks"]["count"]


def test_a_chain_that_fits_the_tlb_walks_only_to_fill_it(tmp_path: Path) -> None:
    run = simulated(tmp_path, "-d", "radix", "-w", "pointer-chase:pages=500,loads=100000")
    assert run["tlb"]["l2_misses"] == 500


def test_large_pages_shrink_the_tables_and_the_misses(tmp_path: Path) -> None:
    workload = "random-updates:footprint=64MiB,updates=50000"
    small = simulated(tmp_path, "-d", "radix", "-w", workload)
    large = simulated(tmp_path, "-d", "radix", "-w", workload, "--thp")
    # 64 MiB are 32 tables of 512 entries, or 32 entries of one table.
    assert small["os"]["peak_table_bytes"] - large["os"]["peak_table_bytes"] == 32 * 4096
    assert large["tlb"]["l2_misses"] < small["tlb"]["l2_misses"] / 100


def test_a_stream_written_by_hand_is_simulated(tmp_path: Path) -> None:
    csv = tmp_path / "three-pages.csv"
    csv.write_text(
        "kind,addr,size,gap,dep\n"
        "S,7f0000001000,8,3,0\n"
        "S,7f0000002000,8,3,0\n"
        "L,7f0000001008,8,0,0\n"
        "L,7f0000003ff8,8,9,1\n"
    )
    run = simulated(tmp_path, "-d", "radix", "-m", "dpt-paper", "-t", str(csv))
    assert (run["accesses"], run["loads"], run["stores"]) == (4, 2, 2)
    assert run["instructions"] == 4 + 3 + 3 + 0 + 9
    assert run["os"]["faults"] == 3
    assert run["os"]["peak_resident_bytes"] == 3 * 4096
    # One table a level.
    assert run["os"]["peak_table_bytes"] == 4 * 4096


def test_the_same_run_gives_the_same_numbers_on_any_number_of_threads(tmp_path: Path) -> None:
    arguments = ["compare", "-q", "-w", "random-updates:footprint=8MiB,updates=20000", "--out"]
    for directory, jobs in (("one", "1"), ("two", "2"), ("again", "2")):
        assert pagelab(*arguments, directory, "--jobs", jobs, cwd=tmp_path).returncode == 0
    runs = [
        [without_host(run) for run in result(tmp_path / name)["runs"]]
        for name in ("one", "two", "again")
    ]
    assert runs[0] == runs[1] == runs[2]


TWO_NODES = """
base = "dpt-paper"
[memory]
utilisation = 0.0
[[memory.nodes]]
bytes = 67108864
latency_ns = 90.0
gigabytes_per_second = 25.6
[[memory.nodes]]
bytes = 268435456
latency_ns = 180.0
gigabytes_per_second = 17.0
"""


@pytest.mark.parametrize(
    ("manager", "pages"),
    [
        ("linux", (16384, 8616)),
        ("bandwidth:weights=3:2", (15000, 10000)),
    ],
)
def test_a_manager_says_which_node_pages_come_from(
    manager: str, pages: tuple[int, int], tmp_path: Path
) -> None:
    (tmp_path / "two.toml").write_text(TWO_NODES)
    arguments = ["-d", "ideal", "-m", "two.toml", "--manager", manager]
    run = simulated(tmp_path, *arguments, "-w", "pointer-chase:pages=25000,loads=50000")
    resident = [node["resident_bytes"] // 4096 for node in run["nodes"]]
    assert sum(resident) == 25000
    assert resident == pytest.approx(pages, abs=5)
    assert run["nodes"][1]["share"] == pytest.approx(pages[1] / 25000, abs=0.02)


def test_programs_at_once_have_a_core_each(tmp_path: Path) -> None:
    small, large = "pointer-chase:pages=100,loads=20000", "pointer-chase:pages=3000,loads=20000"
    alone = simulated(tmp_path, "-d", "radix", "-w", small)
    run = simulated(tmp_path, "-d", "radix", "-w", small, "-w", large, "--copies", "2")
    cores = run["per_core"]
    assert [core["accesses"] for core in cores] == [20_000] * 4
    assert sum(core["instructions"] for core in cores) == run["instructions"]
    # Chains of other cores leave a core's TLB alone.
    assert cores[0]["l2_tlb_misses"] == cores[1]["l2_tlb_misses"] == alone["tlb"]["l2_misses"]
    assert cores[2]["l2_tlb_misses"] == cores[3]["l2_tlb_misses"] == 20_000


@pytest.mark.parametrize("tlb", ["mosaic", "range"])
def test_a_tlb_that_reaches_further_walks_less(tlb: str, tmp_path: Path) -> None:
    chain = "pointer-chase:pages=10000,loads=50000"
    walks = {
        design: simulated(tmp_path, "-d", design, "-w", chain)["walks"]["count"]
        for design in ("radix", f"radix+{tlb}")
    }
    # 1,536 entries of 8 pages, and a few ranges, reach 10,000 pages.
    assert walks[f"radix+{tlb}"] * 2 < walks["radix"]


def test_a_design_can_stand_beside_a_variant_of_itself(tmp_path: Path) -> None:
    done = pagelab(
        *("compare", "-q", "-w", "pointer-chase:pages=100,loads=100", "--out", "out"),
        *("-d", "radix,radix:levels=5"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    runs = result(tmp_path / "out")["runs"]
    assert [run["design"] for run in runs] == ["radix", "radix:levels=5"]
    assert [run["machine"]["radix"]["levels"] for run in runs] == [4, 5]
    assert "radix:levels=5" in done.stdout


def test_memory_that_runs_out_is_an_error_with_a_partial_result(tmp_path: Path) -> None:
    # 80 MiB of pages, one after the other, in 64 MiB of memory.
    pages = "".join(f"S,{0x700000000000 + 4096 * page:x},8,9,0\n" for page in range(20_000))
    (tmp_path / "pages.csv").write_text(pages)
    done = pagelab(
        *(
            "simulate",
            "-d",
            "radix",
            "-m",
            "dpt-paper",
            "--trace",
            "pages.csv",
            "--set",
            "memory.memory_bytes=64MiB",
        ),
        *("--set", "memory.utilisation=0", "--out", "out"),
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert "radix ended after" in done.stderr
    [run] = result(tmp_path / "out")["runs"]
    assert run["complete"] is False
    assert 0 < run["accesses"] < 20_000
    assert 0 < run["os"]["peak_resident_bytes"] <= 64 << 20


def test_a_run_of_no_accesses_is_an_error_and_no_report(tmp_path: Path) -> None:
    def traced(out: str, *part: str) -> subprocess.CompletedProcess[str]:
        return pagelab(
            *(
                "compare",
                "-d",
                "radix,dpt",
                "-m",
                "dpt-paper",
                "--trace",
                out,
                "--out",
                "out",
                *part,
            ),
            cwd=tmp_path,
        )

    pagelab("trace", "write", "-w", "pointer-chase:pages=10,loads=1000", "whole", cwd=tmp_path)
    whole = (tmp_path / "whole").read_bytes()
    (tmp_path / "short").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "corrupt").write_bytes(whole[:200] + bytes(len(whole) - 200))
    (tmp_path / "rubbish").write_bytes(bytes(range(256)) * 9)
    for done in (
        traced("short"),
        traced("corrupt"),
        traced("rubbish"),
        traced("whole", "--skip", "1M"),
        # Less than a page table and a page.
        traced("whole", "--set", "memory.memory_bytes=4MiB", "--set", "memory.utilisation=1"),
    ):
        assert done.returncode == 1, done.stderr
        assert done.stdout == ""
        assert 1 <= len(done.stderr.splitlines()) <= 2
        assert not (tmp_path / "out").exists()
    simulated = pagelab(
        "simulate", "-d", "dpt", "-m", "dpt-paper", "--trace", "short", cwd=tmp_path
    )
    assert simulated.returncode == 1
    assert simulated.stdout == ""
    assert "ends inside" in simulated.stderr


def test_a_preset_grows_with_the_program(tmp_path: Path) -> None:
    # 1 % of 16 GiB is less than the program takes, 1 % of 32 GiB is more.
    done = pagelab(
        *("compare", "-d", "radix,ideal", "-w", "random-updates:footprint=256MiB,updates=100"),
        *("--set", "memory.utilisation=0.99", "--out", "out"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "begun again with 32.0 GiB, 99 % in use" in " ".join(done.stderr.split())
    comparison = result(tmp_path / "out")
    assert [run["machine"]["memory"]["memory_bytes"] for run in comparison["runs"]] == [
        32 << 30
    ] * 2
    assert all(run["complete"] for run in comparison["runs"])
    [note] = comparison["notes"]
    assert "99 % of it in use, and this program needs more than the rest with" in note
    assert "begun again" in (tmp_path / "out" / "report.html").read_text()


def test_memory_that_huge_pages_take_comes_back(tmp_path: Path) -> None:
    """One page of each of 100 regions, in 16 MiB, as in a guest with Linux 6.12: 98 are split."""
    stores = "".join(f"S,{0x7F0000000000 + (region << 21):x},8,9,0\n" for region in range(100))
    (tmp_path / "t.csv").write_text(f"map,7f0000000000,{100 << 21}\n" + stores)
    trace = ("-m", "dpt-paper", "-t", "t.csv", "--thp", "-d")
    free = simulated(tmp_path, *trace, "radix")
    assert free["os"]["resident_bytes"] == 200 << 20
    short = "max_bytes=16MiB:swap_bytes=0:shrink_underused=true:max_ptes_none=510"
    run = simulated(tmp_path, *trace, f"radix:os=linux:{short}")
    # Seven regions fit beside the page tables, and one page of each of those that were split.
    assert run["os"]["peak_resident_bytes"] <= 16 << 20
    reclaim = run["os"]["reclaim"]
    assert reclaim["zeros_freed"] == reclaim["underused_splits"] * 511
    given = run["os"]["anonymous"]
    huge = given["2M"] - reclaim["underused_splits"]
    pages = given["4K"] + reclaim["underused_splits"] + 512 * huge
    assert run["os"]["resident_bytes"] == pages * 4096


def test_kswapd_takes_what_a_program_would_wait_for(tmp_path: Path) -> None:
    stores = "".join(
        f"S,{0x7F0000000000 + 4096 * page + 8 * word:x},8,9,0\n"
        for page in range(20_000)
        for word in range(20)
    )
    (tmp_path / "t.csv").write_text(f"map,7f0000000000,{20_000 * 4096}\n" + stores)
    small = ("--set", "memory.utilisation=0", "--set", "memory.memory_bytes=64MiB")
    alone, helped = (
        simulated(
            tmp_path,
            *("-m", "dpt-paper", "-t", "t.csv", *small),
            *("-d", f"radix:os=linux:write_us=0.1{kswapd}"),
        )
        for kswapd in ("", ":kswapd=true")
    )
    assert alone["os"]["reclaim"]["reclaims"] > 0 == helped["os"]["reclaim"]["reclaims"]
    assert helped["os"]["reclaim"]["kswapd"]["taken"] >= 20_000 - (64 << 8)
    assert helped["cycles"]["faults"] < alone["cycles"]["faults"]


def test_one_baseline_for_all_page_sizes(tmp_path: Path) -> None:
    touches = "".join(f"S,{0x7F0000000000 + 4096 * page:x},8,9,0\n" for page in range(2048))
    (tmp_path / "t.csv").write_text(f"map,7f0000000000,{2048 * 4096}\n" + touches)
    done = pagelab(
        *(
            "compare",
            "-m",
            "dpt-paper",
            "-t",
            "t.csv",
            "--pages",
            "4K,64K,2M",
            "-d",
            "radix,dpt:pages=1G",
        ),
        *("--out", "out"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    runs = result(tmp_path / "out")["runs"]
    assert [(run["design"], run["pages"]) for run in runs] == [
        ("radix", "4K"),
        ("radix", "64K"),
        ("radix", "2M"),
        ("dpt", "1G"),
    ]
    # Every page of 8 MiB is touched: a fault a page, a folio, a large page.
    assert [run["os"]["faults"] for run in runs] == [2048, 128, 4, 4]
    # 100 ns for 4 KiB at 2.66 GHz, whatever the size.
    assert [run["cycles"]["zeroing"] for run in runs] == [2048 * 266] * 4
    assert done.stdout.count(" base ") == 1
    assert "Page faults and unmapping would take" in " ".join(done.stdout.split())


def test_a_warm_up_is_not_measured_whatever_is_left_out(tmp_path: Path) -> None:
    chain = ("-d", "radix", "-w", "pointer-chase:pages=2000,loads=10000")
    whole = simulated(tmp_path, *chain)
    run = simulated(tmp_path, *chain, "--warm-up", "4000")
    assert (run["accesses"], run["warm_up_accesses"]) == (6000, 4000)
    # 1,536 entries of a TLB do not hold 2,000 pages: every access walks, warmed up or not.
    assert run["tlb"]["l2_misses"] == 6000
    per_access = whole["instructions"] / whole["accesses"]
    counted = simulated(tmp_path, *chain, "--instructions", "--warm-up", "4000")
    assert counted["warm_up_accesses"] == pytest.approx(4000 / per_access, abs=1)
    done = pagelab("simulate", *chain, "--warm-up", "1M", cwd=tmp_path)
    assert done.returncode == 1
    assert "none is measured" in done.stderr


def test_ctrl_c_while_simulating_leaves_a_partial_result(tmp_path: Path) -> None:
    status, stdout, stderr = interrupted(
        tmp_path,
        "simulating",
        *("compare", "-w", "random-updates:footprint=16MiB,updates=100G", "--full", "--out", "out"),
    )
    assert status == 130, stderr
    assert "stopped early" in stdout
    runs = result(tmp_path / "out")["runs"]
    assert runs
    for run in runs:
        assert run["stopped"] == "interrupted"
        assert run["accesses"] > 0
    assert (tmp_path / "out" / "report.html").exists()
