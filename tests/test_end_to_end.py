"""Whole commands on real programs, as a user runs them."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from emulators import needs_recorder
from pagelab.results import load
from processes import PATIENCE, until


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pagelab", *arguments]


def pagelab(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, cwd=cwd, timeout=PATIENCE
    )


def result(directory: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((directory / "result.json").read_text())
    return loaded


def simulated(cwd: Path, *arguments: str) -> dict[str, Any]:
    """The JSON of one simulation."""
    done = pagelab("simulate", "--json", "--quiet", *arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    run: dict[str, Any] = json.loads(done.stdout)
    return run


def without_host(run: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in run.items() if key != "host"}


# A cyclic chain over more pages than the TLB holds misses at every load, by the definition of
# LRU; over fewer pages it misses once a page.


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


@needs_recorder
def test_a_recorded_program_warms_up_too(tmp_path: Path) -> None:
    done = pagelab(
        *("compare", "-q", "-d", "radix", "--warm-up", "700", "--out", "o", "--", "true"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    [run] = result(tmp_path / "o")["runs"]
    assert run["warm_up_accesses"] == 700


def interrupted(cwd: Path, word: str, *arguments: str) -> tuple[int, str, str]:
    """Status and output of a command that gets a SIGINT once it says that it is at `word`."""
    process = subprocess.Popen(
        command(*arguments),
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    watchdog = threading.Timer(PATIENCE, os.killpg, [process.pid, signal.SIGKILL])
    watchdog.start()
    try:
        said = next((line for line in process.stderr if word in line), "nothing")
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate()
    finally:
        watchdog.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, stdout, said + stderr


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


@needs_recorder
def test_a_program_keeps_its_output_and_status(tmp_path: Path) -> None:
    done = pagelab(
        *("compare", "--out", "out", "--keep-trace", "--", "sh", "-c"),
        "read line; echo $line; echo err >&2; exit 3",
        cwd=tmp_path,
    )
    assert done.returncode == 3
    assert "err\n" in done.stderr
    assert "Report: out/report.html" in done.stdout
    comparison = result(tmp_path / "out")
    assert comparison["command"][0] == "sh"
    assert comparison["recording"]["exit_status"] == 3
    counts = {run["accesses"] for run in comparison["runs"]}
    assert counts == {comparison["recording"]["accesses"]}
    assert all(run["complete"] for run in comparison["runs"])
    info = json.loads(pagelab("trace", "info", "--json", "out/sh.trace", cwd=tmp_path).stdout)
    assert {info["total"]["accesses"]} == counts
    assert info["complete"] is True


@needs_recorder
def test_json_is_all_there_is_on_standard_output(tmp_path: Path) -> None:
    done = pagelab("compare", "--json", "-q", "--out", "o", "--", "echo", "hello", cwd=tmp_path)
    assert json.loads(done.stdout)["schema"] == "pagelab.comparison/2"
    assert "hello\n" in done.stderr


@needs_recorder
def test_arguments_need_not_be_text(tmp_path: Path) -> None:
    arguments: list[str | bytes] = [*command("compare", "-q", "--out", "o", "--", "printf")]
    arguments.append(b"a\xffb")
    done = subprocess.run(arguments, capture_output=True, cwd=tmp_path, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"a\xffb")
    assert result(tmp_path / "o")["command"] == ["printf", "a\N{REPLACEMENT CHARACTER}b"]


@needs_recorder
def test_a_full_disk_is_an_error_with_a_partial_result(tmp_path: Path) -> None:
    # /dev/full takes the file to be opened and nothing to be written.
    done = pagelab("record", "-o", "/dev/full", "--", "true", cwd=tmp_path)
    assert done.returncode == 125
    assert "No space left" in done.stderr


@needs_recorder
def test_recording_and_simulating_apart_is_comparing(tmp_path: Path) -> None:
    assert pagelab("record", "-o", "t", "--", "true", cwd=tmp_path).returncode == 0
    assert (
        pagelab(
            "compare",
            "-q",
            "--no-heat-map",
            "-m",
            "dpt-paper",
            "-t",
            "t",
            "--out",
            "o",
            cwd=tmp_path,
        ).returncode
        == 0
    )
    for run in result(tmp_path / "o")["runs"]:
        alone = simulated(tmp_path, "-d", run["design"], "-m", "dpt-paper", "-t", "t")
        assert without_host(alone) == without_host(run)


@needs_recorder
def test_a_part_of_a_trace_is_as_long_as_asked(tmp_path: Path) -> None:
    pagelab("record", "-o", "t", "--", "true", cwd=tmp_path)
    run = simulated(
        tmp_path, "-d", "radix", "-m", "dpt-paper", "-t", "t", "--skip", "1500", "--limit", "2000"
    )
    assert run["accesses"] == 2000
    assert run["skipped_instructions"] >= 1500


@needs_recorder
def test_rights_that_a_program_does_not_get_are_said(tmp_path: Path) -> None:
    """The kernel gives a traced or emulated program no other user's rights."""
    shutil.copy("/bin/true", tmp_path / "other")
    others = os.geteuid() + 1
    try:
        os.chown(tmp_path / "other", others, -1)
    except PermissionError:
        pytest.skip("only root makes files of other users")
    (tmp_path / "other").chmod(0o4755)
    done = pagelab("record", "-o", "t", "--", "./other", cwd=tmp_path)
    assert "./other is set-user-ID" in done.stderr
    os.chown(tmp_path / "other", os.geteuid(), -1)
    (tmp_path / "other").chmod(0o4755)
    done = pagelab("record", "-o", "t", "--", "./other", cwd=tmp_path)
    assert "set-user-ID" not in done.stderr


