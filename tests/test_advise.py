"""Settings are advised that help, by runs that show it, and no others."""

import csv
import dataclasses
import io
import json
import math
import os
import random
import re
import signal
import statistics
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import ClassVar

import pytest

import canned
import rounds
from emulators import needs_recorder
from pagelab import advice as kernel_advice
from pagelab import progress
from pagelab.advising import perf_stat, resident, show, verdict, why
from pagelab.advising.candidates import Candidate
from pagelab.advising.resident import Look, Resident, looking
from pagelab.advising.trials import (
    LEAST,
    First,
    Program,
    StillRunningError,
    Trial,
    Trials,
    ratio,
)
from pagelab.advising.trials import run as run_trials
from pagelab.cli import advise
from pagelab.errors import InterruptedRunError, PagelabError
from pagelab.measuring import kind, native
from pagelab.measuring.kernel_settings import KernelSettings
from pagelab.measuring.native import Run
from pagelab.results import Run as Run_
from processes import PATIENCE, alive, until

PAGELAB = [sys.executable, "-m", "pagelab"]
HUGE = rounds.HUGE
# Touches memory of malloc's, keeps it for as long as it takes to be looked at, and ends.
TOUCHES = "import sys, time; a = bytearray(int(sys.argv[1]) << 20); time.sleep(0.5)"
NAMES = ("malloc: huge pages", "malloc: huge, steps")


def _run(*words: str, stdin: int | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PAGELAB, *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        timeout=PATIENCE,
        check=False,
    )


def test_the_interval_holds_the_median_whatever_the_distribution() -> None:
    source = random.Random(7)
    draws = {
        "even": (source.random, 0.5),
        "skewed": (lambda: source.lognormvariate(0, 1), 1.0),
        "two humps": (lambda: source.choice([1, 1, 1.1, 5]) * source.uniform(0.99, 1.01), None),
    }
    for name, (draw, median) in draws.items():
        truth = median or statistics.median(draw() for _ in range(100_000))
        for count in (10, 15, 40):
            held = 0
            for _ in range(1000):
                found = ratio([draw() for _ in range(count)], [1.0] * count)
                held += found.low <= truth <= found.high
            assert held >= 980, (name, count)


def test_of_few_rounds_nothing_is_known() -> None:
    found = ratio([2.0] * 9, [1.0] * 9)
    assert (found.median, found.low, found.high) == (2.0, 0.0, math.inf)
    assert not found.narrow


def test_what_changes_nothing_is_not_advised() -> None:
    source = random.Random(3)
    false = 0
    for _ in range(1000):
        advice = verdict.decide(rounds.made_up(source, 1.0, source.choice([0.002, 0.02, 0.2])))
        false += advice.verdicts[0].effect in ("faster", "slower")
    assert false <= 10


class _MadeUp(Program):
    """A program whose times are drawn, and are so many times less with a setting of that name."""

    source = random.Random(1)

    def run(self, candidate: Candidate, seen: dict[str, Look]) -> Run:
        gain = {"1.0": 1.0, "1.3": 1.3, "1.6": 1.6}.get(candidate.name, 1.0)
        seen[candidate.name] = Look()
        took = self.source.lognormvariate(0, 0.1) / gain
        return Run(took, 0.0, took, 100 if candidate.name[0] == "1" else 10_000)


@pytest.mark.parametrize("short_of_time", [False, True])
def test_rounds_go_to_settings_that_may_be_the_best(short_of_time: bool) -> None:
    made = [Candidate(name, name) for name in ("1.0", "1.3", "1.6")]
    false = right = fewer = few = 0
    # Ten rounds take some fifty seconds, as they are said.
    budget = 50 if short_of_time else 1e9
    for _ in range(200):
        found = run_trials(_MadeUp(["it"]), made, KernelSettings(), budget, lambda _: None)
        advice = verdict.decide(found)
        same, _, best = found.others
        false += advice.verdicts[0].effect in ("faster", "slower")
        right += advice.best is not None and advice.best.trial is best
        fewer += len(same.runs) < len(best.runs)
        few += any(len(one.runs) < LEAST for one in found.others)
    assert false <= 4
    assert right >= 190
    assert fewer >= 150
    assert few >= 150 if short_of_time else few == 0


