"""`--parallel`: one program in pieces."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

import pagelab
from pagelab import PagelabError, Window, _core, workloads
from processes import PATIENCE

# Small caches, so that a short program is long enough to be cut.
SMALL = ["--set", "caches.l2.kib=64", "--set", "caches.llc.kib=256", "--quiet"]
# And little memory, which each piece has a copy of.
SMALL += ["--set", "memory.memory_bytes=64MiB"]
UPDATES = "random-updates:footprint=16MiB,updates=200000"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of programs is kept elsewhere."""
    monkeypatch.setenv("PAGELAB_CACHE", str(tmp_path / "cache"))


def simulate(*arguments: str, design: str = "radix") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pagelab",
            "simulate",
            "-m",
            "dpt-paper",
            "-d",
            design,
            *arguments,
            *SMALL,
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def run(*arguments: str, design: str = "radix") -> dict[str, object]:
    done = simulate(*arguments, "--json", design=design)
    assert done.returncode == 0, done.stderr
    result: dict[str, object] = json.loads(done.stdout)
    del result["host"]
    return result


def test_the_number_of_workers_changes_nothing(tmp_path: Path) -> None:
    trace = tmp_path / "updates.trace"
    written = [sys.executable, "-m", "pagelab", "trace", "write", "-w", UPDATES, str(trace)]
    subprocess.run(written, check=True, timeout=PATIENCE)
    for source in (["-w", UPDATES], ["-t", str(trace)]):
        one = run(*source, "--parallel", "1")
        assert run(*source, "--parallel", "3") == one
        pieces = one["pieces"]
        assert isinstance(pieces, dict)
        assert pieces["count"] >= 2
        assert pieces["warm_up"][0] == 0
        assert pieces["bound"]["cycles"] > 0
        whole = run(*source)
        assert whole["pieces"] is None
        assert one["accesses"] == whole["accesses"]
        assert one["os"] == whole["os"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-w", UPDATES, "--limit", "1000"], "without --skip, --limit"),
        (["-w", UPDATES, "--copies", "2"], "several programs at once"),
        (["-w", "random-updates:footprint=16MiB,updates=4G"], "give --full"),
        (["-w", UPDATES, "--set", "cores=2"], "several cores"),
        (["-t", "/dev/stdin"], "pagelab trace convert"),
        (["-t", __file__], "pagelab trace convert"),
    ],
)
def test_what_cannot_be_cut_is_refused(arguments: list[str], says: str) -> None:
    done = simulate(*arguments, "--parallel", "2")
    assert done.returncode not in (0, 130)
    assert says in " ".join(done.stderr.split())


def test_what_others_bring_into_the_last_level_is_said_to_be_estimated() -> None:
    others = ["--set", "caches.others.gigabytes_per_second=1.0"]
    # Long enough to be cut though each piece is begun twice.
    updates = "random-updates:footprint=16MiB,updates=4000000"
    for machine, says in (([], "of those in one piece"), (others, "is estimated")):
        command = [sys.executable, "-m", "pagelab", "simulate", "-d", "radix", "-w", updates]
        command += [key for key in SMALL if key != "--quiet"]
        done = subprocess.run(
            [*command, "--parallel", "2", *machine],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        assert says in " ".join(done.stdout.split())


def test_designs_are_compared_in_pieces() -> None:
    updates = workloads.random_updates(footprint="64MiB", updates=7_000_000, windows=0)
    comparison = pagelab.compare(updates, ["radix", "ideal"], parallel=2)
    assert [run.pieces.count for run in comparison.runs if run.pieces] == [2, 2]
    with pytest.raises(PagelabError, match="--parallel goes without"):
        pagelab.simulate(updates, parallel=2, window=Window(skip=5))


def test_what_is_seen_of_a_program_is_kept(tmp_path: Path) -> None:
    trace = tmp_path / "updates.trace"
    written = [sys.executable, "-m", "pagelab", "trace", "write", "-w", UPDATES, str(trace)]
    subprocess.run(written, check=True, timeout=PATIENCE)
    first = run("-t", str(trace), "--parallel", "2")
    [kept] = (tmp_path / "cache" / "surveys").iterdir()
    before = kept.read_bytes(), kept.stat().st_mtime_ns
    # The same content by another name, in another design, and again.
    copy = trace.with_name("copy.trace")
    copy.write_bytes(trace.read_bytes())
    run("-t", str(copy), "--parallel", "2", design="dpt")
    assert run("-t", str(trace), "--parallel", "2") == first
    assert list(kept.parent.iterdir()) == [kept]
    assert kept.read_bytes() == before[0]
    # What is damaged is seen anew.
    kept.write_bytes(before[0][:-9])
    assert run("-t", str(trace), "--parallel", "2") == first
    assert kept.read_bytes() == before[0]
    # Other content has another name.
    other = [*written[:-2], "random-updates:footprint=16MiB,updates=200001", str(trace)]
    subprocess.run(other, check=True, timeout=PATIENCE)
    run("-t", str(trace), "--parallel", "2")
    assert len(list(kept.parent.iterdir())) == 2


def test_pieces_are_joined_though_what_was_seen_is_deleted(tmp_path: Path) -> None:
    """As whoever clears a cache does while a cluster simulates."""
    survey = tmp_path / "updates.survey"
    overrides = [option for option in SMALL if "=" in option]
    program = {"footprint": "16MiB", "updates": "200000"}
    workload = {"kind": "workload", "name": "random-updates", "parameters": program}
    source = json.dumps(workload | {"window": asdict(Window())})
    on = ("radix", "dpt-paper", overrides, source)

    def go_on(done: int, total: int | None) -> bool:
        return True

    seen = [_core.look(source, number, go_on) for number in range(_core.intervals(*on))]
    _core.Plan(*on, [one for one in seen if one], survey).pieces()
    plan = _core.Plan(*on, [], survey)
    places, parts = plan.pieces()
    survey.unlink()
    found = [_core.piece(*on, place, parts[: place[3]], lines, go_on) for place, lines in places]
    joined = json.loads(plan.join(found))
    assert joined["pieces"]["count"] == len(places) >= 2
    assert joined["accesses"] == run("-w", UPDATES)["accesses"]


def test_ctrl_c_ends_all_workers() -> None:
    command = [
        sys.executable,
        "-m",
        "pagelab",
        "simulate",
        "-m",
        "dpt-paper",
        "-d",
        "radix",
        "--parallel",
        "2",
    ]
    long = "random-updates:footprint=64MiB,updates=300000000"
    with subprocess.Popen(
        [*command, "-w", long, "--full", "--quiet"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not _at_work(process.pid):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 130


def _at_work(pid: int) -> bool:
    """Whether its workers are at work: starting takes less than two seconds of processor time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12]) > 2 * os.sysconf("SC_CLK_TCK")
