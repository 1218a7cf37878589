"""Figure 4: on which node bwmfs puts pages, by the weights of the nodes."""

from pagelab.linux import markdown, suite
from pagelab.linux.fbmm import part
from pagelab.linux.fbmm.part import Data, Say
from pagelab.linux.layout import Layout


def measure(layout: Layout, plan: Data, say: Say) -> Data:
    """STREAM's triad under each pair of weights: pages by node, and loads and stores by node."""
    found = []
    for job in suite.load(layout.linux / "bench", [plan["suite"]]):
        say(f"running {job.name}")
        suite.need_kernel(layout, job)
        (printed,), (counts,) = part.run(layout, job)
        weights = [int(word) for word in job.manager.partition("weights=")[2].split(":")]
        found.append(
            {"weights": weights, "pages": printed["pages"], "local": printed["local_pages"]}
            | {"accesses": (counts[0] + counts[2]) / sum(counts[:4])}
        )
    return found


def expected(weights: list[int], pages: int) -> tuple[int, int]:
    """The fewest and the most local pages of an exact round robin: whole rounds and a rest."""
    rounds, rest = divmod(pages, sum(weights))
    least = rounds * weights[0] + max(0, rest - weights[1])
    return least, rounds * weights[0] + min(rest, weights[0])


def render(plan: Data, data: Data) -> str:
    """A row a pair of weights."""
    rows = []
    for one in data:
        least, most = expected(one["weights"], one["pages"])
        rows.append(
            [
                ":".join(map(str, one["weights"])),
                f"{one['local']} of {one['pages']}",
                f"{least}" if least == most else f"{least} to {most}",
                "exact" if least <= one["local"] <= most else "off",
                f"{100 * one['accesses']:.2f} %",
            ]
        )
    head = ["local:remote", "local pages", "by the weights", "", "local accesses of the triad"]
    return markdown.table(head, rows)