def test_what_is_known_is_shown_after_each_round() -> None:
    made = [Candidate(name, name) for name in ("1.3", "1.6")]
    shown: list[Trials] = []
    found = run_trials(
        _MadeUp(["it"]), made, KernelSettings(), 1e9, lambda _: None, show=shown.append
    )
    assert [one.rounds for one in shown] == list(range(1, found.rounds + 1))
    short, table = show.so_far(shown[-1])
    lines = table.splitlines()
    assert [line.split()[0] for line in lines] == ["1.6", "1.3", "unchanged"]
    assert short == f"so far: {' '.join(lines[0].split())}"
    times, low, high = map(float, re.findall(r"\d+\.\d+", lines[0])[1:])
    assert low <= times <= high
    assert low < 1.6 < high


class _Long(Program):
    """A program that runs for 40 seconds, as it is said."""

    given: ClassVar[list[float]] = []

    def first(self, kernel: KernelSettings) -> First:
        self.given.append(self.seconds)
        if self.seconds < 40:
            raise StillRunningError("it runs", Look())
        return First(Run(40.0, 0.0, 40.0, 100), Look())


def test_before_a_long_first_run_the_model_says_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[str] = []
    meter = progress.Quiet().meter("it", "running")
    monkeypatch.setattr(meter, "answer", lambda short, _: shown.append(short))
    first = advise._first(_Long(["it"], seconds=120), KernelSettings(), meter, lambda: "so far")
    assert (first.run.wall, shown, _Long.given) == (40.0, ["so far"], [10.0, 120])


def test_interrupted_before_it_has_run_the_answer_is_the_models() -> None:
    class Interrupted(Program):
        def first(self, kernel: KernelSettings) -> First:
            if self.seconds == 120:
                raise KeyboardInterrupt
            raise StillRunningError("it runs", Look())

    meter = progress.Quiet().meter("it", "running")
    with pytest.raises(InterruptedRunError, match="before it had run once; so far: faster"):
        advise._first(Interrupted(["it"]), KernelSettings(), meter, lambda: "so far: faster")


def test_what_cannot_be_recorded_is_run_without_the_model() -> None:
    def glimpse() -> str:
        raise PagelabError("it is of another processor")

    meter = progress.Quiet().meter("it", "running")
    long = _Long(["it"], seconds=120)
    assert advise._first(long, KernelSettings(), meter, glimpse).run.wall == 40
    # Nothing is recorded where there is no time for both.
    short = dataclasses.replace(long, seconds=15)
    with pytest.raises(StillRunningError):
        advise._first(short, KernelSettings(), meter, glimpse)


@needs_recorder
def test_the_model_has_a_glimpse_of_a_program() -> None:
    seen = why.glimpse(["perl", "-e", "$a = 'x' x (64 << 20)"], machine="zen4")
    found = re.fullmatch(r"so far: 2M pages (\S+) times faster than 4K .* zen4, of .*", seen)
    assert found
    # 64 MiB that are touched for the first time: 32 faults instead of 16,384.
    assert float(found[1]) > 1.1


def test_of_five_settings_that_do_nothing_none_is_advised() -> None:
    source = random.Random(2)
    false = 0
    for _ in range(500):
        made = [rounds.made_up(source, 1.0, 0.1, 12) for _ in range(5)]
        others = [trial for one in made for trial in one.others]
        for trial in others:
            trial.runs = [
                dataclasses.replace(run, user=source.lognormvariate(0, 0.1)) for run in trial.runs
            ]
        base = [
            dataclasses.replace(run, user=source.lognormvariate(0, 0.1))
            for run in made[0].base.runs
        ]
        decided = verdict.decide(Trials(Trial(made[0].base.candidate, base), made[0].again, others))
        false += any(one.cpu.low > 1 or one.cpu.high < 1 for one in decided.verdicts)
    # 1 in 100.
    assert false <= 8


