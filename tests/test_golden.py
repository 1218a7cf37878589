"""The module as people have it computes what the machine's own tests have on record.

Those run a build without wide vectors (`dispatch_released!` in crates/memory/src/simd.rs).
"""

import json
from pathlib import Path

import pytest

from pagelab import _core
from pagelab.sources import Workload
from pagelab.window import Window

GOLDEN = Path(__file__).parent.parent / "crates/machine/tests/golden"
PARAMETERS = {
    "random-updates": {"footprint": "8MiB", "updates": "3000"},
    "pointer-chase": {"pages": "300", "loads": "3000"},
}


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_the_module_gives_the_recorded_statistics(path: Path) -> None:
    workload, design = path.stem.split(".", 1)
    source = Workload(workload, PARAMETERS[workload]).describe(Window())
    overrides = (GOLDEN / "overrides").read_text().splitlines()
    text = _core.simulate(design, "dpt-paper", overrides, json.dumps(source), lambda *_: True)
    got, recorded = json.loads(text), json.loads(path.read_text())
    for long in ("memory_map", "timeline"):
        got[long] = len(got[long])
    # Of most runs some sections are on record.
    assert {section: got[section] for section in recorded} == recorded
