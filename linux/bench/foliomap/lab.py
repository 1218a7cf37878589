# SPDX-License-Identifier: GPL-2.0
"""What the benchmarks in Python have in common."""

import json
from pathlib import Path

MTHP = Path("/sys/kernel/mm/transparent_hugepage")
SIZES_KB = [4, 16, 32, 64, 128, 256, 512, 1024, 2048]
PAGE = 4096


def allow(folio_kb: int) -> None:
    """Let anonymous memory have folios of this size and single pages, nothing else."""
    for control in MTHP.glob("hugepages-*/enabled"):
        size = int(control.parent.name.removeprefix("hugepages-").removesuffix("kB"))
        control.write_text("always" if size == folio_kb else "never")


def report(bench: str, folio_kb: int, units: int, ns: int, copies: int) -> None:
    """Print one sample; `units` is what time and copies are divided by."""
    sample = {"bench": bench, "folio_kb": folio_kb, "pages": units, "ns": ns, "copies": copies}
    print(json.dumps(sample), flush=True)
