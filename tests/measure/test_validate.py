"""Programs natively and simulated: the judgement, and one program from end to end."""

import json
import os
import random
import resource
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import canned
import pagelab
from emulators import needs_recorder
from pagelab import emulator, jobs, progress
from pagelab.cli import app
from pagelab.cli import validate as command_
from pagelab.emulator import NoEmulatorError
from pagelab.errors import InterruptedRunError, PagelabError, UsageError
from pagelab.measuring import (
    agreement,
    agreement_page,
    guest_memory,
    native,
    predict,
    probe,
    suite,
    validation,
)
from pagelab.measuring.agreement import Agreement, Change, Predicted
from pagelab.measuring.kernel_settings import KernelSettings
from pagelab.measuring.looks import Buffers, Core, CoreStates, Look
from pagelab.measuring.native import HugePages, Native, Run
from pagelab.results import Run as Run_

OFF = HugePages("never", None, {})

THP = Path("/sys/kernel/mm/transparent_hugepage")


def setting(kib: int) -> str:
    """What the kernel says of pages of that size."""
    text = (THP / f"hugepages-{kib}kB" / "enabled").read_text(encoding="ascii")
    return text.partition("[")[2].partition("]")[0]


needs_sizes = pytest.mark.skipif(
    os.geteuid() != 0
    or not (THP / "hugepages-64kB" / "enabled").exists()
    or native.huge_pages().policy is None,
    reason="needs root, and a kernel with multi-size THP and huge pages switched on",
)


def runs(cpu: list[float], faults: int = 100) -> list[Run]:
    return [Run(seconds * 0.8, seconds * 0.2, seconds * 3, faults) for seconds in cpu]


def compared(ratio: float, predicted: float, noise: float = 0.0, rounds: int = 25) -> Agreement:
    """A program that falls from `ratio` to 1 seconds, and is predicted to from `predicted`."""
    draw = random.Random(3)
    small = [ratio * (1 + draw.gauss(0, noise)) for _ in range(rounds)]
    huge = [1 + draw.gauss(0, noise) for _ in range(rounds)]
    measured = Native(runs(small), {"2M": runs(huge)})
    larger = {"2M": Predicted(1, 0, 9)}
    return Agreement("it", 10**9, measured, Predicted(predicted, 0, 90), larger)


def change(ratio: float, predicted: float, noise: float = 0.0, rounds: int = 25) -> Change:
    """The only change of such a program."""
    [only] = compared(ratio, predicted, noise, rounds).changes
    return only


@pytest.mark.parametrize(
    ("ratio", "predicted", "verdict"),
    [
        (1.40, 1.44, "near"),  # within a quarter
        (1.40, 1.49, "near"),
        (1.40, 1.52, "far"),
        (1.02, 1.04, "near"),  # within three points
        (1.02, 1.06, "far"),
        (0.90, 1.10, "far"),
    ],
)
def test_a_prediction_is_near_within_a_quarter_or_three_points(
    ratio: float, predicted: float, verdict: str
) -> None:
    assert change(ratio, predicted).verdict == verdict


def test_a_time_that_is_told_by_ticks_has_a_wide_interval() -> None:
    """Eighteen ticks of 4 ms in all, of which some are the kernel's."""
    by_ticks = [
        Run(ticks * 0.004, 0.072 - ticks * 0.004, 0.1, 9) for ticks in (2, 4, 6, 5, 8, 3, 6)
    ]
    measured = Native(by_ticks, {"2M": by_ticks})
    short = Agreement("it", 10**7, measured, Predicted(0.02, 0, 9), {"2M": Predicted(0.02, 0, 9)})
    found = short.measured_interval
    assert found is not None
    assert found.median == pytest.approx(2.0)
    assert found.low < 1.7 < 2.3 < found.high
    console = Console(record=True, width=80)
    command_.show([short, compared(1.3, 1.1)], [], console)
    lines = console.export_text().splitlines()
    assert "~2.00" in lines[1]
    assert "~" not in lines[2]
    told = short.as_json()["ns_per_access"]
    assert told["measured_interval"] == {
        "median": found.median,
        "low": found.low,
        "high": found.high,
    }


def test_memory_is_had_from_a_host_once_and_given_back() -> None:
    here = probe.environment()
    small = here.model_copy(update={"hypervisor": "KVM", "budget": (1 << 30) + 5})
    said: list[str] = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    assert guest_memory.have_it_given(small, said.append) == 1 << 30
    # All of it, in huge pages at best.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before >= 512
    assert said == ["touching 1.00 GiB, so that the host has given them"]
    native_here = small.model_copy(update={"hypervisor": None})
    assert guest_memory.have_it_given(native_here, said.append) == 0
    assert len(said) == 1


