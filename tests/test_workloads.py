"""Built-in workloads from the command line: parameters, sampling, traces."""

from pathlib import Path
from typing import Any

import pytest

import canned
import commands
from commands import pagelab
from pagelab.results import Comparison
from pagelab.table import legend, speed


def simulated(cwd: Path, *arguments: str) -> dict[str, Any]:
    return commands.simulated(cwd, "-d", "radix", *arguments)


LONG = "random-updates:footprint=256MiB,updates=4M"
WINDOWS = ",warm_up=100k,measured=100k"


def test_a_sample_is_near_the_whole(tmp_path: Path) -> None:
    whole = simulated(tmp_path, "-w", LONG, "--full")
    sample = simulated(tmp_path, "-w", LONG + WINDOWS, "--windows", "10")
    assert len(sample["windows"]) == 10
    assert sample["accesses"] == sample["warm_up_accesses"] == 10 * 100_000
    assert whole["accesses"] == 8_000_000
    for name in ("l1_mpki", "l2_mpki"):
        assert sample["tlb"][name] == pytest.approx(whole["tlb"][name], rel=0.02)
    mean = whole["walks"]["latency"]["mean"]
    assert sample["walks"]["latency"]["mean"] == pytest.approx(mean, rel=0.02)
    pace = sample["cycles"]["elapsed"] / sample["accesses"]
    assert pace == pytest.approx(whole["cycles"]["elapsed"] / whole["accesses"], rel=0.02)


def test_a_short_program_is_sampled_only_when_asked(tmp_path: Path) -> None:
    bfs = "bfs:footprint=16MiB,warm_up=1000,measured=1000"
    # Some 300,000 accesses: 30 windows of 2,000 are less than a quarter.
    assert len(simulated(tmp_path, "-w", bfs)["windows"]) == 30
    assert len(simulated(tmp_path, "-w", "bfs:footprint=16MiB")["windows"]) == 1
    assert len(simulated(tmp_path, "-w", bfs, "--full")["windows"]) == 1
    assert len(simulated(tmp_path, "-w", bfs, "--sampled")["windows"]) == 30


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-w", LONG, "--full", "--windows", "5"], "--full leaves nothing to sample"),
        (["-t", "x.csv", "--windows", "5"], "sampled with --sample"),
        (["-w", "bfs:footprint=1KiB"], "footprint"),
        (["-w", "bfs:bytes=1GiB"], "there are footprint, seed, windows"),
    ],
)
def test_what_cannot_be_sampled_so_is_said(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    (tmp_path / "x.csv").write_text("kind,addr,size,gap,dep\nL,1000,8,0,0\n")
    done = pagelab("simulate", "-d", "radix", *arguments, cwd=tmp_path)
    assert done.returncode != 0
    assert words in done.stderr.replace("\n", " ")


def test_a_workload_written_as_a_trace_is_simulated_alike(tmp_path: Path) -> None:
    workload = "kv:footprint=8MiB,operations=3000,warm_up=5000,measured=5000"
    done = pagelab("trace", "write", "-w", workload, "--windows", "4", "kv.trace", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "40,000 accesses in kv.trace" in done.stderr
    direct = simulated(tmp_path, "-w", workload, "--windows", "4")
    traced = simulated(tmp_path, "-m", "dpt-paper", "-t", "kv.trace", "--warm-up", "5k")
    for key in ("windows", "cycles", "tlb", "walks", "caches", "os", "initialisation_cycles"):
        assert direct[key] == traced[key]


def windows(pace: float) -> list[dict[str, Any]]:
    return [
        canned.window(
            instructions=3000,
            accesses=1000,
            cycles=round(pace * cycles),
            translation=500,
            l2_tlb_misses=30,
            walks=30,
            walk_cycles=1200,
        )
        for cycles in (4000, 4400, 4200, 3900)
    ]


def test_the_table_gives_the_interval_of_a_speed_and_of_a_sample() -> None:
    raw = canned.comparison("radix", "dpt")
    raw["runs"][0]["windows"] = windows(1.0)
    raw["runs"][1]["windows"] = windows(0.8)
    comparison = Comparison.model_validate(raw)
    base, other = comparison.runs
    # The two move together, so that the interval is as narrow as rounding allows.
    assert speed(comparison, other).endswith(" \N{PLUS-MINUS SIGN}0.0 %")
    assert speed(comparison, base) == "base"
    text = legend(comparison)
    assert "Sampled in 4 windows" in text
    found = " ".join(text.split())
    assert "walk 40.0 \N{PLUS-MINUS SIGN}0.0, MPKI 10.00 \N{PLUS-MINUS SIGN}0.00" in found
    assert max(map(len, text.splitlines())) <= 80


def test_runs_over_different_windows_have_no_common_interval() -> None:
    raw = canned.comparison("radix", "dpt")
    raw["runs"][0]["windows"] = windows(1.0)
    raw["runs"][1]["windows"] = windows(1.0)[:3]
    comparison = Comparison.model_validate(raw)
    assert comparison.speedup_interval(comparison.runs[1]) is None
