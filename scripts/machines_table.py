"""The table of docs/machines.md, made from the presets themselves."""

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PRESETS = ROOT / "crates/machine/presets"
HEAD = [
    ("machine", "---"),
    ("GHz", "---:"),
    ("wide", "---:"),
    ("reorder, store, miss buffers", "---"),
    ("walkers", "---:"),
    ("misprediction", "---:"),
    ("first TLB 4K, 2M, 1G", "---"),
    ("pages an entry", "---:"),
    ("second TLB", "---"),
    ("cycles", "---:"),
    ("walk caches", "---"),
    ("L1", "---"),
    ("of code: TLB, L1", "---"),
    ("L2", "---"),
    ("last level", "---"),
    ("memory, ns in all", "---:"),
    ("GB/s", "---:"),
    ("prefetch", "---"),
]


def array(of: dict[str, Any] | None) -> str:
    """Entries and ways."""
    return f"{of['entries']}/{of['ways']}" if of else "shared"


def cache(of: dict[str, Any]) -> str:
    """Size, ways and cycles."""
    kib = of["kib"]
    size = f"{kib} K" if kib < 1024 else f"{kib / 1024:g} M"
    return f"{size}/{of['ways']}, {of['cycles']}"


def code(of: dict[str, Any] | None) -> str:
    """The first levels of instructions."""
    return f"{array(of['tlb'])}, {of['l1']['kib']} K/{of['l1']['ways']}" if of else "–"


def row(machine: dict[str, Any]) -> list[str]:
    """One machine's figures."""
    core, tlb, caches, dram = (machine[key] for key in ("core", "tlb", "caches", "dram"))
    in_all = caches["llc"]["cycles"] / core["ghz"] + dram["latency_ns"]
    walk_caches = machine["radix"]["pwc"]
    return [
        f"`{machine['name']}`",
        f"{core['ghz']:g}",
        str(core["width"]),
        f"{core['reorder_buffer']}, {core['store_buffer']}, {core['miss_buffers']}",
        str(core["walkers"]),
        str(core.get("misprediction", "–")),
        ", ".join(array(tlb.get(key)) for key in ("l1_4k", "l1_2m", "l1_1g")),
        str(tlb["l2_4k"].get("coalesce", 1)),
        array(tlb["l2_4k"]),
        str(tlb["l2_cycles"]),
        ", ".join(str(walk_caches[key]["entries"]) for key in ("pgd", "pud", "pmd")),
        cache(caches["l1"]),
        code(machine.get("fetch")),
        *(cache(caches[key]) for key in ("l2", "llc")),
        f"{in_all:.0f}",
        f"{dram['gigabytes_per_second']:g}",
        "yes" if "prefetch" in caches else "–",
    ]


def lines() -> list[str]:
    """The lines of the table."""
    machines = [tomllib.loads(path.read_text()) for path in sorted(PRESETS.glob("*.toml"))]
    rows = [[name for name, _ in HEAD], [align for _, align in HEAD], *map(row, machines)]
    return ["| " + " | ".join(cells) + " |" for cells in rows]