def test_noise_gives_no_verdict_rather_than_a_wrong_one() -> None:
    noisy = change(1.10, 1.30, noise=0.3, rounds=6)
    assert noisy.verdict.startswith("no verdict")
    assert change(1.10, 1.30, noise=0.01).verdict == "far"


def test_zeroing_pages_is_the_kernels_time() -> None:
    raw = canned.run("radix")
    raw["cycles"] |= {"zeroing": 7_000, "faults": 20_000, "migrations": 1_000}
    run = Run_.model_validate(raw)
    found = predict.of(run)
    assert found.kernel * run.cycles.frequency_hz == pytest.approx(28_000)
    assert found.total == pytest.approx(run.cycles.total / run.cycles.frequency_hz)


def test_the_sign_counts_only_where_the_interval_excludes_zero() -> None:
    assert change(1.3, 1.1).direction is True
    assert change(0.8, 1.1).direction is False
    assert change(1.0, 1.1, noise=0.05).direction is None


def test_a_program_recorded_in_part_is_not_compared_as_a_whole() -> None:
    whole = compared(1.3, 1.1)
    part = replace(whole, incomplete="the recording is limited")
    assert whole.measured_ns is not None
    assert part.measured_ns is None
    assert part.time_error is None
    assert [one.direction for one in part.changes] == [None]
    assert agreement.summary([part]) == []
    assert agreement.summary([whole, part])[0].startswith(
        "Direction of the change: right for 1 of 1"
    )


def test_rounds_are_paired_so_that_a_slower_machine_changes_nothing() -> None:
    """Each round is twice as slow as the one before; the ratio within each is 1.5."""
    speed = [2.0**i for i in range(8)]
    measured = Native(runs([1.5 * s for s in speed]), {"64K": runs(speed)})
    gain = measured.gain("64K")
    assert gain is not None
    assert gain.low == pytest.approx(0.5)
    assert gain.high == pytest.approx(0.5)
    assert measured.settled()


def test_few_rounds_settle_nothing() -> None:
    few = Native(runs([1.0] * 4), {"2M": runs([1.0] * 4)})
    assert not few.settled()
    many = runs([1.0] * 9)
    assert Native(many, {"2M": many}).settled()
    assert not Native(many, {"2M": many, "64K": few.small}).settled()


def test_bootstrap_intervals_cover_the_median_as_often_as_they_promise() -> None:
    draw = random.Random(5)
    covered = 0
    for _ in range(200):
        found = native.bootstrap([draw.gauss(1, 0.2) for _ in range(15)])
        covered += found.low <= 1 <= found.high
    assert covered >= 180


def test_what_the_native_run_says_is_what_the_program_did(tmp_path: Path) -> None:
    """A program of known faults: it touches so many pages, and fewer with huge ones."""
    shutil.copy("/bin/true", tmp_path / "it")
    done = native.run([str(tmp_path / "it")], {}, "none")
    assert 10 < done.faults < 2000
    assert done.cpu < done.wall + 1
    with pytest.raises(PagelabError, match="status 1"):
        native.run(["false"], {}, "none")
    with pytest.raises(PagelabError, match="status 1"):
        native.run([str(tmp_path / "nothing")], {}, "none")


def test_rounds_are_said_every_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred rounds of a second each."""
    clock = iter(range(10_000))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(native, "run", lambda *_, **__: Run(1.0, 1.0, 1.0, 10))
    monkeypatch.setattr(Native, "settled", lambda _: False)
    said: list[str] = []
    pages = HugePages("always", "thp", {})
    native.measure(["true"], pages, KernelSettings(), ["2M"], 99.5, said.append)
    assert len(said) == 100 / 5
    assert said[0] == "round 5, 5 s"


def _fallbacks() -> int:
    """How often the kernel had no huge page to give, since it was started."""
    counts = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return int(counts.get("thp_fault_fallback", 0))


def test_the_kernel_gives_no_huge_pages_to_who_forgoes_them() -> None:
    pages = native.huge_pages()
    if pages.policy is None:
        pytest.skip("this kernel gives no huge pages")
    command = [str(probe.find()), "program", "random-updates", "--mib", "64", "--steps", "100000"]
    small = native.run(command, pages.environment, "none")
    before = _fallbacks()
    huge = native.run(command, pages.environment, "own")
    # 64 MiB are 16,384 small pages.
    assert small.faults > 16_000
    if _fallbacks() > before:
        pytest.skip("this machine has no 64 MiB in pieces of 2 MiB")
    assert huge.faults < small.faults / 4


def test_every_program_of_the_suite_has_a_name_of_its_own(tmp_path: Path) -> None:
    suite.prepare(tmp_path)
    found, missing = suite.programs(tmp_path)
    assert sorted([p.name for p in found] + missing) == sorted(suite.names())
    assert len(set(suite.names())) == len(suite.names())
    only, _ = suite.programs(tmp_path, ["sort"])
    assert [program.name for program in only] == ["sort"]


def test_the_page_shows_every_program_and_what_is_not_known() -> None:
    rows = [
        compared(1.4, 1.5),
        Agreement("alone", 10**9, Native(runs([1])), Predicted(1, 0, 5), {}),
    ]
    html = agreement_page.render(rows, agreement.summary(rows), "a machine", OFF)
    for expected in ("+40.0%", "alone", "not measured", "a machine", "switched off"):
        assert expected in html


@pytest.fixture
def nothing_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spares a guest the touching of gibibytes, which has a test of its own."""
    monkeypatch.setattr(guest_memory, "have_it_given", lambda *_: None)


