"""`pagelab linux agree`: what is read of a guest, without one."""

import os
import resource
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

import canned
import commands
from pagelab import systems
from pagelab.agreeing import in_guest, stack, suite
from pagelab.agreeing.counts import Agreement, Line, lines
from pagelab.agreeing.in_guest import Laboratory, addresses, numbers
from pagelab.agreeing.program import Program, alike
from pagelab.agreeing.setting import SUITE, Setting
from pagelab.agreeing.table import HEAD, row, summary
from pagelab.counts import Os
from pagelab.errors import PagelabError, UsageError
from pagelab.linux import guest, layout


def test_counters_have_names_with_blanks_or_none() -> None:
    text = "pgreuse 12\nhugepages-64kB/stats/split 3\n"
    assert numbers(text) == {"pgreuse": 12, "hugepages-64kB/stats/split": 3}


def test_functions_are_found_beside_the_kernel(tmp_path: Path) -> None:
    image = tmp_path / "arch" / "x86" / "boot" / "bzImage"
    symbols = tmp_path / "System.map"
    with pytest.raises(PagelabError, match=r"no System\.map"):
        addresses(image)
    symbols.write_text("ffffffff81714ae0 T do_huge_pmd_wp_page\n")
    with pytest.raises(PagelabError, match="no function copy_mc_to_kernel"):
        addresses(image)
    symbols.write_text(symbols.read_text() + "ffffffff8159f2f0 t copy_mc_to_kernel\n")
    # In the order in which their counts are read.
    assert list(addresses(image).values()) == [0xFFFFFFFF8159F2F0, 0xFFFFFFFF81714AE0]


def _agreement(program: str, faults: tuple[int, int], **about: str) -> Agreement:
    lines = [Line(name="faults", kernel=faults[0], simulator=faults[1])]
    if "failed" in about:
        lines = []
    lines += [Line(name="64K folios", kernel=12, simulator=12)]
    return Agreement(program=program, kernel="6.12", setting="64K", lines=lines, **about)


def test_differences_are_relative_to_the_kernel() -> None:
    lines = [
        Line(name="faults", kernel=1000, simulator=990),
        Line(name="collapsed", kernel=0, simulator=2),
    ]
    found = Agreement(program="sort", kernel="6.12", setting="4K", lines=lines)
    head, _, faults, collapsed = found.table().splitlines()
    assert head == "sort, 4K, Linux 6.12"
    assert faults.split() == ["faults", "1,000", "990", "-1.0%"]
    assert collapsed.split() == ["collapsed", "0", "2"]


def test_a_table_has_a_row_a_setting_and_says_what_failed() -> None:
    found = [
        _agreement("sort", (1000, 990)),
        _agreement("sort", (1000, 1000)),
        _agreement("random-updates", (12_095, 12_491)),
        _agreement("redis", (1, 1), failed="it was stopped in the guest\nmore"),
    ]
    lines = [row(one, above) for one, above in zip(found, ["", "sort", "sort", ""], strict=True)]
    assert all(len(line) <= 80 for line in [HEAD, *lines])
    assert lines[0].split() == ["sort", "64K", "1,000/990", "-1.0%", "0", "0", "12"]
    assert lines[1].split() == ["64K", "1,000", "+0.0%", "0", "0", "12"]
    assert lines[3] == "redis          64K              it was stopped in the guest"
    assert summary(found).splitlines() == [
        "3 of 4 compared: faults within 1 % in 2;",
        "equal numbers of copied in 3, kept in 3, folios in 3.",
    ]


def test_collapses_and_pages_by_node_are_below_a_row() -> None:
    names = ("minor", "copy_mc_to_kernel", "pgreuse", "do_huge_pmd_wp_page", "thp_split_pmd")
    none = dict.fromkeys([*names, "major", "pswpout", "pswpin", "workingset_refault_file"], 0)
    kernel = none | {"thp_collapse_alloc": 20, "placed/0": 30, "placed/1": 20}
    there = {"scans": 1, "full_scans": 1, "too_empty": 0, "too_shared": 0, "no_free_block": 0}
    khugepaged = there | {"collapsed": 18, "pages_copied": 0, "pages_zeroed": 0}
    simulator = canned.run()["os"] | {"collapsed": 1, "khugepaged": khugepaged, "placed": [30, 21]}
    found = lines(kernel, Os.model_validate(simulator), "madvise")
    one = Agreement(program="sort", kernel="6.12", setting="madvise", lines=found)
    _, *below = row(one, "").splitlines()
    told = " ".join(line.strip() for line in below)
    assert "2 MiB pages made of smaller ones 20/19, pages of node 0 30" in told
    assert told.endswith("pages of node 1 20/21")
    assert summary([one]).splitlines()[2:] == [
        "Collapses within 5 % in 1 of 1.",
        "Pages by node equal in 0 of 1.",
    ]


