"""Made-up results: plausible, self-consistent, and in no way the output of the simulator.

They let the report and the tables be tested without running anything.
"""

import json
import math
import random
from functools import cache
from typing import Any

from pagelab import _core, results

GIB = 2**30

# Per design: mean walk latency, memory references a walk, PTE share served by DRAM.
_DESIGNS = {
    "radix": (98.0, 1.71, 0.42),
    "radix5": (104.0, 1.78, 0.44),
    "dpt": (61.0, 1.04, 0.31),
    "ideal": (0.0, 0.0, 0.0),
}


def _zeros(schema: dict[str, Any]) -> dict[str, int]:
    """Counters that are nothing here unless something else is said."""
    kinds = schema["properties"].items()
    return {
        key: 0 for key, of in kinds if key in schema["required"] and of.get("type") == "integer"
    }


def _histogram(mean: float, count: int) -> list[list[int]]:
    """Walks by latency: a hump of cache hits and one of DRAM references."""
    if mean == 0:
        return []
    bounds = sorted({round(2 ** (step / 4)) for step in range(8, 44)})
    weights = [
        0.6 * math.exp(-(((math.log2(bound) - math.log2(mean / 2.2)) / 0.7) ** 2))
        + 0.3 * math.exp(-(((math.log2(bound) - math.log2(mean * 2.6)) / 0.5) ** 2))
        for bound in bounds
    ]
    total = sum(weights)
    counts = [round(count * weight / total) for weight in weights]
    counts[counts.index(max(counts))] += count - sum(counts)
    return [[bound, n] for bound, n in zip(bounds, counts, strict=True) if n]