@needs_recorder
def test_what_is_predicted_has_fetched_its_code(tmp_path: Path) -> None:
    """Lines of code, which a recording without code says nothing of."""
    program = suite.Program("true", [shutil.which("true") or "true"])
    with progress.display(Console(stderr=True), quiet=True) as display:
        trace, _ = predict.record(program, OFF, None, tmp_path, display)
    fetch = pagelab.simulate(trace, "radix", machine="skylake-sp").fetch
    assert fetch is not None
    assert fetch.fetches > 1000


@needs_recorder
@pytest.mark.usefixtures("nothing_touched")
def test_a_program_is_validated_from_end_to_end(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    command = [str(probe.find()), "program", "chase", "--mib", "8", "--steps", "100000"]
    arguments = ["validate", "-m", "skylake-sp", "--budget", "1", "-q", "--json", "-o", str(page)]
    outcome = CliRunner().invoke(app, [*arguments, "--", *command])
    assert outcome.exit_code == 0, outcome.output
    found = json.loads(outcome.stdout)
    [program] = found["programs"]
    # Each of 131,072 elements is written once, and 100,000 are read.
    assert program["accesses"] > 231_072
    # 8 MiB are 2,048 pages, natively and simulated.
    faults = program["faults"]["4K"]
    assert faults["measured"] > 2_048
    assert faults["predicted"] == pytest.approx(faults["measured"], rel=0.2)
    assert "pagelab-probe" in page.read_text()


@needs_recorder
@needs_sizes
@pytest.mark.usefixtures("nothing_touched")
def test_sizes_between_are_given_compared_and_taken_back(tmp_path: Path) -> None:
    """8 MiB, of which the allocator asks for whole huge pages: 128 faults for 2,048."""
    before = {size: setting(size) for size in (64, 512, 2048)}
    command = [str(probe.find()), "program", "chase", "--mib", "8", "--steps", "100000"]
    arguments = ["validate", "-m", "skylake-sp", "--budget", "1", "-q", "--json"]
    more = ["--pages", "64K", "--allow-tuning", "-o", str(tmp_path / "page.html")]
    outcome = CliRunner().invoke(app, [*arguments, *more, "--", *command])
    assert outcome.exit_code == 0, outcome.output
    [program] = json.loads(outcome.stdout)["programs"]
    assert list(program["changes"]) == ["64K"]
    small, folios = program["faults"]["4K"], program["faults"]["64K"]
    assert small["measured"] - folios["measured"] == pytest.approx(1920, rel=0.1)
    assert small["predicted"] - folios["predicted"] == pytest.approx(1920, rel=0.1)
    assert {size: setting(size) for size in before} == before


@needs_sizes
def test_the_kernel_gives_what_was_asked_for_until_the_end() -> None:
    before = {size: setting(size) for size in (64, 128, 2048)}
    with KernelSettings() as kernel:
        kernel.give("64K")
        assert [setting(size) for size in (64, 128, 2048)] == ["inherit", "never", "never"]
        kernel.give("128K")
        assert [setting(size) for size in (64, 128, 2048)] == ["never", "inherit", "never"]
        kernel.give("2M")
        assert {size: setting(size) for size in before} == before
        kernel.give("64K")
    assert {size: setting(size) for size in before} == before


def test_sizes_between_are_refused_where_they_cannot_be_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*arguments: str) -> str:
        outcome = CliRunner().invoke(app, ["validate", "-q", *arguments, "--", "true"])
        assert isinstance(outcome.exception, UsageError)
        return str(outcome.exception)

    monkeypatch.setattr(native, "huge_pages", lambda: HugePages("always", "thp", {}))
    assert "--allow-tuning" in refused("--pages", "4K,64K")
    assert "not 1G" in refused("--pages", "1G")
    monkeypatch.setattr(native, "huge_pages", lambda: OFF)
    assert "switched off" in refused("--pages", "64K", "--allow-tuning")


