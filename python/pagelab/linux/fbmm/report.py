"""Every table and figure of the FBMM paper that is measured here, one after the other."""

import time
import tomllib
from pathlib import Path

from pagelab.errors import PagelabError, unknown
from pagelab.linux import allocation, kept, page
from pagelab.linux.fbmm import bandwidth, calls, charts, lines, part, placement, ranges, tiers
from pagelab.linux.fbmm.part import Data, Part, Say
from pagelab.linux.layout import Layout
from pagelab.linux.page import Report


def _measure_costs(layout: Layout, plan: Data, say: Say) -> Data:
    costs = allocation.measure(layout, allocation.plan(plan), say)
    return [[*key, *value] for key, value in costs.items()]


def _render_costs(plan: Data, data: Data) -> str:
    costs = {
        (name, bench, n): (instructions, atomics) for name, bench, n, instructions, atomics in data
    }
    return allocation.render(allocation.plan(plan), costs)


PARTS = (
    Part(
        "costs",
        "Table 3: what memory from files costs",
        _measure_costs,
        _render_costs,
        charts.costs,
    ),
    Part("threads", "Table 3 with 1 to 32 threads", _measure_costs, _render_costs, charts.costs),
    Part("calls", "Table 4: calls of real programs", calls.measure, calls.render),
    Part(
        "gups",
        "Table 5: GUPS with a hot set that moves",
        tiers.measure_gups,
        tiers.render_gups,
        charts.gups,
    ),
    Part(
        "memcached",
        "Figure 3: memcached, zipfian reads",
        tiers.measure_memcached,
        tiers.render_memcached,
        charts.memcached,
    ),
    Part("placement", "Figure 4: placement by weight", placement.measure, placement.render),
    Part(
        "bandwidth",
        "Figure 4: bandwidth by weight",
        bandwidth.measure,
        bandwidth.render,
        charts.bandwidth,
    ),
    Part(
        "ranges",
        "Table 6: walks a range TLB prevents",
        ranges.measure,
        ranges.render,
        charts.ranges,
    ),
    Part("lines", "Table 7: files and lines", lines.measure, lines.render),
)

# What the paper has and this does not, whatever machine it runs on.
MISSING = """\
- Times: instructions and accesses are counted, in an emulator; bandwidth is the simulator's.
- Table 3 with threads on several processors: there is one, on which the threads take turns.
- Table 4 for mcf, cactuBSSN and canneal, Table 6 for mcf and cactuBSSN: no Debian packages.
- Figure 3's and Table 5's throughput.
"""


def read(layout: Layout) -> Data:
    """The experiment's file: a table for each part."""
    return tomllib.loads((layout.root / "experiments" / "fbmm.toml").read_text())


def reproduce(layout: Layout, names: list[str], out: Path, say: Say, *, again: bool) -> Report:
    """Measure the parts of these names, or all, and write the report into `out`.

    What an earlier run found with the same kernel, modules and benchmarks is taken from `out`,
    unless `again`. A part that fails is reported, and the others go on.

    Raises:
        UsageError: there is no part of that name.
        PagelabError: nothing could be measured.

    """
    plan = read(layout)
    known = [one.name for one in PARTS]
    for name in names:
        if name not in known:
            raise unknown("part", name, known)
    wanted = [one for one in PARTS if not names or one.name in names]
    text = [f"# {plan['title']}", ""]
    failures: list[str] = []
    drawn: list[page.Chart] = []
    found: dict[str, Data] = {}
    for number, one in enumerate(wanted, start=1):
        say(f"{number} of {len(wanted)}: {one.title}")
        try:
            data = _measure(layout, one, plan[one.name], out, say, again=again)
        except PagelabError as error:
            say(f"{one.name} failed: {error}")
            failures.append(f"- {one.title}: {str(error).splitlines()[0]}")
            continue
        text += [f"## {one.title}", "", one.render(plan[one.name], data)]
        drawn += one.charts(one.title, plan[one.name], data)
        found[one.name] = data
    if len(failures) == len(wanted):
        raise PagelabError("\n".join(["nothing could be measured:", *failures]))
    text += ["## Not measured", "", MISSING + "\n".join(failures)]
    return page.save("\n".join(text).rstrip() + "\n", drawn, found, out)


def _measure(layout: Layout, one: Part, plan: Data, out: Path, say: Say, *, again: bool) -> Data:
    state = part.fingerprint(layout, plan)
    data = None if again else kept.recall(out, one.name, state)
    if data is not None:
        say(f"{one.name}: as measured before")
        return data
    started = time.monotonic()
    data = one.measure(layout, plan, say)
    kept.keep(out, one.name, state, data)
    say(f"{one.name}: {time.monotonic() - started:.0f} s")
    return data