def test_a_program_with_less_memory_is_in_a_group_before_it_begins() -> None:
    commands = in_guest.limits(24 << 20, 512)
    written = [command for command in commands if command.endswith("memory.max")]
    assert written == ["echo 25165824 >/tmp/cgroup/program/memory.max"]
    assert commands[-1] == "echo $$ >/tmp/cgroup/program/cgroup.procs"


def test_settings_that_one_of_the_two_has_not_are_refused() -> None:
    for size in ("1G", "reserved", "quicksilver"):
        with pytest.raises(UsageError, match=size):
            Setting(size)
    with pytest.raises(UsageError, match="tieredmfs"):
        Setting(manager="tieredmfs")
    with pytest.raises(UsageError, match="weights"):
        Setting(manager="bwmfs")
    for wrong in ({"pages": "4K"}, {"pages": "2M", "memory_max": 1 << 20}):
        with pytest.raises(UsageError, match="khugepaged goes with"):
            Setting(**wrong, max_ptes_none=0)
    with pytest.raises(UsageError, match="0 to 511"):
        Setting("2M", max_ptes_none=512)


def test_settings_have_the_systems_that_kernels_are() -> None:
    khugepaged = "scan_sleep_ms=0.1:pages_to_scan=16777216"
    assert {setting.name: setting.system("6.12") for setting in SUITE} == {
        "4K": "linux-6.12",
        "2M": "linux-6.12",
        "64K": "linux-6.12",
        "64K foliomap=on": "foliomap",
        "2M ptes_none=511": f"linux-6.12:max_ptes_none=511:{khugepaged}",
        "2M ptes_none=0": f"linux-6.12:max_ptes_none=0:{khugepaged}",
        "basicmfs": "basic",
        "bwmfs 3:2": "bandwidth:weights=3:2",
    }
    assert [setting.nodes for setting in SUITE] == [1, 1, 1, 1, 1, 1, 1, 2]
    assert all(systems.parse(setting.system("6.12")) for setting in SUITE)
    assert Setting(memory_max=1 << 20).system("7.2") == "linux:max_bytes=1048576"


def test_a_program_here_has_the_environment_and_folder_of_the_guest(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    environment = {"PATH": os.environ["PATH"], "A": "b c"}
    program = Program("env", ["env"], environment, "echo made >file", folder)
    there = dict(os.environ)
    with program.prepared():
        limit = resource.getrlimit(resource.RLIMIT_STACK)[0]
        written = subprocess.run("cat file; env; echo out", shell=True, check=True)
        assert dict(os.environ) == environment
        assert Path.cwd() == folder
        assert Path("file").read_text() == "made\n"
    assert written.returncode == 0
    assert limit == stack.LIMIT
    assert capfd.readouterr().out == ""
    assert dict(os.environ) == there
    assert Path.cwd() != folder


def test_mappings_begin_where_they_do_in_a_guest() -> None:
    """6.12's vdso has six pages, of which four are its data."""
    maps = """7ffff7fc3000-7ffff7fc7000 r--p 00000000 00:00 0    [vvar]
7ffff7fc7000-7ffff7fc9000 r-xp 00000000 00:00 0    [vdso]
7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0    [stack]
"""
    assert stack.vdso_bytes(maps) == 6 << 12
    here = stack.vdso_bytes(Path("/proc/self/maps").read_text())
    assert here > 0
    assert stack.emulated(here) == stack.LIMIT
    assert stack.emulated(6 << 12) == stack.LIMIT - (here - (6 << 12))


def test_an_environment_has_no_restartable_sequences_and_keeps_what_it_has() -> None:
    stack_size = {"QEMU_STACK_SIZE": "138412032"}
    assert alike({"A": "b"}) == {"A": "b", "GLIBC_TUNABLES": "glibc.pthread.rseq=0"} | stack_size
    tunables = alike({"GLIBC_TUNABLES": "glibc.malloc.check=3"})["GLIBC_TUNABLES"]
    assert tunables == "glibc.malloc.check=3:glibc.pthread.rseq=0"


def _written(names: Mapping[str, str]) -> guest.Result:
    files = {name: text.encode() for name, text in names.items()}
    return guest.Result(guest.Ending.HANG, None, ["a word"], files=files)


def test_programs_behind_one_that_hangs_run_in_another_guest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"before": "pgreuse 1\n", "after": "pgreuse 4\n"}
    ended = {f"run0/{name}": text for name, text in texts.items()}
    ended |= {"run0/command": "status 0\nminor 7\nmajor 0\n", "counts": "5 0 \n"}
    scripts: list[str] = []

    def run(_: guest.Machine, command: list[str], **__: object) -> guest.Result:
        scripts.append(command[-1])
        # The second of the first guest hangs.
        return _written(ended)

    monkeypatch.setattr(guest, "run", run)
    monkeypatch.setattr(in_guest, "build_program", lambda *_: Path("program"))
    symbols = "ffffffff81714ae0 T do_huge_pmd_wp_page\nffffffff8159f2f0 t copy_mc_to_kernel\n"
    (tmp_path / "System.map").write_text(symbols)
    machine = guest.Machine(tmp_path / "image", tmp_path / "init", cpus=1)
    laboratory = Laboratory(layout.find(), machine, 10)
    programs = [Program(name, [f"/{name}"], {"A": "it's"}) for name in ("one", "two", "three")]
    found = laboratory.count([(program, Setting("64K")) for program in programs])
    assert [one.failed is None for one in found] == [True, False, True]
    assert "did not finish in time" in (found[1].failed or "")
    assert (
        found[0].counters | {"pgreuse": 3, "minor": 7, "copy_mc_to_kernel": 5} == found[0].counters
    )
    assert ["/three" in script for script in scripts] == [True, True]
    assert "/one" not in scripts[1]
    assert "echo 0 >/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none" in scripts[0]
    assert "chrt" not in scripts[0]
    assert "/two" not in scripts[1]