@pytest.mark.parametrize(("gain", "effect"), [(1.1, "faster"), (0.9, "slower")])
def test_what_changes_much_is_told(gain: float, effect: str) -> None:
    source = random.Random(5)
    found = [verdict.decide(rounds.made_up(source, gain, 0.02)) for _ in range(100)]
    assert sum(advice.verdicts[0].effect == effect for advice in found) >= 95
    for advice in found:
        told = advice.verdicts[0].effect == "faster"
        assert verdict.headline(advice).startswith("Yes") == told
        assert (verdict.quoted(advice, "it", "here") == "") == (
            advice.verdicts[0].effect == "cannot be told"
        )


def test_a_setting_without_an_effect_on_memory_is_not_advised() -> None:
    made = rounds.made_up(random.Random(9), 2.0, 0.01)
    idle = Trial(made.others[0].candidate, made.others[0].runs, made.base.resident)
    for run in idle.runs:
        object.__setattr__(run, "faults", 10_100)
    advice = verdict.decide(Trials(made.base, made.again, [idle]))
    assert advice.verdicts[0].effect == "no effect"
    assert verdict.headline(advice) == "No: nothing that was tried changed the program's memory."


def test_memory_that_nobody_saw_is_not_compared() -> None:
    made = rounds.made_up(random.Random(9), 2.0, 0.01)
    assert "MiB less memory" in verdict.headline(verdict.decide(_with_peak(made, HUGE)))
    assert "memory" not in verdict.headline(verdict.decide(_with_peak(made, 0)))


@pytest.mark.parametrize(
    ("slower", "peak", "named"),
    [(1.001, HUGE, True), (1.001, 2 * HUGE, False), (1.5, HUGE, False), (1.001, 0, False)],
)
def test_a_leaner_setting_that_is_as_fast_is_named_behind_the_best(
    slower: float, peak: int, named: bool
) -> None:
    made = rounds.made_up(random.Random(9), 2.0, 0.01)
    best = made.others[0]
    runs = [dataclasses.replace(run, user=slower * run.user) for run in best.runs]
    lean = Trial(Candidate("lean", "it is", {"A": "b c"}), runs, Resident(peak, HUGE))
    advice = verdict.decide(Trials(made.base, made.again, [best, lean]))
    first, *behind = verdict.to_type(advice, ["it"], "advice.json")
    assert first == "it"
    said = ["# 64.0 MiB less memory, as fast as far as can be told:", "A='b c' it"]
    assert behind == (said if named else [])


@pytest.mark.parametrize(("slower", "advised"), [(1.001, "alone"), (1.5, "huge")])
def test_what_needs_no_root_is_advised_where_it_is_as_fast(slower: float, advised: str) -> None:
    made = rounds.made_up(random.Random(9), 2.0, 0.01)
    fast = made.others[0]
    of_all = Trial(dataclasses.replace(fast.candidate, kernel=("thp=always",)), fast.runs)
    runs = [dataclasses.replace(run, user=slower * run.user) for run in fast.runs]
    alone = Trial(Candidate("alone", "it is"), runs)
    advice = verdict.decide(Trials(made.base, made.again, [of_all, alone]))
    assert advice.best is not None
    assert advice.best.trial.candidate.name == advised
    assert verdict.quoted(advice, "it", "here").startswith(f"{advised} ran")


