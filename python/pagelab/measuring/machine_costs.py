"""Costs of the operating system's work in a preset, from a measurement.

A first touch has two prices where a hypervisor takes free memory back: that of memory which was in
use just before, and that of memory which lay idle and has to be given anew. A program that starts
finds idle memory, so that this is the price of huge pages; base pages come from small blocks,
which are seldom taken back.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pagelab.measuring.entry import BASE, HUGE, Entry
from pagelab.measuring.result import Estimate, Measurement
from pagelab.units import nanoseconds

_PARTS = HUGE // 4096


@dataclass(frozen=True)
class Touch:
    """Nanoseconds of a page's first touch, where some idle memory has to be given first.

    `idle` is the average of idle memory; `reused` is of memory in use just before, `given` of what
    had to be given.
    """

    idle: float
    reused: Estimate
    given: Estimate
    share: float

    def priced(self, ns: float) -> tuple[float, list[float]]:
        """A price that memory in use just before has, for idle memory, and both its ends."""
        longer = [of - self.reused.median for of in (self.reused.low, self.given.high)]
        return ns + self.idle - self.reused.median, [max(0.0, ns + more) for more in longer]


def idle(measurement: Measurement, size: str) -> Touch | None:
    """Times of idle memory in pages of a size, `base` or `huge`.

    None where that was not measured, or is as in memory in use just before.
    """
    raw = measurement.parts.get("idle")
    if raw is None or not raw["sizes"][size]["seen"]:
        return None
    pages, touches = _PARTS if size == "huge" else 1, raw["sizes"][size]

    def scaled(of: dict[str, Any]) -> Estimate:
        ends = {key: of[key] * pages for key in ("median", "low", "high")}
        return Estimate.model_validate(of | ends)

    return Touch(
        touches["idle_mean_ns"] * pages,
        scaled(touches["reused_ns"]),
        scaled(touches["given_ns"]),
        touches["given_share"],
    )


def first_touch(measurement: Measurement) -> str | None:
    """The price that first touches of huge pages have, and why, where there are two."""
    found = idle(measurement, "huge")
    if found is None:
        return None
    reused, given = found.reused.median, found.given.median
    return (
        "Memory is priced as a program finds it that starts after some seconds of idleness: a "
        f"huge page's first touch takes {nanoseconds(found.idle)}, since the host has taken back "
        f"{found.share:.0%} of it. It is {nanoseconds(reused)} where all was in use just before, "
        f"and {nanoseconds(given)} where the host has to give all."
    )


def entries(measurement: Measurement) -> Iterator[Entry]:
    """Costs of the operating system's work, from the parts faults and folios if they were run."""
    life: dict[str, Any] = measurement.parts.get("faults", {}).get("per_page_ns", {})
    if life:
        yield from _zeroing(measurement, list(_fault(life)))
        yield from _unmap(life)
    else:
        yield Entry("fault_ns", None, "open", f"not measured; {BASE}'s")
    sizes = measurement.parts.get("folios", {}).get("sizes", [])
    if sizes and sizes[0]["bytes"] == 4096:
        figures = sizes[0]["per_page_ns"]
        shared = figures["write_after_fork_child_alive"]["median"]
        alone = figures["write_after_fork_child_gone"]["median"]
        copy = max(1.0, shared - alone)
        what = "write fault with the child alive, less without"
        yield Entry("copy_4k_ns", f"{copy:.1f}", "measured", what)
        entry = figures["fork"]["median"]
        yield Entry("entry_ns", f"{max(0.1, entry):.1f}", "measured", "fork, a page")


def _fault(life: dict[str, Any]) -> Iterator[Entry]:
    """A fault, giving it a page, and zeroing that, from first touches of small and huge pages.

    A written small page's takes a fault, a page and one zeroing, a huge page's a fault, a page and
    512 zeroings; one that is only read takes a fault, which maps the page of zeros.
    """
    small = life["written"]["first_touch"]["median"]
    huge = life["written_huge"]["first_touch"]["median"] * _PARTS
    zero = (huge - small) / (_PARTS - 1)
    if 0 < zero < small:
        what = "first touch in a huge page, less a fault"
        yield Entry("zero_4k_ns", f"{zero:.1f}", "measured", what)
        written = small - zero
        read = life.get("read", {}).get("first_touch", {}).get("median", written)
        if read < written:
            yield Entry("fault_ns", f"{read:.1f}", "measured", "first touch that only reads")
            what = "first touch that writes, less a fault and the zeroing"
            yield Entry("give_ns", f"{written - read:.1f}", "measured", what)
        else:
            yield Entry("fault_ns", f"{written:.1f}", "measured", "first touch less the zeroing")
            yield Entry("give_ns", "0.0", "open", "not concluded; in fault_ns")
        return
    present = life["present_file"]["first_touch"]["median"]
    fault = min(present, life.get("read", {}).get("first_touch", {}).get("median", present))
    yield Entry("fault_ns", f"{fault:.1f}", "measured", "first touch that only reads")
    what = "first touch of a file's page there is, less a fault"
    yield Entry("give_ns", f"{present - fault:.1f}", "measured", what)
    zero = life["zeroing_in_user_mode"]["median"]
    yield Entry("zero_4k_ns", f"{zero:.1f}", "measured", "zeroing in user mode")


def _unmap(life: dict[str, Any]) -> Iterator[Entry]:
    """Taking an entry out and giving 4 KiB back, from the unmapping of small and of huge pages.

    A small page's takes one of each, a huge page's an entry and 512 times 4 KiB.
    """
    small = life["written"]["unmap"]["median"]
    huge = life["written_huge"]["unmap"]["median"] * _PARTS
    free = max(0.0, (huge - small) / (_PARTS - 1))
    if free > small / 2:
        # As where no huge page was had.
        yield Entry("unmap_ns", f"{small:.1f}", "measured", "munmap")
        yield Entry("free_4k_ns", "0.0", "open", "not concluded; in unmap_ns")
        return
    yield Entry("unmap_ns", f"{small - free:.1f}", "measured", "munmap, less what is given back")
    yield Entry("free_4k_ns", f"{free:.2f}", "measured", "munmap of a huge page, less an entry")


def _zeroing(measurement: Measurement, costs: list[Entry]) -> Iterator[Entry]:
    """The costs of a fault, with zeroing as it is in idle memory.

    The part faults uses its memory again, so that its figures are those of memory in use.
    """
    zero = next(float(of.value or 0) for of in costs if of.key == "zero_4k_ns")
    prices = {"zero_4k": (zero, "base"), "zero_2m": (_PARTS * zero, "huge")}
    found = {key: idle(measurement, size) for key, (_, size) in prices.items()}
    yield from (of for of in costs if of.key != "zero_4k_ns" or not found["zero_4k"])
    if "idle" in measurement.parts and not any(found.values()):
        seen = "not seen: idle memory takes no longer; 512 zero_4k_ns"
        yield Entry("zero_2m_ns", None, "measured", seen)
    if not any(found.values()):
        return
    for key, (ns, _) in prices.items():
        touch = found[key]
        if touch is None:
            if key == "zero_2m":
                yield Entry("zero_2m_ns", f"{ns:.0f}", "measured", "as in memory in use")
            continue
        price, ends = touch.priced(ns)
        what = f"in memory that lay idle, of which a host had taken back {touch.share:.0%}"
        yield Entry(f"{key}_ns", f"{price:.1f}", "measured", what)
        between = ", ".join(f"{end:.1f}" for end in ends)
        what = "in memory in use just before, and where the host has to give all of it"
        yield Entry(f"{key}_between_ns", f"[{between}]", "measured", what)
