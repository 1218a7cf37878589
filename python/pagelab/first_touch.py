"""Change of a result with what a first touch of a huge page takes.

Where a hypervisor takes free memory back, that is several times more in memory which lay idle than
in memory which was in use just before. A machine that was measured has the price of the first and
both ends (`cost.zero_2m_ns`, `zero_2m_between_ns`); time is linear in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagelab import units

if TYPE_CHECKING:
    from pagelab.results import Comparison, Run


def gains(comparison: Comparison, run: Run) -> tuple[float, float] | None:
    """The least and the most speed that a run gains; `None` where there is one price.

    The least is where a hypervisor has to give the memory of all huge pages first, the most where
    memory was in use just before.
    """
    base = comparison.baseline_of(run)
    between = base.machine["cost"].get("zero_2m_between_ns")
    if not between or not run.complete or not run.os.anonymous.large:
        return None
    now = comparison.relative_time(run)
    least = 1 / (now * _factor(run, {"zero_2m": between[1]})) - 1
    in_use = _in_use(base)
    most = _factor(base, in_use) / (now * _factor(run, in_use)) - 1
    return least, most


def caveat(comparison: Comparison) -> str:
    """Between which speeds the best run with huge pages is; empty where there is one price."""
    base = comparison.baseline
    runs = [run for run in comparison.runs if run.design != "ideal" and run.pages != base.pages]
    best = max(runs, key=comparison.speedup, default=None)
    found = gains(comparison, best) if best is not None else None
    if best is None or found is None or decides(found):
        return ""
    return f"{comparison.label(best)} is {told(found)} (pagelab measure idle)."


def decides(found: tuple[float, float]) -> bool:
    """True if a program gains or loses by what its first touches take."""
    return found[0] < 0 < found[1]


def told(found: tuple[float, float]) -> str:
    """Both ends in words."""
    least, most = map(_speed, found)
    return (
        f"{least} where a hypervisor has to give the memory of all huge pages first, and {most} "
        "where memory was in use just before"
    )


def _in_use(run: Run) -> dict[str, float]:
    """Costs of zeroing in memory that was in use just before."""
    cost = run.machine["cost"]
    between = {key: cost.get(f"{key}_between_ns") for key in ("zero_4k", "zero_2m")}
    return {key: ends[0] for key, ends in between.items() if ends}


def _factor(run: Run, prices: dict[str, float]) -> float:
    """A run's time in relation to what it is now, if zeroing pages takes so long."""
    cost, pages = run.machine["cost"], run.os.anonymous
    zero_4k = cost["zero_4k_ns"]
    now = {"zero_4k": zero_4k, "zero_2m": cost.get("zero_2m_ns", 512 * zero_4k)}
    then = now | prices
    times = [of["zero_4k"] * pages.base + of["zero_2m"] * pages.large for of in (now, then)]
    return 1.0 + run.share("zeroing") * float(times[1] / times[0] - 1) if times[0] else 1.0


def _speed(speedup: float) -> str:
    return f"{units.percent(abs(speedup))} {'faster' if speedup >= 0 else 'slower'}"
