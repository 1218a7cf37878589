"""Advice on Linux's settings for pages of another size."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from pagelab import units
from pagelab.answer import Advice
from pagelab.pages import RESERVED

if TYPE_CHECKING:
    from pagelab.results import Comparison, Run

SETTINGS = Path("/sys/kernel/mm/transparent_hugepage")


def huge_pages() -> str | None:
    """The setting of transparent huge pages on this machine: always, madvise or never."""
    try:
        text = (SETTINGS / "enabled").read_text(encoding="utf-8")
    except OSError:
        return None
    chosen = re.search(r"\[(\w+)\]", text)
    return chosen[1] if chosen else None


def to_have(comparison: Comparison, run: Run) -> list[Advice]:
    """Settings that give the program a run's pages; nothing where that takes another page table."""
    base = comparison.baseline
    if run.pages == base.pages or run.design != base.design:
        return []
    setting = comparison.host.get("transparent_hugepage")
    if run.pages == "1G":
        words = (
            "To have them the program maps them itself (MAP_HUGETLB, MAP_HUGE_1GB), of pages "
            "reserved at boot (hugepagesz=1G hugepages=N); Linux gives them in no other way."
        )
        return [Advice(words=words)]
    if run.pages in RESERVED:
        return [Advice(words="Linux reserves no blocks for programs; FreeBSD does.")]
    if run.pages == "madvise":
        if setting in ("always", "madvise"):
            words = f"This machine gives them already: {SETTINGS}/enabled is {setting}."
            return [Advice(words=words)]
        return [_setting("for all programs that ask", "madvise", SETTINGS / "enabled", setting)]
    if run.pages == "2M":
        return _transparent(comparison, setting)
    files = [
        SETTINGS / f"hugepages-{units.parse_size(size) // 1024}kB/enabled"
        for size in run.pages.split("+")
    ]
    return [_setting("for all programs, with Linux 6.8 or later", "always", file) for file in files]


def _setting(whom: str, value: str, file: Path, now: str | None = None) -> Advice:
    known = f" (it is {now} now)" if now else ""
    return Advice(words=f"To have them {whom}, as root{known}:", command=f"echo {value} > {file}")


def _transparent(comparison: Comparison, setting: str | None) -> list[Advice]:
    if setting == "always":
        words = f"This machine gives them already: {SETTINGS}/enabled is always."
        return [Advice(words=words)]
    found = [_setting("for all programs", "always", SETTINGS / "enabled", setting)]
    if setting == "madvise" and comparison.command:
        command = shlex.join([*comparison.command])
        found.append(
            Advice(
                words="Or for this one, in what glibc's malloc (2.35 or later) gives it, which may "
                "gain more or less (pagelab advise tries it):",
                command=f"GLIBC_TUNABLES=glibc.malloc.hugetlb=1 {command}",
            )
        )
    return found