def test_a_program_that_is_not_there_is_named() -> None:
    arguments = ["validate", "-m", "skylake-sp", "--budget", "1", "-q", "--only", "sorting"]
    outcome = CliRunner().invoke(app, arguments)
    assert outcome.exit_code != 0


def test_what_memory_took_is_said() -> None:
    rows = [compared(1.4, 1.44) for _ in range(2)]
    assert not any("memory" in sentence for sentence in agreement.summary(rows))
    for row, ns in zip(rows, (150.0, 170.0), strict=True):
        before, since = (
            Look(at, {0: Core(0.0, None, took, read)})
            for at, took, read in ((-1.0, ns - 5, 10.0), (99.0, ns + 5, 30.0))
        )
        row.native.had = CoreStates(Buffers(256, 64, 6), [before, since])
    said = "A line of memory took {} ns and one core read 20 GB/s beside them"
    assert any(said.format("150 to 170") in sentence for sentence in agreement.summary(rows))
    assert any(said.format("150") in sentence for sentence in agreement.summary(rows[:1]))


def test_halves_of_the_time_are_added_by_what_is_done_in_them() -> None:
    """A job of 1 s on one machine, 3 s on the other: after 0.75 s of each it is done."""
    fast, slow = Predicted(1.0, 0.2, 7), Predicted(3.0, 0.2, 7)
    found = agreement.in_turns([0.5, 0.5], [fast, slow])
    assert found == Predicted(1.5, 0.2, 7, least=1.0, most=3.0)


@pytest.mark.usefixtures("nothing_touched")
def test_without_an_emulator_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise NoEmulatorError("no emulator to record with")

    monkeypatch.setattr(emulator, "find", none)
    monkeypatch.setattr(suite, "prepare", lambda _: pytest.fail("prepared"))
    outcome = CliRunner().invoke(app, ["validate", "-m", "skylake-sp", "--only", "chase"])
    assert isinstance(outcome.exception, NoEmulatorError)


@needs_recorder
@pytest.mark.usefixtures("nothing_touched")
def test_what_was_validated_before_an_interrupt_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [compared(1.4, 1.44)]

    def until_interrupted(*_: object) -> Agreement:
        if not rows:
            raise KeyboardInterrupt
        return rows.pop()

    monkeypatch.setattr(validation, "_validate", until_interrupted)
    page = tmp_path / "page.html"
    arguments = ["validate", "-m", "skylake-sp", "-q", "--json", "-o", str(page)]
    command = [*arguments, "--only", "chase,sort"]
    outcome = CliRunner().invoke(app, command)
    assert outcome.exit_code == 130
    found = json.loads(outcome.stdout)
    assert found["interrupted"]
    assert [program["name"] for program in found["programs"]] == ["it"]
    assert page.exists()
    # With nothing to show it says so.
    outcome = CliRunner().invoke(app, command)
    assert isinstance(outcome.exception, InterruptedRunError)
    assert not outcome.stdout


@needs_recorder
@pytest.mark.parametrize("sent", ["TERM", "QUIT"])
def test_a_signal_while_a_program_is_recorded_ends_the_suite(tmp_path: Path, sent: str) -> None:
    """The recorder hands it on to the program.

    SIGINT and SIGHUP may be ignored here, as a shell and nohup(1) have it in the background.
    """
    if sent == "QUIT" and signal.getsignal(signal.SIGQUIT) == signal.SIG_IGN:
        pytest.skip("SIGQUIT is ignored")
    it = suite.Program("it", ["sh", "-c", f"kill -{sent} $$"])
    with (
        progress.display(Console(stderr=True), quiet=True) as display,
        pytest.raises(KeyboardInterrupt),
    ):
        predict.record(it, OFF, None, tmp_path, display)
    assert not list(tmp_path.iterdir())


def test_a_signal_while_a_program_is_simulated_ends_the_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> list[object]:
        os.kill(os.getpid(), signal.SIGTERM)
        return []

    (tmp_path / "it.trace").touch()
    monkeypatch.setattr(jobs, "simulate_all", interrupted)
    with (
        progress.display(Console(stderr=True), quiet=True) as display,
        pytest.raises(KeyboardInterrupt),
    ):
        predict.simulate(tmp_path / "it.trace", "zen4", "radix", ["thp"], [], display)
