"""`pagelab linux agree`: what is read of a guest, without one."""

from pathlib import Path

import pytest

from pagelab import guest_agreement
from pagelab.errors import PagelabError, UsageError
from pagelab.guest_agreement import Agreement, Line, addresses, numbers
from pagelab.linux import guest, layout


def test_counters_have_names_with_blanks_or_none() -> None:
    text = "pgreuse 12\nhugepages-64kB/stats/split 3\n"
    assert numbers(text) == {"pgreuse": 12, "hugepages-64kB/stats/split": 3}


def test_functions_are_found_beside_the_kernel(tmp_path: Path) -> None:
    image = tmp_path / "arch" / "x86" / "boot" / "bzImage"
    symbols = tmp_path / "System.map"
    with pytest.raises(PagelabError, match=r"no System\.map"):
        addresses(image)
    symbols.write_text("ffffffff8159f2f0 t do_wp_page\n")
    with pytest.raises(PagelabError, match="no function do_huge_pmd_wp_page"):
        addresses(image)
    symbols.write_text(symbols.read_text() + "ffffffff81714ae0 T do_huge_pmd_wp_page\n")
    found = {"do_wp_page": 0xFFFFFFFF8159F2F0, "do_huge_pmd_wp_page": 0xFFFFFFFF81714AE0}
    assert addresses(image) == found


def test_differences_are_relative_to_the_kernel() -> None:
    lines = [
        Line(name="faults", kernel=1000, simulator=990),
        Line(name="collapsed", kernel=0, simulator=2),
    ]
    found = Agreement(program="sort", kernel="6.12", pages="4K", system="linux-6.12", lines=lines)
    head, _, faults, collapsed = found.table().splitlines()
    assert head == "sort, 4K pages, linux-6.12, Linux 6.12"
    assert faults.split() == ["faults", "1,000", "990", "-1.0%"]
    assert collapsed.split() == ["collapsed", "0", "2"]


def test_a_program_with_less_memory_is_in_a_group_before_it_begins() -> None:
    commands = guest_agreement.limits(24 << 20, 512)
    written = [command for command in commands if command.endswith("memory.max")]
    assert written == ["echo 25165824 >/tmp/cgroup/program/memory.max"]
    assert commands[-1] == "echo $$ >/tmp/cgroup/program/cgroup.procs"


def test_pages_that_no_setting_gives_are_refused() -> None:
    machine = guest.Machine(Path("image"), Path("init"), cpus=1)
    for size in ("1G", "madvise", "reserved", "quicksilver"):
        with pytest.raises(UsageError, match=size):
            guest_agreement.compare(layout.find(), machine, ["true"], size, "linux")
