"""A recorded measurement, and curves to put into it."""

from itertools import pairwise
from pathlib import Path
from typing import Any

from pagelab.measuring import levels

RECORDED = Path(__file__).parent / "measure" / "data" / "zen5-guest.json"

KIB = 1024 // levels.LINE


def curve(steps: list[tuple[int, float]], last: int) -> dict[str, Any]:
    """A curve that is flat at each level up to its size, as the probe writes it."""
    x = [round(16 * 2 ** (i / 8)) for i in range(400) if 16 * 2 ** (i / 8) <= last]

    def level(places: int) -> float:
        return next(ns for size, ns in steps if places <= size)

    ns = [level(places) for places in x]
    firsts = [next(p for p in x if level(p) == ns_of) for _, ns_of in steps]
    lasts = [max(p for p in x if level(p) == ns_of) for _, ns_of in steps]
    plateaus = [
        {"first": first, "last": end, "level": ns_of}
        for first, end, (_, ns_of) in zip(firsts, lasts, steps, strict=True)
    ]
    found = [
        {
            "before": low["last"],
            "after": high["first"],
            "low": low["level"],
            "high": high["level"],
            "confidence": 1.0,
            "fit": None,
            "nominal": None,
            "no_conclusion": "not fitted",
        }
        for low, high in pairwise(plateaus)
    ]
    return {
        "curve": {"x": x, "ns": ns, "low": ns, "high": ns},
        "plateaus": plateaus,
        "steps": found,
    }