@needs_recorder
@pytest.mark.parametrize(
    ("program", "status", "words"),
    [
        (["/nowhere/prog"], 127, "cannot run /nowhere/prog"),
        (["no-such-program-anywhere"], 127, "not in PATH"),
        (["2M"], 127, "--pages 4K,2M"),
        (["./text"], 126, "text"),
        (["/tmp"], 126, "is a directory"),
        ([""], 127, "cannot run ''"),
        (["sh", "-c", "kill -TERM $$"], 143, "SIGTERM"),
        (["sh", "-c", "exit 42"], 42, "42"),
    ],
)
def test_exit_codes_are_those_of_env(
    program: list[str], status: int, words: str, tmp_path: Path
) -> None:
    text = tmp_path / "text"
    text.write_text("this is no program\n")
    text.chmod(0o755)
    done = pagelab("record", "-o", "t", "--", *program, cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@needs_recorder
def test_a_trace_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    done = pagelab("record", "-o", "missing/t", "--", "true", cwd=tmp_path)
    assert done.returncode == 125
    assert "missing/t" in done.stderr


@needs_recorder
def test_a_trace_does_not_take_the_place_of_its_program(tmp_path: Path) -> None:
    program = tmp_path / "program"
    text = "#!/bin/sh\nexit 3\n"
    program.write_text(text)
    program.chmod(0o755)
    done = pagelab("record", "-o", "program", "--", "./program", cwd=tmp_path)
    assert done.returncode == 125
    assert "it is the program" in done.stderr
    assert program.read_text() == text


@needs_recorder
def test_what_a_program_leaves_behind_can_be_stopped(tmp_path: Path) -> None:
    script = "(trap 'echo told; exit' TERM; echo ready; while :; do sleep 0.1; done) & exit 3"
    with subprocess.Popen(
        command("record", "--quiet", "-o", "t", "--", "sh", "-c", script),
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        # Until the program itself has ended, it is the program's.
        threads = Path(f"/proc/{process.pid}/task")
        until(lambda: not any(file.read_text() for file in threads.glob("*/children")))
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 3
        assert process.stdout.read() == "told\n"


@needs_recorder
def test_a_trace_can_be_made_when_the_program_has_ended(tmp_path: Path) -> None:
    program = ["sh", "-c", "exit 3"]
    done = pagelab("record", "--defer", "-o", "t", "--", *program, cwd=tmp_path)
    assert done.returncode == 3
    assert "the program had ended after" in " ".join(done.stderr.split())
    assert [path.name for path in tmp_path.iterdir()] == ["t"]
    done = pagelab("record", "--defer", "--keep-words", "-o", "t", "--", *program, cwd=tmp_path)
    made = (tmp_path / "t").read_bytes()
    (tmp_path / "t").unlink()
    done = pagelab("trace", "finish", "t.words", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert (outcome["exit_status"], outcome["incomplete"], outcome["words"]) == (3, None, None)
    assert (tmp_path / "t").read_bytes() == made
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


@needs_recorder
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["record", "--keep-words", "-o", "t", "--", "true"], "--defer"),
        (["record", "--defer", "-o", "/dev/null", "--", "true"], "/dev/null is no file"),
        (["trace", "finish", "other"], "--out"),
        (["trace", "finish", "missing.words"], "missing.words"),
        (["trace", "finish", "text.words"], "holds no recorded words"),
    ],
)
def test_words_that_are_none_are_explained(arguments: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "text.words").write_text("these are no words of a program")
    done = pagelab(*arguments, cwd=tmp_path)
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "text.words").exists()