@pytest.mark.parametrize(("times", "effect"), [(2.0, "faster"), (60.0, "cannot be told")])
def test_a_setting_that_is_slow_now_and_then_is_said_to_be(times: float, effect: str) -> None:
    """Two rounds of twenty take so many times as long as unchanged, the others a quarter."""
    made = rounds.made_up(random.Random(5), 4.0, 0.01, 20)
    base, with_it = made.base.runs, made.others[0].runs
    for at in (3, 11):
        with_it[at] = dataclasses.replace(with_it[at], user=times * base[at].user)
    advice = verdict.decide(made)
    [found] = advice.verdicts
    assert found.effect == effect
    assert found.slower == 2
    assert found.cpu.median == pytest.approx(4, rel=0.05)
    spent = [sum(run.cpu for run in trial.runs) for trial in (made.base, made.others[0])]
    assert found.overall == pytest.approx(spent[0] / spent[1])
    if effect == "faster":
        said = (
            f"Over all rounds together it is {found.overall:.2f} times, since 2 of them were worse"
        )
        assert said in verdict.headline(advice)
        assert f"20 rounds, {found.overall:.2f} over all)" in verdict.quoted(advice, "it", "here")


def _with_peak(trials: Trials, peak: int) -> Trials:
    one = trials.others[0]
    seen = Trial(one.candidate, one.runs, Resident(peak, one.resident.huge))
    return Trials(trials.base, trials.again, [seen])


def test_a_prediction_for_other_memory_does_not_disagree() -> None:
    advice = verdict.decide(rounds.made_up(random.Random(9), 2.0, 0.01))
    wrong = dataclasses.replace(advice, predicted={"huge": 1.0})
    assert len(verdict.disagreements(wrong)) == 1
    assert not verdict.disagreements(dataclasses.replace(wrong, memory=Path("elsewhere")))


def test_a_machine_that_differs_from_itself_gives_no_verdict() -> None:
    made = rounds.made_up(random.Random(11), 2.0, 0.01)
    slow = Trial(made.again.candidate, made.others[0].runs, made.again.resident)
    advice = verdict.decide(Trials(made.base, slow, made.others))
    assert advice.best is None
    assert verdict.headline(advice).startswith("No verdict: the program unchanged took")
    # More rounds would not tell.
    assert [one.rounds for one in advice.verdicts] == [None]


def test_memory_of_descendants_is_seen() -> None:
    child = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {TOUCHES!r}, '64', '0'])"
    )
    with subprocess.Popen([sys.executable, "-c", child]) as process, looking(process.pid) as look:
        process.wait()
    assert look.found.peak > HUGE


def test_memory_is_seen_on_its_nodes() -> None:
    held = "import time; a = bytearray(64 << 20); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", held], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        look = Look(nodes=True)
        look.at([process.pid])
        located = resident.on_nodes(process.pid)
        process.kill()
    assert located.total() == pytest.approx(look.found.peak, rel=0.05)
    assert look.found.remote == located.total() - max(located.values())


def test_a_program_has_the_policy_of_its_setting() -> None:
    asks = ["sh", "-c", "grep -q interleave /proc/self/numa_maps"]
    assert native.run(asks, {}, "interleaved").wall > 0
    with pytest.raises(PagelabError, match="status 1"):
        native.run(asks, {}, "own")


