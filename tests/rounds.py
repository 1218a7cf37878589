"""Made-up rounds of an advice, by what a setting truly gains."""

import random

from pagelab.advising.candidates import Candidate
from pagelab.advising.resident import Resident
from pagelab.advising.trials import Trial, Trials
from pagelab.measuring.native import Run

HUGE = 64 << 20


def made_up(
    source: random.Random, gain: float, noise: float, rounds: int = 20, pace: float = 1.0
) -> Trials:
    """Rounds of which each is slow or fast as a whole, and a setting `gain` times faster."""

    def rows(speed: float, huge: int, faults: int) -> tuple[list[Run], Resident]:
        times = [pace * source.lognormvariate(0, noise) / speed for pace in paces]
        runs = [Run(took, 0.0, took, faults) for took in times]
        return runs, Resident(2 * HUGE, huge)

    paces = [pace * source.uniform(1, 2) for _ in range(rounds)]
    made = [rows(1, 0, 10_000), rows(1, 0, 10_000), rows(gain, HUGE, 900)]
    names = ["unchanged", "again", "huge"]
    base, again, other = (
        Trial(Candidate(name, name), *of) for name, of in zip(names, made, strict=True)
    )
    return Trials(base, again, [other])
