"""What to type for pages of another size on Linux."""

import re
from pathlib import Path

from pagelab import units
from pagelab.results import Comparison, Run

_SETTINGS = Path("/sys/kernel/mm/transparent_hugepage")


def huge_pages() -> str | None:
    """The setting of transparent huge pages on this machine: always, madvise or never."""
    try:
        text = (_SETTINGS / "enabled").read_text(encoding="utf-8")
    except OSError:
        return None
    chosen = re.search(r"\[(\w+)\]", text)
    return chosen[1] if chosen else None


def to_have(comparison: Comparison, run: Run) -> list[str]:
    """What gives the program a run's pages; nothing where that takes another page table."""
    base = comparison.baseline
    if run.pages == base.pages or run.design != base.design:
        return []
    setting = comparison.host.get("transparent_hugepage")
    if run.pages == "1G":
        return [
            "To have them: the program maps them itself (MAP_HUGETLB, MAP_HUGE_1GB), of pages "
            "reserved with hugepagesz=1G hugepages=N at boot; Linux gives them in no other way."
        ]
    if run.pages == "madvise":
        if setting in ("always", "madvise"):
            return ["The program asks for them itself, and gets them with this machine's setting."]
        return [f"To have them, as root: echo madvise > {_SETTINGS}/enabled"]
    if run.pages == "2M":
        return _transparent(comparison, setting)
    kib = units.parse_size(run.pages) // 1024
    file = _SETTINGS / f"hugepages-{kib}kB/enabled"
    return [f"To have them, as root, with Linux 6.8 or later: echo always > {file}"]


def _transparent(comparison: Comparison, setting: str | None) -> list[str]:
    if setting == "always":
        return [f"This machine gives them already: {_SETTINGS}/enabled is always."]
    now = f" (it is {setting} now)" if setting else ""
    found = [f"To have them, as root, for all programs: echo always > {_SETTINGS}/enabled{now}"]
    if setting == "madvise" and comparison.command:
        found.append(
            "Or for this program alone, and only for what glibc's malloc gives it (2.35 or later): "
            f"GLIBC_TUNABLES=glibc.malloc.hugetlb=1 {Path(comparison.command[0]).name} ..."
        )
    return found