def test_khugepaged_works_before_a_program_that_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts: list[str] = []

    def run(_: guest.Machine, command: list[str], **__: object) -> guest.Result:
        scripts.append(command[-1])
        return _written({})

    monkeypatch.setattr(guest, "run", run)
    monkeypatch.setattr(in_guest, "build_program", lambda *_: Path("program"))
    symbols = "ffffffff81714ae0 T do_huge_pmd_wp_page\nffffffff8159f2f0 t copy_mc_to_kernel\n"
    (tmp_path / "System.map").write_text(symbols)
    machine = guest.Machine(tmp_path / "image", tmp_path / "init", cpus=1)
    program = Program("one", ["/one"], {})
    Laboratory(layout.find(), machine, 10).count([(program, Setting("madvise", max_ptes_none=7))])
    commands = [line for line in scripts[0].splitlines() if "khugepaged" in line or "/one" in line]
    assert commands[0].startswith("chrt -f -p 1")
    assert [line.split("/")[0].strip() for line in commands[1:4]] == [
        *("echo 7 >", "echo 16777216 >", "echo 1 >"),
    ]
    assert "/one" in commands[4]
    assert "hugepages-2048kB/enabled" in scripts[0].split("chrt")[0].splitlines()[-1]


def test_a_guests_shell_runs_a_program_as_it_is_meant(tmp_path: Path) -> None:
    program = Program(
        "sh", ["/bin/sh", "-c", 'echo "$A" $0 >>told', "x y"], {"A": "it's"}, "", tmp_path / "run"
    )
    script = in_guest.shell(program, "env")
    subprocess.run(["sh", "-ec", script], check=True, env={"PATH": os.environ["PATH"], "A": "no"})
    assert (tmp_path / "run" / "told").read_text() == "it's x y\n"


def test_programs_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown program 'sirt'"):
        suite.programs(tmp_path, ["sirt"])
    for program, why in (("/nothing/here", "there is no such file"), ("sirt", "not in PATH")):
        done = commands.pagelab("linux", "agree", "--", program)
        assert done.returncode == 127
        assert why in done.stderr


def test_programs_of_the_suite_are_those_that_are_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    which = shutil.which

    def without(name: str, path: str) -> str | None:
        return None if name == "perl" else which(name, path=path)

    monkeypatch.setattr(shutil, "which", without)
    made, missing = suite.programs(tmp_path, ["sort", "perl"])
    assert [program.name for program in made] == ["sort"]
    assert missing == ["perl"]
    assert Path(made[0].command[-1]).read_text().count("\n") == 10_000