def test_a_program_is_run_with_what_was_found(tmp_path: Path) -> None:
    done = _run(
        *("advise", "-q", "--json", "--time", "10", "--out", str(tmp_path), "--"),
        *(sys.executable, "-c", TOUCHES, "64"),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == json.loads((tmp_path / "advice.json").read_text())
    assert found["unchanged"]["peak_bytes"] > HUGE
    assert len(found["unchanged"]["runs"]) == found["rounds"] > 0
    tried = {one["name"]: one for one in found["tried"]}
    if set(NAMES) <= set(tried):
        # The kernel gives them to who asks.
        for name in NAMES:
            assert tried[name]["huge_page_bytes"] >= HUGE // 2
        assert found["unchanged"]["huge_page_bytes"] < HUGE // 2
    setting = {"name": "given", "environment": {"GIVEN": "a b"}, "policy": "own", "kernel": []}
    (tmp_path / "other.json").write_text(json.dumps(found | {"setting": setting}))
    # What is given to a program that it becomes, and its status.
    shell = ("sh", "-c", "echo $GIVEN; exit 7")
    became = _run("run", "--advice", str(tmp_path / "other.json"), "--", *shell)
    assert (became.stdout, became.returncode) == ("a b\n", 7)
    setting["kernel"] = ["folio-kib=64"]
    (tmp_path / "other.json").write_text(json.dumps(found | {"setting": setting}))
    refused = _run("run", "--advice", str(tmp_path / "other.json"), "--", *shell)
    assert refused.returncode == 2
    assert "folio-kib=64" in refused.stderr


@pytest.mark.parametrize("text", ["", "[]", '{"schema": "pagelab.advice/3"}', '{"setting": 3}'])
def test_what_is_no_advice_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "advice.json"
    file.write_text(text)
    done = _run("run", "--advice", str(file), "--", "true")
    assert done.returncode == 125
    assert "is no advice" in done.stderr


def test_an_advice_of_another_version_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "advice.json"
    file.write_text('{"schema": "pagelab.advice/1"}')
    for command in (("run", "--advice", str(file), "--", "true"), ("report", str(file))):
        done = _run(*command)
        assert done.returncode
        told = (
            f"{file} is pagelab.advice/1, and this pagelab reads pagelab.advice/3: `pagelab advise`"
        )
        assert told in done.stderr


def test_programs_that_cannot_be_advised_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    failing = _run("advise", "-q", "--", "sh", "-c", "exit 3")
    assert failing.returncode == 125
    assert "sh ended with status 3" in failing.stderr
    complaining = _run("advise", "-q", "--", "sh", "-c", "echo no terminal >&2; exit 1")
    assert "sh ended with status 1: no terminal" in complaining.stderr
    once = "[ $(wc -l < count) -lt 7 ] && echo >> count"
    (tmp_path / "count").write_text("")
    told = _run("advise", "-q", "--", "sh", "-c", once)
    assert told.returncode == 125
    assert "after it had run well" in told.stderr
    (tmp_path / "count").unlink()
    hanging = _run("advise", "-q", "--time", "2", "--", "sh", "-c", "sleep 1000; true")
    assert hanging.returncode == 125
    assert "had not ended after 2 s" in hanging.stderr
    read, write = os.pipe()
    piped = _run("advise", "-q", "--", "cat", stdin=read)
    os.close(read)
    os.close(write)
    assert piped.returncode == 2
    assert "< FILE" in piped.stderr
    assert _run("advise", "-q", "--", "/nothing/here").returncode == 127
    assert list(tmp_path.iterdir()) == []


@needs_recorder
def test_of_a_program_too_long_to_be_tried_the_model_speaks(tmp_path: Path) -> None:
    endless = "a = bytearray(32 << 20)\nwhile True:\n for at in range(0, len(a), 4096): a[at] = 1"
    words = ("advise", "-q", "--json", "--time", "6", "--out", str(tmp_path / "out"))
    done = _run(*words, "--", sys.executable, "-c", endless)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["schema"] == "pagelab.expectation/1"
    assert "was still running after 6" in found["answer"]
    assert "Of its beginning" in found["answer"]
    simulated = [one["predicted"] for one in found["expected"] if one["predicted"]]
    assert simulated
    assert all(0.2 < one < 5 for one in simulated)
    assert (tmp_path / "out" / "model" / "report.html").exists()
    # No advice that `run` would follow.
    assert not (tmp_path / "out" / "advice.json").exists()


def test_a_program_that_leaves_processes_running_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    script = f"setsid sleep 1000 & echo $! > {file}"
    done = _run("advise", "-q", "--", "sh", "-c", script)
    assert done.returncode == 125
    assert "left processes running (sleep)" in done.stderr
    assert not alive(int(file.read_text()))
    # A process that ends by itself a little later is no daemon.
    late = ("advise", "-q", "--time", "1", "--out", str(tmp_path / "out"), "--")
    assert _run(*late, "sh", "-c", "sleep 0.1 & true").returncode == 0


def test_a_program_that_is_stopped_is_ended(tmp_path: Path) -> None:
    done = _run("advise", "-q", "--time", "100", "--", "sh", "-c", "kill -STOP $$")
    assert done.returncode == 125
    assert "was stopped since it reads from the terminal" in done.stderr


def test_input_is_read_from_its_beginning_each_time(tmp_path: Path) -> None:
    (tmp_path / "input").write_text("wanted\n")
    with (tmp_path / "input").open() as source:
        done = _run(
            *("advise", "-q", "--json", "--time", "1", "--out", str(tmp_path / "out"), "--"),
            *("grep", "wanted"),
            stdin=source.fileno(),
        )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("session", ["", "setsid"])
def test_nothing_is_left_when_it_is_killed(session: str, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    script = f"{session} sleep 1000 & echo $! > {file}; wait"
    command = [*PAGELAB, "advise", "-q", "--", "sh", "-c", script]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.DEVNULL) as process:
        until(lambda: file.exists() and file.read_text().strip() != "")
        process.send_signal(signal.SIGKILL)
    until(lambda: not alive(int(file.read_text())))


def test_the_program_runs_no_more_often_than_it_has_to(tmp_path: Path) -> None:
    count = tmp_path / "count"
    script = ("sh", "-c", f"echo >> {count}; sleep 0.05")
    done = _run(
        "advise", "-q", "--json", "--time", "1", "--out", str(tmp_path / "o"), "--", *script
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # A run of each setting, and of the unchanged program twice, before the first round.
    # What did nothing then has no more.
    settings = len(found["tried"]) + 2
    idle = len(found["idle"])
    assert idle > 0
    assert len(count.read_text()) == settings * (found["rounds"] + 1) + idle


def test_rows_for_other_programs_are_the_rounds(tmp_path: Path) -> None:
    done = _run(
        *("advise", "-q", "--export", "csv", "--time", "1", "--out", str(tmp_path), "--"),
        *(sys.executable, "-c", TOUCHES, "8"),
    )
    found = json.loads((tmp_path / "advice.json").read_text())
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == found["rounds"] * (len(found["tried"]) + 2)
    walls = [float(row["wall"]) for row in rows if row["setting"] == "unchanged"]
    assert walls == [run["wall"] for run in found["unchanged"]["runs"]]


@needs_recorder
def test_the_model_says_what_each_setting_would_do(tmp_path: Path) -> None:
    options = ["-q", "--why", "-m", "zen3", "--json", "--time", "1", "--out", str(tmp_path)]
    program = [sys.executable, "-c", "a = bytearray(32 << 20)"]
    done = _run("advise", *options, "--", *program)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["model"]["machine"] == "zen3"
    perf = found["model"]["perf"]
    assert "ls_l1_d_tlb_miss.tlb_reload_2m_l2_miss:u" in perf["command"]
    faults = perf["expected"]["page-faults"]
    assert set(faults) == {"unchanged", *(one["name"] for one in found["tried"])}
    measured = statistics.median(run["faults"] for run in found["unchanged"]["runs"])
    assert faults["unchanged"] == pytest.approx(measured, rel=0.1)
    assert found["model"]["where"][1].startswith("Page faults take")
    for one in found["tried"]:
        assert 0.2 < one["predicted"] < 5
        if one["name"] in NAMES:
            # First touches are what such a program does.
            assert one["predicted"] > 1
    report = (tmp_path / "model" / "report.html").read_text()
    html = (tmp_path / "report.html").read_text()
    places = re.findall(r'href="model/report.html#(\w+)"', html)
    assert places == ["addresses", "lines", "stacks"]
    assert all(f'id="{place}"' in report for place in places)
    # Who allocates: a bytearray is of PyByteArray_Resize or what it calls.
    (gains,) = re.findall(r"Whose memory gains.*?</table>", html, re.DOTALL)
    assert re.search(r"(malloc|calloc|realloc) &lt; ", gains)


def test_walks_are_counted_by_events_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run_.model_validate(canned.run("radix"))
    walks = run.walks.count
    for machine, pattern in (
        ("sapphire-rapids", "dtlb_*_misses.walk_completed"),
        ("zen4", "ls_l1_d_tlb_miss.*_miss"),
        ("neoverse-v2", "dtlb_walk"),
    ):
        found = perf_stat.expected(perf_stat.events(machine), {"it": run})
        assert found["page-faults"] == {"it": run.os.faults}
        assert found[pattern] == {"it": walks}
    pending = perf_stat.expected(perf_stat.events("skylake-sp"), {"it": run})
    assert pending["*tlb_*misses.walk_pending"]["it"] == round(walks * run.walks.latency.mean)
    for event in perf_stat.events("golden-cove")[1:]:
        assert all(fnmatch(name, f"{event.pattern}:u") for name in event.names)
    monkeypatch.setattr("pagelab.measuring.kind.processor", kind.Processor)
    assert [one.pattern for one in perf_stat.events("of my own")] == ["page-faults"]


def test_of_a_sample_walks_are_those_of_the_whole_program() -> None:
    raw = canned.run("radix")
    gap = canned.gap(instructions=3000)
    window = canned.window(instructions=1000, accesses=10, cycles=900, walks=5, walk_cycles=50)
    raw["windows"] = [{**window, "after": gap}] * 20
    run = Run_.model_validate(raw)
    found = perf_stat.expected(perf_stat.events("skylake-sp"), {"it": run})
    # Four times what is in windows, the last of which stands for what follows it.
    assert found["dtlb_*_misses.walk_completed"]["it"] == pytest.approx(400, rel=0.05)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--pages", "64K"], "--allow-tuning"),
        (["--pages", "2M", "--allow-tuning"], "from 16K to 1M, not 2M"),
        (["--pages", "3K", "--allow-tuning"], "unknown page size"),
    ],
)
def test_page_sizes_that_cannot_be_tried_are_refused(options: list[str], text: str) -> None:
    done = _run("advise", "-q", *options, "--", "true")
    assert done.returncode == 2
    assert text in done.stderr


