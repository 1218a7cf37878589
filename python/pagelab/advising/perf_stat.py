"""Events by which `perf stat` shows what a setting does, with the counts that the model expects.

Names are those of Linux' tools/perf/pmu-events: skylakex, icelakex, sapphirerapids and alderlake
(virtual-memory.json), amdzen2 to amdzen5 (memory.json, load-store.json), neoverse-v1 and -n2-v2
(tlb.json). The model has no accesses of the kernel, so that counters leave those out (`:u`).
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pagelab import sampling
from pagelab.measuring import kind
from pagelab.results import Run


def _walks(run: Run) -> float:
    """Page walks for data, those that end in a fault included."""
    return _whole(run, "walks", run.walks.count) * _for_data(run)


def _cycles(run: Run) -> float:
    """Cycles of all page walks."""
    return _whole(run, "walk_cycles", run.walks.count * run.walks.latency.mean)


def _whole(run: Run, counter: str, measured: float) -> float:
    """A count of the whole program, of a sample estimated."""
    return measured if run.sample is None else run.sample.total(sampling.of(counter))


def _for_data(run: Run) -> float:
    """The share of walks that is not for instructions."""
    if run.fetch is None or not run.walks.count:
        return 1.0
    return 1 - run.fetch.walks / run.walks.count


@dataclass(frozen=True)
class Event:
    """Events whose sum is one figure of the model; `pattern` is all of their names."""

    pattern: str
    names: tuple[str, ...]
    expected: Callable[[Run], float]


def _user(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}:u" for name in names)


_FAULTS = Event("page-faults", ("page-faults",), lambda run: float(run.os.faults))
_OF_INTEL = (
    Event(
        "dtlb_*_misses.walk_completed",
        _user("dtlb_load_misses.walk_completed", "dtlb_store_misses.walk_completed"),
        _walks,
    ),
    # One a cycle and walker, as latencies add up; `walk_active` counts walks at a time once.
    Event(
        "*tlb_*misses.walk_pending",
        _user(
            "dtlb_load_misses.walk_pending",
            "dtlb_store_misses.walk_pending",
            "itlb_misses.walk_pending",
        ),
        _cycles,
    ),
)
_OF_ZEN = (
    Event(
        "ls_l1_d_tlb_miss.*_miss",
        _user(
            "ls_l1_d_tlb_miss.tlb_reload_4k_l2_miss",
            "ls_l1_d_tlb_miss.tlb_reload_coalesced_page_miss",
            "ls_l1_d_tlb_miss.tlb_reload_2m_l2_miss",
        ),
        _walks,
    ),
)
_OF_NEOVERSE = (Event("dtlb_walk", _user("dtlb_walk"), _walks),)
_BY_PRESET = {
    **dict.fromkeys(("skylake-sp", "ice-lake-sp", "sapphire-rapids", "golden-cove"), _OF_INTEL),
    **dict.fromkeys(("zen2", "zen3", "zen4", "zen5"), _OF_ZEN),
    **dict.fromkeys(("neoverse-v1", "neoverse-v2"), _OF_NEOVERSE),
}


def events(machine: str) -> list[Event]:
    """The events of a machine: a preset's by its name, of others this processor's, if known."""
    of_here, known = kind.preset(kind.processor())
    found = _BY_PRESET.get(machine, _BY_PRESET.get(of_here, ()) if known else ())
    return [_FAULTS, *found]


def command(found: Sequence[Event], program: Sequence[str]) -> str:
    """The command line that counts them."""
    names = ",".join(name for event in found for name in event.names)
    return f"perf stat -e {names} -- {shlex.join(program)}"


def expected(found: Sequence[Event], runs: Mapping[str, Run]) -> dict[str, dict[str, float]]:
    """Counts by the pattern of events and the setting."""
    return {
        event.pattern: {name: round(event.expected(run)) for name, run in runs.items()}
        for event in found
    }
