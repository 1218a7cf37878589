"""Settings of the whole system, as the kernel has them while they are tried and afterwards."""

import os
from pathlib import Path

import pytest

from pagelab.errors import PagelabError
from pagelab.measuring.kernel_settings import KernelSettings

THP = Path("/sys/kernel/mm/transparent_hugepage")
RESERVED = Path("/proc/sys/vm/nr_hugepages")

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not os.access(THP / "enabled", os.W_OK), reason="needs root, and THP"
)


def _now() -> tuple[str, ...]:
    files = (THP / "enabled", THP / "defrag", THP / "khugepaged" / "max_ptes_none", RESERVED)
    return tuple(file.read_text(encoding="ascii") for file in files)


def test_each_set_is_whole_and_all_is_as_it_was_at_the_end() -> None:
    before = _now()
    with KernelSettings() as kernel:
        kernel.set(("thp=always", "thp-max-ptes-none=0"))
        enabled, defrag, none, _ = _now()
        assert "[always]" in enabled
        assert int(none) == 0
        assert defrag == before[1]
        kernel.set(("thp-defrag=never", f"huge-pages={int(before[3]) + 2}"))
        enabled, defrag, none, reserved = _now()
        assert (enabled, none) == (before[0], before[2])
        assert "[never]" in defrag
        assert int(reserved) == int(before[3]) + 2
    assert _now() == before


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("swappiness=1", "no such setting"),
        ("thp=sometimes", "transparent_hugepage/enabled"),
        ("huge-pages=many", "nr_hugepages"),
        ("folio-kib=3", "this kernel has pages of"),
    ],
)
def test_what_cannot_be_set_is_said_and_undone(setting: str, text: str) -> None:
    before = _now()
    with KernelSettings() as kernel, pytest.raises(PagelabError, match=text):
        kernel.set(("thp-defrag=never", setting))
    assert _now() == before
