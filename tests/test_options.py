"""What is asked for on the command line: designs, page sizes."""

import os
from pathlib import Path

import pytest

from pagelab import api, design, window
from pagelab.cli import options
from pagelab.errors import UsageError
from pagelab.sweeping import file, plan


def asked(designs: str | None, sizes: str | None = None) -> list[tuple[str, str | None]]:
    chosen = design.chosen(
        options.designs(None if designs is None else [designs]),
        options.page_sizes(sizes, thp=False),
    )
    return [(one.label, one.pages) for one in chosen]


def test_page_sizes_multiply_designs_but_those_that_name_one() -> None:
    assert asked("radix,dpt:cpd=false,radix:pages=1g", "4K,2MB") == [
        ("radix", "4K"),
        ("radix", "2M"),
        ("dpt:cpd=false", "4K"),
        ("dpt:cpd=false", "2M"),
        ("radix", "1G"),
    ]
    assert asked("radix,radix:pages=64K") == [("radix", None), ("radix", "64K")]
    assert asked("radix,radix:pages=4K", "4K") == [("radix", "4K")]


def test_several_page_sizes_alone_are_asked_of_radix_and_the_bound() -> None:
    assert asked(None, "4K,2M") == [
        (design, size) for design in ("radix", "ideal") for size in ("4K", "2M")
    ]
    # One size is for every page table.
    assert {size for _, size in asked(None, "2M")} == {"2M"}
    assert len(asked(None, "2M")) == len(asked(None)) > 2


def test_thp_is_short_for_one_size() -> None:
    assert options.page_sizes(None, thp=True) == ["2M"]
    assert options.page_sizes(None, thp=False) is None
    with pytest.raises(UsageError, match="--pages 2M"):
        options.page_sizes("4K", thp=True)


@pytest.mark.parametrize(("designs", "sizes"), [("radix:pages=3M", None), (None, "4K,3M")])
def test_a_page_size_that_there_is_not_is_named_with_those_that_there_are(
    designs: str | None, sizes: str | None
) -> None:
    with pytest.raises(UsageError, match=r"unknown page size '3M'.*Valid: 4K, 16K.*2M, 1G"):
        asked(designs, sizes)


@pytest.mark.parametrize("wrong", ["", "-5", "1.5", "many", "99999999999999999999999"])
@pytest.mark.parametrize("option", ["--skip", "--limit", "--sample", "--warm-up"])
def test_a_wrong_count_is_said_with_its_option(option: str, wrong: str) -> None:
    given = {"--skip": None, "--limit": None, "--sample": None, "--warm-up": None}
    if option == "--sample" and wrong:
        wrong = f"{wrong}:20M"
    skip, limit, sample, warm_up = (given | {option: wrong}).values()
    with pytest.raises(UsageError, match=f"^{option}: "):
        window.parse(skip, limit, sample, warm_up=warm_up)


def test_that_this_computer_is_a_machine_is_said_to_whom_names_none() -> None:
    with pytest.raises(UsageError, match=r"unknown machine.* -m here is this computer"):
        options.machines("hree", None)


def test_what_is_wrong_in_a_machine_file_is_all_that_is_said(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('base = "dpt-paper"\n[core]\nghz = "fast"\n')
    with pytest.raises(UsageError, match="fast") as raised:
        options.machines(str(mine), None)
    assert "here" not in str(raised.value)
    mine.write_text("base = 5\n")
    with pytest.raises(UsageError, match=r"mine\.toml: base = 5 is not the name of a preset"):
        options.machines(str(mine), None)


def test_a_machine_file_that_can_be_read_once_only_is_refused(tmp_path: Path) -> None:
    fifo = tmp_path / "mine.toml"
    os.mkfifo(fifo)
    # Nobody writes: it is not opened.
    with pytest.raises(UsageError, match=r"mine\.toml is no regular file"):
        options.machines(str(fifo), None)
    sweep = file.Sweep(machine="mine.toml", vary={"workload": ["stream"]})
    with pytest.raises(UsageError, match=r"mine\.toml is no regular file"):
        plan.plan(sweep, tmp_path)
    # Names of presets need no file, and may be those of folders.
    assert options.machines("zen4", None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("tlb.l2_4k={entries=1073741824,ways=1}", "tlb.l2_4k.entries = 1073741824 is not between"),
        ("tlb.l2_4k={entries=4294967295,ways=1}", "tlb.l2_4k.entries = 4294967295 is not between"),
        ("caches.llc.kib=4000000000", "caches.llc.kib = 4000000000 is not between"),
        ("cores=1000000", "cores = 1000000 is not between 1 and 1024"),
        ("dram.latency_ns=1e300", "dram.latency_ns = 1e300 is not between"),
        ("memory.memory_bytes=256GiB", "memory.memory_bytes = 274877906944 .*128 GiB"),
        ("memory.utilisation=2", "memory.utilisation"),
        ("core.walkers=0", "core.walkers"),
    ],
)
def test_a_machine_that_cannot_be_made_is_a_mistake_on_the_command_line(
    change: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        options.machines("dpt-paper", [change])


@pytest.mark.parametrize(
    ("design", "machine", "said"),
    [
        ("radix:levels=6", "dpt-paper", "radix:levels=6: levels: 6 levels"),
        ("radix+victima", "zen4", "radix\\+victima: TLB entries cover a page each"),
    ],
)
def test_a_machine_that_cannot_be_built_is_said_before_a_program_runs(
    design: str, machine: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        api.check([design], machine=machine)
    api.check(["radix", "ideal"], machine=machine)