def test_what_is_interrupted_within_the_first_round_says_so(tmp_path: Path) -> None:
    # As the first run of the first round that counts: each setting has run once before.
    count = tmp_path / "count"
    script = f"echo >> {count}; [ $(wc -l < {count}) -lt 6 ] || kill -INT $(cat {tmp_path}/parent)"
    command = [*PAGELAB, "advise", "-q", "--time", "60", "--", "sh", "-c", script + "; true"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        (tmp_path / "parent").write_text(str(process.pid))
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in said


def test_the_programs_own_allocator_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "libjemalloc.so.2"
    library.write_bytes(bytes(4096))
    maps = (
        "import mmap, sys, time; file = open(sys.argv[1], 'r+b')\n"
        "kept = mmap.mmap(file.fileno(), 0); time.sleep(0.3)"
    )
    monkeypatch.setenv("MALLOC_CONF", "narenas:1")
    done = _run(
        *("advise", "-q", "--json", "--time", "1", "--out", str(tmp_path / "out"), "--"),
        *(sys.executable, "-c", maps, str(library)),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert not set(NAMES) & {one["name"] for one in found["tried"]}
    if kernel_advice.huge_pages() == "madvise":
        told = (*found["tried"], *found["idle"])
        settings = {one["name"]: one["environment"] for one in told}
        assert settings["jemalloc: huge pages"] == {"MALLOC_CONF": "narenas:1,thp:always"}
        assert set(NAMES) <= {one["name"] for one in found["not_tried"]}
