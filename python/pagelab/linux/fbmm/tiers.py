"""Table 5 and Figure 3: which share of a program's reads goes to the remote node."""

from collections.abc import Sequence

from pagelab.linux import markdown
from pagelab.linux.fbmm import part
from pagelab.linux.fbmm.part import Data, Say
from pagelab.linux.layout import Layout

# A line of counts of linux/guest/nodes.c
_LOADS = slice(0, 2)
_MISSES = slice(4, 6)


def share(counts: Sequence[Sequence[int]], which: slice) -> float:
    """Of the loads of these lines, what part was of node 1."""
    local = sum(row[which][0] for row in counts)
    remote = sum(row[which][1] for row in counts)
    return remote / max(local + remote, 1)


def measure_gups(layout: Layout, plan: Data, say: Say) -> Data:
    """The remote share of each stretch of GUPS, by how far the hot set moves and by system."""
    found = []
    for move in plan["move"]:
        for system, name in move["suites"].items():
            say(f"running {name}")
            printed, counts = part.run(layout, part.job(layout, name))
            rows = [
                {"moved": line["moved"], "loads": share([row], _LOADS)}
                for line, row in zip(printed, counts, strict=True)
            ]
            updates = sum(line["updates"] for line in printed)
            whole = share(counts, _LOADS)
            found.append(
                {"move": move["title"], "system": system, "whole": whole, "slices": rows}
                | {"updates": updates}
            )
    return found


def render_gups(plan: Data, data: Data) -> str:
    """One table for each distance, with the paper's figures in the last column."""
    lines = []
    for move in plan["move"]:
        mine = [one for one in data if one["move"] == move["title"]]
        lines += [f"{move['title']}; {mine[0]['updates'] / 1e6:.0f} million updates.", ""]
        rows = []
        for one in mine:
            before = [row["loads"] for row in one["slices"] if not row["moved"]]
            after = [row["loads"] for row in one["slices"] if row["moved"]]
            paper = move.get("paper", {}).get(one["system"])
            rows.append(
                [
                    one["system"],
                    *(_percent(x) for x in (before[0], before[-1], after[0], after[-1])),
                    _percent(one["whole"]),
                    "" if paper is None else _percent(paper),
                ]
            )
        head = ["remote loads", "first", "before the move", "after it", "last", "all", "paper"]
        lines.append(markdown.table(head, rows))
    return "\n".join(lines)


def measure_memcached(layout: Layout, plan: Data, say: Say) -> Data:
    """The remote share of memcached's loads and of those that miss a cache, by system and time."""
    found = {}
    for system, name in plan["suites"].items():
        say(f"running {name}")
        printed, counts = part.run(layout, part.job(layout, name))
        found[system] = [
            {"reads": line["reads"], "loads": share([row], _LOADS), "misses": share([row], _MISSES)}
            for line, row in zip(printed, counts, strict=True)
        ]
    return found


def render_memcached(plan: Data, data: Data) -> str:
    """A row a stretch of reads, a column a system; the paper's figures below."""
    systems = list(data)
    rows = []
    for stretch in zip(*data.values(), strict=True):
        cells = [_percent(one[what]) for one in stretch for what in ("misses", "loads")]
        rows.append([f"{stretch[0]['reads']:,} reads", *cells])
    papers = [plan["paper"].get(system) for system in systems]
    cells = [cell for paper in papers for cell in (_percent(paper) if paper else "", "")]
    rows.append(["paper", *cells])
    head = [cell for system in systems for cell in (f"{system}, remote", "cache hits included")]
    return markdown.table(["loads", *head], rows)


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"
