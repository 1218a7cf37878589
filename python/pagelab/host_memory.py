"""Ways in which this machine gives idle memory back, by what its kernel shows in /sys.

A guest's free memory is its host's again then, and has to be given anew at the next first touch.
"""

from dataclasses import dataclass
from pathlib import Path

from pagelab import units

# Device numbers of the virtio specification (1.3, section 5), and the bit of a balloon that
# reports free pages (5.5.3).
_BALLOON, _MEMORY = 5, 24
_REPORTING = 5
# Default of the kernel's parameter: no device reports (mm/page_reporting.c; MAX_PAGE_ORDER is 10).
_LARGEST_ORDER = 10


@dataclass(frozen=True)
class Way:
    """A way in which memory goes, and what that means for huge pages."""

    name: str
    meaning: str


def ways(root: Path = Path("/")) -> list[Way]:
    """The ways that are on."""
    found = []
    order = _number(root / "sys/module/page_reporting/parameters/page_reporting_order")
    devices = list((root / "sys/bus/virtio/devices").glob("*"))
    balloons = [path for path in devices if _number(path / "device") == _BALLOON]
    if order is not None and order <= _LARGEST_ORDER and _reports(root, balloons):
        found.append(
            Way(
                f"free page reporting, blocks of {units.size(4096 << order)} and more",
                "the host takes back what was free for some seconds: a huge page's first touch "
                "then waits for it",
            )
        )
    balloons = [path for path in balloons if (path / "driver").exists()]
    others = ("vmw_balloon", "hv_balloon", "xen_balloon")
    named = [name for name in others if (root / "sys/module" / name).is_dir()]
    if balloons or named:
        found.append(
            Way(
                f"a balloon ({', '.join(named) or 'virtio'})",
                "the host may take memory at any time: there may be no free block for a huge page",
            )
        )
    if any(_number(path / "device") == _MEMORY for path in devices):
        found.append(
            Way(
                "virtio-mem",
                "the host plugs and unplugs memory in blocks: huge pages there are moved away",
            )
        )
    if _text(root / "sys/module/damon_reclaim/parameters/enabled") in ("Y", "1"):
        found.append(
            Way(
                "DAMON's reclaim",
                "pages that were not used for long are paged out, huge ones in pieces",
            )
        )
    return found


def _reports(root: Path, balloons: list[Path]) -> bool:
    """True if there is a device that free pages are reported to: a balloon, or Hyper-V's."""
    bits = [_text(path / "features") or "" for path in balloons]
    return (
        any(bit[_REPORTING : _REPORTING + 1] == "1" for bit in bits)
        or (root / "sys/module/hv_balloon").is_dir()
    )


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


def _number(file: Path) -> int | None:
    text = _text(file)
    try:
        return None if text is None else int(text, 0)
    except ValueError:
        return None