@needs_recorder
def test_ctrl_c_while_recording_compares_what_there_is(tmp_path: Path) -> None:
    status, stdout, stderr = interrupted(
        tmp_path,
        "recording",
        *("compare", "-d", "ideal", "--out", "out", "--", "sh", "-c", "while :; do :; done"),
    )
    assert status == 128 + signal.SIGINT, stderr
    assert "ended by SIGINT" in stdout
    comparison = result(tmp_path / "out")
    assert comparison["recording"]["signal"] == signal.SIGINT
    assert all(
        0 < run["accesses"] <= comparison["recording"]["accesses"] for run in comparison["runs"]
    )
    assert (tmp_path / "out" / "report.html").exists()


@needs_recorder
def test_a_program_that_does_not_end_is_ended_after_a_time(tmp_path: Path) -> None:
    done = pagelab(
        *("compare", "-q", "-d", "radix", "--time", "2", "--out", "o", "--"),
        *("sh", "-c", "while :; do :; done"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "The program was ended after 2.0 s; this speaks" in done.stdout
    assert result(tmp_path / "o")["recording"]["ended_after"] == 2.0


@needs_recorder
def test_for_operating_systems_all_of_a_program_is_recorded(tmp_path: Path) -> None:
    for name, system, limit in (("one", ("--os", "linux-6.12"), 500_000_000), ("other", (), None)):
        options = ("-q", "-d", "radix", *system, "--out", name)
        done = pagelab("compare", *options, "--", "true", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert result(tmp_path / name)["recording"]["window"]["limit"] == limit


@needs_recorder
def test_of_a_long_program_pieces_are_taken_that_stand_for_all(tmp_path: Path) -> None:
    # Each round touches as many pages; some 250 million accesses.
    script = "a = bytearray(1 << 24)\nfor _ in range(128): sum(a[::256])"
    program = (sys.executable, "-c", script)
    to_the_end = ("--precision", "0", "--time", "inf")
    for name, option in (("part", to_the_end), ("all", ("--full",))):
        done = pagelab(
            *("compare", "-q", "-m", "zen4", "-d", "radix,ideal", *option, "--out", name),
            *("--", *program),
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
    part, whole = (load(tmp_path / name) for name in ("part", "all"))
    sampled, run = part.runs[0], whole.runs[0]
    assert sampled.sample is not None
    assert run.accesses / 2 < sampled.accesses < run.accesses * 0.95
    assert sampled.sample.instructions == pytest.approx(run.instructions, rel=0.01)
    assert sampled.os.faults == pytest.approx(run.os.faults, rel=0.01)
    assert sampled.elapsed == pytest.approx(run.elapsed, rel=0.1)


@needs_recorder
def test_sigterm_leaves_an_answer_whatever_the_program_makes_of_it(tmp_path: Path) -> None:
    script = "trap 'exit 7' TERM; echo ready; while :; do :; done"
    arguments = ("compare", "-q", "-d", "radix,ideal", "-o", "out", "--", "sh", "-c", script)
    with subprocess.Popen(
        command(*arguments), stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        # As timeout(1) does, which sends one to the group, too.
        for _ in range(2):
            process.send_signal(signal.SIGTERM)
        said = process.stdout.read()
    comparison = result(tmp_path / "out")
    assert comparison["recording"]["ended_by"] == signal.SIGTERM
    # On a slow machine not all of it has been simulated.
    assert process.returncode == (128 + signal.SIGTERM if comparison["interrupted"] else 7)
    kept = (tmp_path / "out" / "sh.trace").exists()
    assert kept == comparison["interrupted"] == ("All of it: pagelab compare --trace" in said)
    assert kept == ("% of what was recorded" in " ".join(said.split()))
