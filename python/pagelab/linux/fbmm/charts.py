"""The parts of the reproduction that are better looked at: rows of columns, out of their data."""

from pagelab.linux import allocation
from pagelab.linux.fbmm.part import Data
from pagelab.linux.page import Chart


def costs(_title: str, plan: Data, data: Data) -> list[Chart]:
    """Instructions a call relative to Linux, beside the paper's time, by pages or threads."""
    parsed = allocation.plan(plan)
    found = {(name, bench, n): instructions for name, bench, n, instructions, _ in data}
    series = [name for name in parsed.suites if any(key[0] == name for key in found)]
    charts = []
    for cost in parsed.cost:
        rows: dict[str, list[float | None]] = {}
        for n in sorted({n for _, bench, n in found if bench == cost.bench}):
            base = found["off", cost.bench, n]
            ours = [found[name, cost.bench, n] / base for name in series]
            paper = cost.fbmm[n] / cost.linux[n] if n in cost.fbmm else None
            rows[str(n)] = [*ours, paper]
        shows = f"Instructions a call relative to Linux, off, by {parsed.by}; the paper's is time."
        names = [*(name.replace("_", " ") for name in series), "paper"]
        charts.append(Chart(cost.title, shows, names, rows))
    return charts


def gups(title: str, plan: Data, data: Data) -> list[Chart]:
    """The remote share of loads over time, a chart for each distance that the hot set moves."""
    return [
        _over_time(
            title,
            f"Remote loads in percent, by stretch of the run. {move['title']}.",
            {
                one["system"]: [row["loads"] for row in one["slices"]]
                for one in data
                if one["move"] == move["title"]
            },
        )
        for move in plan["move"]
    ]


def memcached(title: str, _plan: Data, data: Data) -> list[Chart]:
    """The remote share of loads that miss a cache, over time."""
    shares = {system: [row["misses"] for row in rows] for system, rows in data.items()}
    return [_over_time(title, "Remote loads in percent, by stretch of the run.", shares)]


def _over_time(heading: str, shows: str, shares: dict[str, list[float]]) -> Chart:
    rows: dict[str, list[float | None]] = {
        str(at + 1): [100 * share for share in stretch]
        for at, stretch in enumerate(zip(*shares.values(), strict=True))
    }
    return Chart(heading, shows, list(shares), rows)


def bandwidth(title: str, _plan: Data, data: Data) -> list[Chart]:
    """GB/s by placement."""
    rows: dict[str, list[float | None]] = {name: [one["rate"] / 1e9] for name, one in data.items()}
    return [Chart(title, "GB/s read, by local:remote.", ["GB/s"], rows)]


def ranges(title: str, plan: Data, data: Data) -> list[Chart]:
    """Walks prevented, beside the paper's."""
    rows: dict[str, list[float | None]] = {
        program: [
            100 * (1 - one["walks_with_ranges"] / one["walks"]) if one["walks"] else None,
            None if program not in plan["paper"] else 100 * plan["paper"][program],
        ]
        for program, one in data.items()
    }
    return [Chart(title, "Walks prevented, in percent.", ["here", "paper"], rows)]
