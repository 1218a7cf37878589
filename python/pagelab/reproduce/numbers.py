"""The numbers behind a figure: a metric of each series over each workload, and how sure it is."""

import math
from dataclasses import dataclass

from pagelab import intervals
from pagelab.reproduce.metrics import METRICS
from pagelab.results import Run


@dataclass(frozen=True)
class Numbers:
    """Complete runs by series and workload; by series, its metric and what it is divided by."""

    runs: dict[tuple[str, str], Run]
    metrics: dict[str, str]
    bases: dict[str, str | None]

    def metric(self, series: str) -> str:
        """The name of what a series shows."""
        return self.metrics[series]

    def against(self, series: str) -> str | None:
        """Series that a series is divided by."""
        return self.bases[series]

    def shown(self, series: str, workload: str) -> float | None:
        """Shown value of the figure: the metric, or its ratio to another series'."""
        value, base = self._raw(series, workload), self.against(series)
        if base is None or value is None:
            return value
        divisor = self._raw(base, workload)
        return value / divisor if divisor else None

    def ratio(self, series: str, against: str, workload: str) -> float | None:
        """The ratio of what two series show."""
        above, below = self.shown(series, workload), self.shown(against, workload)
        return above / below if above is not None and below else None

    def error(self, series: str, against: str | None, workload: str) -> float | None:
        """Half the 95 % confidence interval of a ratio of two series, as a share of the ratio.

        Their windows are pairs, since they cover the same instructions. `None` for what is no
        ratio of one pair of series, or not sampled.
        """
        base = against or self.against(series)
        if base is None or (against and self.against(series) != self.against(against)):
            return None
        metric = METRICS[self.metric(series)]
        ours, theirs = self.runs.get((series, workload)), self.runs.get((base, workload))
        if not (metric.window and ours and theirs) or len(ours.windows) < 2:
            return None
        above, below = ([getattr(w, metric.window) for w in run.windows] for run in (ours, theirs))
        if len(above) != len(below) or not sum(above):
            return None
        value, half = intervals.ratio(above, below)
        return half / value

    def _raw(self, series: str, workload: str) -> float | None:
        run = self.runs.get((series, workload))
        if run is None:
            return None
        value = METRICS[self.metric(series)].of(run)
        return None if math.isnan(value) else value
