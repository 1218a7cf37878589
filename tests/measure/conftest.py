"""Measurements that presets are made of."""

import json

import pytest

from measurements import KIB, RECORDED, curve
from pagelab.measuring import result
from pagelab.measuring.result import Measurement


@pytest.fixture(scope="module")
def measurement() -> Measurement:
    return result.load(RECORDED)


@pytest.fixture
def zen4_guest(measurement: Measurement) -> Measurement:
    """3 MiB of a last level, of which 32 MiB are claimed; no conclusion on the second TLB level."""
    parts = json.loads(json.dumps(measurement.parts))
    shape = [(48 * KIB, 0.9), (1024 * KIB, 3.2), (3072 * KIB, 13.0), (1 << 62, 150.0)]
    parts["caches"]["lines"] = curve(shape, 128 * 1024 * KIB)
    tlb = curve([(72, 3.0), (2900, 4.6), (1 << 62, 25.0)], 50_000)
    fit = {"shape": "random_replacement", "misfit": 0.04, "capacity": 2900}
    tlb["steps"][0] |= {"nominal": 72, "no_conclusion": None}
    tlb["steps"][0]["fit"] = fit | {"capacity": 72, "capacity_low": 72, "capacity_high": 72}
    tlb["steps"][1] |= {"before": 2300, "after": 3900, "nominal": 3072}
    tlb["steps"][1]["fit"] = fit | {"capacity_low": 2648, "capacity_high": 3311}
    parts["tlb"] |= {"small": tlb, "associativity": None}
    parts["tlb"]["claimed"] = [
        {"level": 1, "pages": "4K", "entries": 72, "ways": 0},
        {"level": 2, "pages": "4K", "entries": 3072, "ways": 12},
    ]
    return measurement.model_copy(update={"parts": parts})
