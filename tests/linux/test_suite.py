"""What linux/tests and linux/bench may say, and how a run is judged."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from pagelab.errors import PagelabError, UsageError
from pagelab.linux import build, cli, guest, layout, suite, walked
from pagelab.linux.guest import Ending, Machine, Result, qemu_argv
from pagelab.linux.layout import Layout
from pagelab.linux.suite import Verdict


def _write(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / "feature"
    folder.mkdir()
    (folder / "suite.toml").write_text(text)
    return tmp_path


def test_one_job_a_boot(tmp_path: Path) -> None:
    root = _write(tmp_path, '[[entry]]\nname = "a"\nprogram = "a.c"\nappend = ["", "x=on"]\n')
    assert [job.name for job in suite.load(root, [])] == ["feature/a", "feature/a [x=on]"]


def test_any_suite_runs_on_a_kernel_that_checks_itself(tmp_path: Path) -> None:
    text = '[[entry]]\nname = "a"\nprogram = "a.c"\ndebug = ["vm"]\nmemory = 1000\ntimeout = 10.0\n'
    root = _write(tmp_path, text + '[[entry]]\nname = "b"\nprogram = "b.c"\nkernel = "7.2"\n')
    first, second = suite.load(root, [], ("kasan", "vm"))
    assert first.entry.debug == ["kasan", "vm"]
    # Shadow memory, and checks at each access.
    assert first.entry.memory > 1000
    assert first.entry.timeout > 10.0
    assert second.entry.debug == ["kasan", "vm"]


def test_a_kernel_with_less_in_it_takes_no_longer(tmp_path: Path) -> None:
    text = '[[entry]]\nname = "a"\nprogram = "a.c"\nkernel = "7.2"\nmemory = 1000\n'
    (job,) = suite.load(_write(tmp_path, text), [], ("small",))
    (plain,) = suite.load(tmp_path, [])
    assert job.entry.debug == ["small"]
    assert job.entry.model_copy(update={"debug": []}) == plain.entry


def test_what_acts_at_random_lasts_as_long_as_asked(tmp_path: Path) -> None:
    text = '[[entry]]\nname = "a"\nprogram = "a.c"\nseconds = 30\nargs = ["7"]\ntimeout = 100.0\n'
    root = _write(tmp_path, text + '[[entry]]\nname = "b"\nprogram = "b.c"\nargs = ["7"]\n')
    own, other = suite.load(root, [])
    longer, same = suite.load(root, [], seconds=3600)
    assert (own.entry.words, longer.entry.words) == (["30", "7"], ["3600", "7"])
    assert longer.entry.timeout > 3600 + own.entry.timeout / 2
    assert same == other
    assert other.entry.words == ["7"]


def test_an_emulated_guest_trusts_its_timer() -> None:
    image = Path("image")
    argv = {
        accel: " ".join(qemu_argv(Machine(image=image, init=image, accel=accel), Path("job"), []))
        for accel in ("tcg", "kvm")
    }
    # On a busy host its interrupts come late, and Linux panics without this.
    assert "no_timer_check" in argv["tcg"]
    assert "no_timer_check" not in argv["kvm"]


def test_a_kernel_with_kasan_has_four_levels_of_page_tables() -> None:
    assert build.parameters(("kasan", "vm"), "dpt=on").split() == ["dpt=on", "no5lvl"]
    assert build.parameters(("kasan",), "") == "no5lvl"
    assert build.parameters(("vm",), "dpt=on") == "dpt=on"


def test_a_typing_error_names_file_and_key(tmp_path: Path) -> None:
    root = _write(tmp_path, '[[entry]]\nname = "a"\nprogram = "a.c"\nmemmory = 3\n')
    with pytest.raises(PagelabError, match=r"suite\.toml.*memmory"):
        list(suite.load(root, []))


def test_an_unknown_name_suggests_the_nearest(tmp_path: Path) -> None:
    root = _write(tmp_path, '[[entry]]\nname = "alpha"\nprogram = "a.c"\n')
    with pytest.raises(UsageError, match="feature/alpha"):
        list(suite.load(root, ["feature/alhpa"]))


def test_the_suites_of_the_project_are_well_formed() -> None:
    linux = layout.find().linux
    for root in (linux / "tests", linux / "bench"):
        for job in suite.load(root, []):
            if not job.entry.program.startswith("selftests/"):
                assert (job.folder / job.entry.program).is_file(), job.name


@pytest.mark.parametrize(
    ("ending", "status", "console", "verdict"),
    [
        (Ending.EXIT, 0, [], Verdict.PASS),
        (Ending.EXIT, 4, [], Verdict.SKIP),
        (Ending.EXIT, 1, [], Verdict.FAIL),
        (Ending.EXIT, 0, ["[ 1.0] WARNING: CPU: 0 PID: 1 at mm/rmap.c:3"], Verdict.FAIL),
        (Ending.EXIT, 0, ["[ 1.0] WARNING: possible circular locking"], Verdict.FAIL),
        (Ending.HANG, None, [], Verdict.FAIL),
        (Ending.OOM, 0, [], Verdict.FAIL),
    ],
)
def test_verdicts(ending: Ending, status: int | None, console: list[str], verdict: Verdict) -> None:
    assert suite.judge(Result(ending, status, console)) is verdict


def test_only_new_failures_are_regressions() -> None:
    first = Result(Ending.EXIT, 1, [], stdout=b"ok 1 a\nnot ok 2 b\nnot ok 3 c\n")
    again = Result(Ending.EXIT, 1, [], stdout=b"not ok 1 b\nok 2 c\n")
    worse = Result(Ending.EXIT, 1, ["[ 1.0] BUG: soft lockup"], stdout=b"not ok 1 a\nnot ok 2 b\n")
    assert suite.regressions(first, again) == []
    assert suite.regressions(first, worse) == ["not ok a", "BUG: soft lockup"]
    lost = Result(Ending.PANIC, None, [])
    assert suite.regressions(again, lost) == ["the guest ended: panic"]
    assert suite.regressions(lost, lost) == ["the guest ended: panic"]


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ([Result(Ending.EXIT, 1, []), Result(Ending.EXIT, 1, [])], ["pass", "pass"]),
        ([Result(Ending.EXIT, 4, []), Result(Ending.EXIT, 0, [])], ["skip", "pass"]),
        # What is compared with is the first boot that came to its end.
        (
            [
                Result(Ending.HANG, None, []),
                Result(Ending.EXIT, 0, []),
                Result(Ending.EXIT, 1, []),
                Result(Ending.EXIT, 1, []),
            ],
            ["fail", "pass", "fail", "fail"],
        ),
    ],
)
def test_boots_are_compared_with_the_first(
    results: list[Result],
    said: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "linux" / "tests").mkdir(parents=True)
    text = '[[entry]]\nname = "a"\nprogram = "a.c"\ncompare = true\nappend = ["", "x=on"]\n'
    _write(tmp_path / "linux" / "tests", text)
    monkeypatch.setattr(layout, "find", lambda: Layout(tmp_path))
    left = list(results)

    def one(*_: object, **__: object) -> tuple[Verdict, Result]:
        result = left.pop(0)
        return suite.judge(result), result

    monkeypatch.setattr(suite, "run", one)
    with pytest.raises(PagelabError) if said[-1] == "fail" else nullcontext():
        cli.run_tests([], retries=1)
    words = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert [word for word in words if word in list(Verdict)] == said


def test_debug_entries_wait_for_their_kernel_unless_asked_for_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "linux" / "tests").mkdir(parents=True)
    _write(tmp_path / "linux" / "tests", '[[entry]]\nname = "a"\nprogram = "a.c"\ndebug = ["vm"]\n')
    monkeypatch.setattr(layout, "find", lambda: Layout(tmp_path))
    for names in ([], ["feature"]):
        cli.run_tests(names)
        assert "skip  feature/a: no kernel of `pagelab linux build --debug vm`" in (
            capsys.readouterr().out
        )
    with pytest.raises(PagelabError, match="run `pagelab linux build --debug vm` first"):
        cli.run_tests(["feature/a"])


@pytest.mark.parametrize(
    ("statuses", "retries", "said"),
    [
        ([1, 0], 1, "flaky feature/a: failed 1 of 2 times"),
        ([1, 1, 0], 2, "flaky feature/a: failed 2 of 3 times"),
        ([0], 1, None),
        ([1, 1], 1, None),
        ([1], 0, None),
    ],
)
def test_what_failed_is_run_again_and_named_when_it_passes_then(
    statuses: list[int],
    retries: int,
    said: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "linux" / "tests").mkdir(parents=True)
    _write(tmp_path / "linux" / "tests", '[[entry]]\nname = "a"\nprogram = "a.c"\n')
    monkeypatch.setattr(layout, "find", lambda: Layout(tmp_path))
    left = list(statuses)

    def one(*_: object, **__: object) -> tuple[Verdict, Result]:
        result = Result(Ending.EXIT, left.pop(0), [], stdout=b"not ok 1 something\n")
        return suite.judge(result), result

    monkeypatch.setattr(suite, "run", one)
    ends = pytest.raises(PagelabError, match="1 failed:\n  feature/a")
    with ends if statuses[-1] else nullcontext():
        cli.run_tests([], retries=retries)
    assert left == []
    out = capsys.readouterr().out
    # Each failure is explained, whatever comes after it.
    assert out.count("not ok 1 something") == sum(statuses)
    assert [line for line in out.splitlines() if line.startswith("flaky")] == (
        [said] if said else []
    )


def test_one_job_a_processor(tmp_path: Path) -> None:
    text = '[[entry]]\nname = "a"\nprogram = "a.c"\nprocessor = ["", "check"]\n'
    names = [job.name for job in suite.load(_write(tmp_path, text), [])]
    assert names == ["feature/a", "feature/a [walks=check]"]


def test_the_walks_of_all_guests_are_added_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "linux" / "tests").mkdir(parents=True)
    text = '[[entry]]\nname = "a"\nprogram = "a.c"\nprocessor = ["", "check-each", "dpt-each"]\n'
    _write(tmp_path / "linux" / "tests", text)
    where = Layout(tmp_path)
    where.emulator.parent.mkdir(parents=True)
    where.emulator.touch()
    monkeypatch.setattr(layout, "find", lambda: where)
    counted = {
        "check-each": '{"mode": "check-each", "walks": 0, "checks": 1500000, "other_pages": 70}',
        "dpt-each": '{"mode": "dpt-each", "walks": 2000, "checks": 0, "other_pages": 5}',
    }

    def one(_: Layout, job: suite.Job, **__: object) -> tuple[Verdict, Result]:
        walks = counted.get(job.processor)
        result = Result(Ending.EXIT, 0, [], files={guest.WALKS: walks.encode()} if walks else {})
        return Verdict.PASS, result

    monkeypatch.setattr(suite, "run", one)
    cli.run_tests([])
    assert capsys.readouterr().out.splitlines()[-1] == (
        "1,500,000 translations checked and 2,000 by hash only in 2 guests; "
        "75 of another page than the one before; 0 differences"
    )


def test_walks_are_listed_by_program_file_system_and_foliomap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "linux" / "tests").mkdir(parents=True)
    text = """
        [[entry]]
        name = "a"
        program = "a.c"
        append = ["dpt=on", "dpt=on foliomap=on", "dpt=on foliomap=on dpt.fap=0"]
        processor = ["check"]
        [[entry]]
        name = "b"
        program = "a.c"
        append = ["dpt=on fbmm=on"]
        manager = ["", "basicmfs:size=1M"]
        processor = ["", "check"]
    """
    _write(tmp_path / "linux" / "tests", text)
    where = Layout(tmp_path)
    where.emulator.parent.mkdir(parents=True)
    where.emulator.touch()
    monkeypatch.setattr(layout, "find", lambda: where)

    def one(_: Layout, job: suite.Job, **__: object) -> tuple[Verdict, Result]:
        if not job.processor:
            return Verdict.PASS, Result(Ending.EXIT, 0, [])
        walks = b'{"walks": 0, "checks": 1000, "other_pages": 7}'
        if job.manager:
            # What the emulator printed stands behind the console, and there is no status.
            console = ["[ 1.0] a warning", "dpt: the walks of 0x1000 differ on CPU 0"]
            return Verdict.FAIL, Result(Ending.LOST, None, console, files={guest.WALKS: walks})
        return Verdict.PASS, Result(Ending.EXIT, 0, [], files={guest.WALKS: walks})

    monkeypatch.setattr(suite, "run", one)
    table = tmp_path / "new" / "walks.md"
    # A run that fails has a table, too.
    with pytest.raises(PagelabError, match="1 failed"):
        cli.run_tests([], walks_table=table)
    assert table.read_text().splitlines()[2:] == [
        "| a |  | off | 1 | 1,000 | 0 | 7 | 0 |",
        "| a |  | on | 2 | 2,000 | 0 | 14 | 0 |",
        "| b |  | off | 1 | 1,000 | 0 | 7 | 0 |",
        "| b | `basicmfs:size=1M` | off | 1 | 1,000 | 0 | 7 | 1 |",
        "| all |  |  | 5 | 5,000 | 0 | 35 | 1 |",
    ]


def test_a_difference_counts_where_nothing_else_was_counted() -> None:
    console = ["dpt: the walks of 0x1000 differ on CPU 0"]
    lost = walked.counts(Result(Ending.LOST, None, console))
    assert lost is not None
    assert (lost.guests, lost.differences) == (1, 1)
    assert walked.counts(Result(Ending.EXIT, 0, ["quiet"])) is None


def test_a_guest_whose_walks_led_to_two_pages_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "linux" / "tests").mkdir(parents=True)
    text = '[[entry]]\nname = "a"\nprogram = "a.c"\nprocessor = ["check"]\n'
    _write(tmp_path / "linux" / "tests", text)
    where = Layout(tmp_path)
    where.emulator.parent.mkdir(parents=True)
    where.emulator.touch()
    monkeypatch.setattr(layout, "find", lambda: where)
    left = b'{"checks": 9, "retries": 3, "retries_present": 2, "mistranslated": 1}'

    def one(*_: object, **__: object) -> tuple[Verdict, Result]:
        return Verdict.PASS, Result(Ending.EXIT, 0, [], files={guest.WALKS: left})

    monkeypatch.setattr(suite, "run", one)
    with pytest.raises(PagelabError, match="1 failed"):
        cli.run_tests([])
    out = capsys.readouterr().out
    assert out.startswith("fail  feature/a")
    assert "; 1 differences" in out


@pytest.mark.parametrize("left", [b"", b"\xff", b"[1]", b'{"checks": -1}', b'{"checks": "many"}'])
def test_what_is_no_count_counts_nothing(left: bytes) -> None:
    found = walked.counts(Result(Ending.HANG, None, [], files={guest.WALKS: left}))
    assert found == walked.Counts(guests=1)


def test_a_recording_has_no_walk_an_access(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="check or dpt"):
        cli.record(command=["true"], out=tmp_path / "trace", system=True, walks="check-each")


def test_a_missing_emulator_is_named_with_the_command_that_builds_it(tmp_path: Path) -> None:
    with pytest.raises(PagelabError, match="make linux-qemu"):
        suite.need_emulator(Layout(tmp_path))


def test_the_processor_is_told_how_to_walk_and_where_to_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guest, "_firmware", lambda: ["/firmware"])
    machine = Machine(Path("image"), Path("init"), processor="check", emulator=Path("/our/qemu"))
    argv = qemu_argv(machine, tmp_path, [])
    assert "/our/qemu" in argv
    assert argv[argv.index("-L") + 1] == "/firmware"
    assert f"max,x-dpt=check,x-dpt-out={tmp_path}/out/walks" in argv
    with pytest.raises(UsageError, match="check, dpt"):
        Machine(Path("image"), Path("init"), processor="both")


def test_a_warning_is_shown_however_much_came_after_it() -> None:
    later = [f"[ 2.{number}] migrating pfn" for number in range(1000)]
    console = ["[ 0.1] booting", "[ 1.5] WARNING: possible circular locking", *later]
    result = guest.Result(guest.Ending.EXIT, 0, console)
    assert suite.judge(result) is suite.Verdict.FAIL
    assert suite.warned(result) == console[1 : 1 + guest.CONSOLE_LINES]
    assert suite.warned(guest.Result(guest.Ending.EXIT, 0, later)) == []
