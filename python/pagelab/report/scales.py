"""Axis ticks, and positions along an axis as percentages."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis, in percent from its start."""

    at: float
    label: str


def linear_ticks(top: float, wanted: int = 4) -> list[float]:
    """Round values from 0 up to the first that is not below `top`."""
    if top <= 0:
        return [0.0, 1.0]
    step = _round_step(top / wanted)
    return [i * step for i in range(math.ceil(top / step - 1e-9) + 1)]


def binary_ticks(top: float, wanted: int = 4) -> list[float]:
    """As `linear_ticks`, for bytes: round in the binary unit that `top` is read in."""
    unit = 1024.0 ** max(0, math.floor(math.log(top, 1024))) if top >= 1 else 1.0
    return [tick * unit for tick in linear_ticks(top / unit, wanted)]


def short(text: str) -> str:
    """A tick's label without needless zeros: `3 GiB` for `3.00 GiB`."""
    number, space, unit = text.partition(" ")
    number = number.rstrip("0").rstrip(".") if "." in number else number
    return "0" if number == "0" else number + space + unit


def _round_step(raw: float) -> float:
    magnitude = 10.0 ** math.floor(math.log10(raw))
    return next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= raw * (1 - 1e-9))
