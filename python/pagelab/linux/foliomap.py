"""The FolioMap paper's figures, from benchmarks in guests (experiments/foliomap.toml)."""

from collections.abc import Callable

from pagelab.linux import experiment, paired, suite
from pagelab.linux.layout import Layout


def reproduce(layout: Layout, say: Callable[[str], None]) -> str:
    """Measure everything, off against on; the tables in Markdown, the paper's figures beside ours.

    Raises:
        PagelabError: a kernel it needs is not built, or a benchmark failed.

    """
    plan = experiment.read(layout.root / "experiments" / "foliomap.toml")
    bench = layout.linux / "bench"
    hooks = [] if plan.without is None else list(suite.load(bench, [plan.without]))
    # Before hours of measuring, not after.
    for job in [*hooks, *suite.load(bench, plan.suites)]:
        suite.need_kernel(layout, job)

    samples = experiment.measure(layout, plan, lambda name: say(f"running {name}"))
    parts = [f"## {plan.title}\n"]
    for table in plan.table:
        if table.at_most is not None:
            parts.append(paired.render(table, samples))
        elif rows := experiment.rows(table, samples):
            parts.append(experiment.render(table, rows))
    if plan.memory:
        parts.append(experiment.memory(layout))
    if hooks:
        without: list[experiment.Sample] = []
        for job in hooks:
            say(f"running {job.name}")
            without += experiment.take(layout, job)
        parts.append(experiment.render_hooks(without, samples))
    return "\n".join(parts)