def run(
    design: str = "radix", *, complete: bool = True, accesses: int = 200_000_000
) -> dict[str, Any]:
    """The JSON of one run."""
    mean, reads_per_walk, dram = _DESIGNS[design]
    instructions = accesses * 3
    walks = 0 if design == "ideal" else accesses // 90
    translation = round(walks * mean * 0.72)
    compute, data, faults = accesses * 6 // 10, accesses * 11 // 20, accesses // 40
    migrations = accesses // 400 if design == "dpt" else 0
    zeroing = accesses // 80
    total = compute + data + translation + faults + zeroing + migrations
    reads = round(walks * reads_per_walk)
    random.seed(design)
    peak = 3 * GIB
    table = {"radix": 6_400_000, "radix5": 6_404_096, "dpt": 6_310_000, "ideal": 0}[design]
    points = 120
    timeline = [
        {
            "instructions": instructions * i // points,
            "cycles": total * i // points,
            "resident_bytes": round(peak * min(1.0, (i / points * 1.6) ** 0.8)) // 4096 * 4096,
            "table_bytes": round(table * min(1.0, (i / points * 1.6) ** 0.8)) // 4096 * 4096,
        }
        for i in range(1, points + 1)
    ]
    schema = json.loads(_core.run_schema())
    return {
        **_zeros(schema),
        "schema": results.RUN,
        "complete": complete,
        "stopped": None if complete else "interrupted",
        "out_of_memory": False,
        "design": design,
        "page_table": design,
        "tlb_design": "conventional",
        "machine": json.loads(_core.machine("dpt-paper", [])),
        "source": {"kind": "trace", "name": "sqlite3"},
        "instructions": instructions,
        "accesses": accesses,
        "loads": accesses * 7 // 10,
        "stores": accesses - accesses * 7 // 10,
        "cycles": {
            "elapsed": total,
            "total": total,
            "compute": compute,
            "data": data,
            "translation": translation,
            "mispredictions": 0,
            "fetch": 0,
            "faults": faults,
            "zeroing": zeroing,
            "migrations": migrations,
            "frequency_hz": 2.0e9,
        },
        "tlb": {
            "lookups": accesses,
            "l1_misses": accesses // 30,
            "l2_misses": walks,
            "l1_mpki": accesses / 30 / instructions * 1000,
            "l2_mpki": walks / instructions * 1000,
        },
        "walks": {
            "count": walks,
            "latency": {
                "mean": mean,
                "p50": round(mean * 0.6),
                "p90": round(mean * 2.4),
                "p99": round(mean * 3.6),
                "max": round(mean * 9),
                "histogram": _histogram(mean, walks),
            },
            "reads": reads,
            "served_by": {
                "l1": round(reads * 0.12),
                "l2": round(reads * (0.58 - dram)),
                "llc": round(reads * 0.30),
                "dram": reads
                - round(reads * 0.12)
                - round(reads * (0.58 - dram))
                - round(reads * 0.30),
            },
            "metadata_served_by": {"l1": 0, "l2": 0, "llc": 0, "dram": 0},
            "mean_with_wait": mean + 1 / 9,
            "walker_wait": walks // 9,
            "cache_lookups": walks,
            "cache_hits": walks * 9 // 10,
        },
        "caches": {
            "data": {
                "l1": accesses * 8 // 10,
                "l2": accesses // 10,
                "llc": accesses // 20,
                "dram": accesses // 20,
            },
            "l1_mpki": 66.7,
            "l2_mpki": 33.3,
            "llc_mpki": 16.7,
        },
        "dram": {
            "reads": accesses // 729,
            "writes": accesses // 2000,
            "queue_cycles": 9,
        },
        "os": {
            **_zeros(schema["$defs"]["OsStatistics"]),
            **{name: {"4K": 0, "2M": 0, "1G": 0} for name in ("file", "populated", "splits")},
            "anonymous": {"4K": peak // 4096, "2M": 0, "1G": 0},
            "memory_bytes": 8 * GIB,
            "free_blocks": [0] * 10 + [600],
            "unusable_free_space_index": 0.25,
            "faults": peak // 4096,
            "resident_bytes": peak,
            "peak_resident_bytes": peak,
            "table_bytes": table,
            "peak_table_bytes": table,
            "pages_migrated": 4100 if design == "dpt" else 0,
            "preallocated_bytes": 2 * GIB,
            "free_2m_blocks": 1200,
            "outside": {
                **dict.fromkeys(("faults", "zero_pages"), 0),
                **{name: {"4K": 0, "2M": 0, "1G": 0} for name in ("anonymous", "file")},
            },
        },
        "design_counters": {"tag_misses": 17} if design == "dpt" else {},
        "tlb_counters": {"fills": 29} if design == "dpt" else {},
        "windows": [],
        "timeline": timeline,
        "free_2m_blocks": 1200,
        "memory_map": _memory_map(design),
        "heat_map": heat_map(missing=design != "ideal"),
        "host": {"seconds": 12.5, "accesses_per_second": accesses / 12.5},
    }


def heat_map(*, missing: bool = True) -> dict[str, Any]:
    """A heap that is walked twice, a stack, and a mapping with a hole that is used at random."""
    columns, size = 200, 2**25
    drawn = random.Random(1)

    def row(kind: str, block: int, accesses: list[int], misses: float) -> dict[str, Any]:
        missed = [round(count * misses) for count in accesses] if missing and misses else []
        first = next(column for column, count in enumerate(accesses) if count)
        faults = [8192 if column == first else 0 for column in range(columns)]
        return {
            "kind": kind,
            "address": block * size,
            "accesses": accesses,
            "l2_tlb_misses": missed,
            "faults": faults,
        }

    heap = [
        row("heap", 2730 + i, [400_000 * (c % 100 // 4 == i) for c in range(columns)], 0.002)
        for i in range(25)
    ]
    stack = [row("stack", 4_194_303, [500_000] * columns, 0)]
    places = [i for i in range(64) if not 20 <= i < 30]
    mapped = [
        row("anonymous", 4_100_000 + i, [drawn.randrange(2000) for _ in range(columns)], 0.9)
        for i in places
    ]
    return {
        "accesses_per_column": 2**20,
        "bytes_per_row": size,
        "rows": heap + stack + mapped,
    }


def _memory_map(design: str) -> list[dict[str, int]]:
    """8 GiB in 2,048 cells of 4 MiB: used from the bottom, tables clustered or spread."""
    frames, cells = 1024, []
    for i in range(2048):
        fill = 1.0 if i < 600 else max(0.0, 1 - (i - 600) / 300) * random.random()
        tables = 0
        if design.startswith("radix") and 20 < i < 90 and i % 3 == 0:
            tables = 60
        if design == "dpt":
            tables = random.choice([0, 0, 0, 1, 2])
        preallocated = round(frames * 0.25 * random.random())
        data = round((frames - tables - preallocated) * fill)
        free = frames - tables - preallocated - data
        cells.append({"free": free, "data": data, "tables": tables, "preallocated": preallocated})
    return cells


def recording(**changes: Any) -> dict[str, Any]:
    """The JSON of a recording of such a program."""
    return {
        "accesses": 200_000_000,
        "instructions": 600_000_000,
        "bytes": 420_000_000,
        "exit_status": 0,
        "signal": None,
        "ended_by": None,
        "incomplete": None,
        "notes": [],
        "seconds": 14.2,
        "running_seconds": None,
        "processes": 1,
        "threads": 1,
        "programs": 1,
        "unrecorded": {},
        "refused": [],
        "words": None,
        "limited": False,
        **changes,
    }


def comparison(*designs: str, **changes: Any) -> dict[str, Any]:
    """The JSON of a comparison of these designs (radix, dpt and ideal when none is named)."""
    return {
        "schema": results.COMPARISON,
        "pagelab": "0.1.0",
        "created": "2026-01-02T03:04:05+00:00",
        "name": "sqlite3",
        "command": ["sqlite3", ":memory:", ".read index.sql"],
        "recording": recording(),
        "window": {"skip": 0, "limit": None, "sample": None},
        "host": {"cpu": "an example CPU", "cores": 2, "kernel": "Linux 6.12"},
        "runs": [run(design) for design in (designs or ("radix", "dpt", "ideal"))],
        **changes,
    }


def window(**counters: int) -> dict[str, Any]:
    """One window of a sampled run, with its other counters 0, and nothing left out behind it."""
    return {**_window(), "after": gap(), **counters}


@cache
def _window() -> dict[str, int]:
    return _zeros(json.loads(_core.run_schema())["$defs"]["WindowResult"])


def gap(**counters: int) -> dict[str, int]:
    """The part left out behind a window, with its other counters 0."""
    return dict.fromkeys(("instructions", "faults", "zeroing", "migrations"), 0) | counters
