"""Bounds on a slowdown: boots without and with a design in turn, compared pair by pair.

Times drift with what else the machine does, and so do counts of instructions, which have those of
timer interrupts. It only ever adds, so a boot stands for its fastest round; boots that follow each
other share most of it, so their ratio scatters less than the times do. The interval is the one of
the sign test: it needs no assumption about how ratios are distributed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from statistics import geometric_mean, median

from pagelab.errors import PagelabError
from pagelab.linux.experiment import Sample, Samples, Table, section

_TAIL = 0.025  # of 95 %, on either side


@dataclass(frozen=True)
class Ratio:
    """On over off: the median of the pairs, and its 95 % confidence interval."""

    median: float
    low: float
    high: float

    def at_most(self, bound: float) -> bool | None:
        """Whether it is no more than the bound; None if the interval does not tell."""
        if self.high <= bound:
            return True
        return False if self.low > bound else None


@dataclass(frozen=True)
class Row:
    """One folio size, or all large ones together: medians of boots, and the pairs' ratio."""

    name: str
    off: float
    on: float
    ratio: Ratio


def interval(ratios: Sequence[float]) -> Ratio:
    """The median and its interval, from as many pairs.

    The k-th smallest and the k-th largest of n enclose the median unless fewer than k of n fair
    coins fall on one side; k is the largest for which that is improbable.

    Raises:
        PagelabError: there are fewer than six: not even the extremes enclose it with 95 %.

    """
    ordered, n = sorted(ratios), len(ratios)
    outside, k = 0.0, 0
    while (outside := outside + comb(n, k) / 2**n) <= _TAIL:
        k += 1
    if k == 0:
        raise PagelabError(f"{n} pairs of boots are too few for an interval: at least 6")
    return Ratio(median(ordered), ordered[k - 1], ordered[-k])


def rows(table: Table, samples: Samples) -> list[Row]:
    """A row a folio size, and one of the large folios' geometric mean; none if nothing was run."""
    off, on = (_by_boot(table, samples[which]) for which in (False, True))
    pairs = list(zip(off, on, strict=True))
    if not pairs:
        return []
    sizes = sorted(pairs[0][0])
    large = [size for size in sizes if size > 4]
    found = [_row(f"{size} KB", [(off[size], on[size]) for off, on in pairs]) for size in sizes]
    means = [tuple(geometric_mean(side[size] for size in large) for side in pair) for pair in pairs]
    return [*found, _row("all but 4 KB", [(off, on) for off, on in means])]


def _by_boot(table: Table, samples: list[Sample]) -> list[dict[int, float]]:
    """The fastest round by folio size, of every boot in order."""
    boots: dict[int, dict[int, float]] = {}
    for sample in samples:
        if (sample.suite, sample.bench) == (table.suite, table.bench):
            fastest = boots.setdefault(sample.boot, {})
            unit = sample.time / sample.pages
            fastest[sample.folio_kb] = min(unit, fastest.get(sample.folio_kb, unit))
    return [boots[boot] for boot in sorted(boots)]


def _row(name: str, pairs: list[tuple[float, float]]) -> Row:
    return Row(
        name,
        median(off for off, _ in pairs),
        median(on for _, on in pairs),
        interval([on / off for off, on in pairs]),
    )


def render(table: Table, samples: Samples) -> str:
    """The table as Markdown, with what its intervals say about the paper's bound."""
    if table.at_most is None or not (measured := rows(table, samples)):
        return ""
    taken = [sample for sample in samples[False] if sample.suite == table.suite]
    counted = all(sample.instructions is not None for sample in taken)
    words = {True: "yes", False: "no", None: "undecided"}
    lines = [
        [
            row.name,
            f"{row.off:.1f}",
            f"{row.on:.1f}",
            f"{row.ratio.median:.4f}",
            f"{row.ratio.low:.4f} to {row.ratio.high:.4f}",
            words[row.ratio.at_most(table.at_most)],
        ]
        for row in measured
    ]
    return section(
        table.title,
        f"Paper: {table.paper_says}. Below: {'instructions' if counted else 'ns'} per "
        f"{table.unit}, medians of the boots' fastest rounds; the median ratio of boots that "
        "followed each other, with its 95 % interval; and what that says about the paper's bound.",
        ["folio", "off", "on", "on/off", "interval", f"<= {table.at_most:g}"],
        lines,
    )
