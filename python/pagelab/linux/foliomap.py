"""The FolioMap paper's figures, from benchmarks in guests (experiments/foliomap.toml)."""

import time
from collections.abc import Callable
from pathlib import Path

from pagelab.errors import PagelabError, unknown
from pagelab.linux import experiment, guest, kept, markdown, page, paired, source, suite
from pagelab.linux.experiment import Experiment, Sample, Samples
from pagelab.linux.layout import Layout
from pagelab.linux.page import Chart, Report

MEMORY = "memory"
Say = Callable[[str], None]


def reproduce(layout: Layout, names: list[str], out: Path, say: Say, *, again: bool) -> Report:
    """Measure off against on; tables with the paper's figures beside ours, written into `out`.

    `names` picks parts: the entries of linux/bench/foliomap/suite.toml that the experiment uses,
    and `memory`. A boot that an earlier run measured in the same state is taken from `out`,
    unless `again`. A part that fails is reported, and the others go on.

    Raises:
        UsageError: there is no part of that name.
        PagelabError: a kernel is not built, or nothing could be measured.

    """
    plan = experiment.read(layout.root / "experiments" / "foliomap.toml")
    parts = _select(layout, plan, names)
    for jobs in parts.values():  # before hours of measuring, not after
        for job in jobs:
            suite.need_kernel(layout, job)

    samples: Samples = {False: [], True: []}
    failures: list[str] = []
    for number, (name, jobs) in enumerate(parts.items(), start=1):
        say(f"{number} of {len(parts)}: {name}")
        started = time.monotonic()
        try:
            for side, found in _measure(layout, jobs, out, say, again=again).items():
                samples[side] += found
        except PagelabError as error:
            say(f"{name} failed: {error}")
            failures.append(f"{name}: {str(error).splitlines()[0]}")
            continue
        say(f"{name}: {time.monotonic() - started:.0f} s")
    with_memory = plan.memory and (not names or MEMORY in names)
    if not with_memory and not any(samples.values()):
        raise PagelabError("\n".join(["nothing could be measured:", *failures]))
    text = _render(layout, plan, samples, failures, with_memory=with_memory)
    data = {
        name: [sample.model_dump() for sample in samples[which]]
        for name, which in (("off", False), ("on", True))
    }
    return page.save(text, _charts(plan, samples), data, out)


def _select(layout: Layout, plan: Experiment, names: list[str]) -> dict[str, list[suite.Job]]:
    """The boots of the parts asked for. What is compared with another part brings it along."""
    suites = {name.partition("/")[2]: name for name in (*plan.suites, plan.without) if name}
    known = [*suites, *([MEMORY] if plan.memory else [])]
    for name in names:
        if name not in known:
            raise unknown("part", name, known)
    wanted = set(names or known)
    if any(suites.get(name) == plan.without for name in wanted):
        wanted.add(plan.suite.partition("/")[2])
    return {
        part: list(suite.load(layout.linux / "bench", [name]))
        for part, name in suites.items()
        if part in wanted
    }


def _measure(layout: Layout, jobs: list[suite.Job], out: Path, say: Say, *, again: bool) -> Samples:
    if jobs[0].entry.kvm and not guest.kvm_works():
        raise PagelabError("not without KVM: times under emulation mean nothing")
    numbers = iter(range(1, len(jobs) + 1))

    def take(job: suite.Job) -> list[Sample]:
        name, state = f"{job.entry.name}-{next(numbers):02}", _state(layout, job)
        data = None if again else kept.recall(out, name, state)
        if data is None:
            data = [sample.model_dump() for sample in experiment.take(layout, job)]
            kept.keep(out, name, state, data)
        return [Sample.model_validate(sample) for sample in data]

    return experiment.measure(jobs, take, lambda name: say(f"  {name}"))


def _state(layout: Layout, job: suite.Job) -> str:
    """What a boot's samples depend on: the kernel, the benchmarks, how they are run."""
    files = [
        suite.need_kernel(layout, job),
        job.folder / job.entry.program,
        job.folder / "lab.py",
        layout.linux / "tests" / "foliomap" / "lab.h",
        *sorted((layout.linux / "guest").iterdir()),
    ]
    asked = job.entry.model_dump() | {"append": job.append}
    return kept.fingerprint(asked, files)


def _render(
    layout: Layout, plan: Experiment, samples: Samples, failures: list[str], *, with_memory: bool
) -> str:
    release = (layout.out() / "include" / "config" / "kernel.release").read_text().strip()
    about = (
        f"Linux {release} with the {len(source.read_series(layout.patches))} patches of "
        'linux/patches, booted without and with foliomap=on ("off" and "on"), under '
        f"{'KVM where times are given' if guest.kvm_works() else 'emulation by QEMU'}. Counts of "
        "instructions say what work is done, not how long it takes: an atomic operation is one, "
        "and takes a processor as long as twenty."
    )
    sections = [f"## {plan.title}", markdown.paragraph(about)]
    for table in plan.table:
        if table.at_most is not None:
            sections.append(paired.render(table, samples))
        elif rows := experiment.rows(table, samples):
            sections.append(experiment.render(table, rows))
    if with_memory:
        sections.append(experiment.memory(layout))
    if any(sample.suite == plan.without for sample in samples[False]):
        sections.append(experiment.render_hooks(plan, samples))
    if failures:
        sections += ["### Not measured", "\n".join(f"- {failure}" for failure in failures)]
    return "\n\n".join(text.rstrip() for text in sections if text) + "\n"


def _charts(plan: Experiment, samples: Samples) -> list[Chart]:
    """Off and on by folio size, where each size is measured by itself."""
    charts = []
    for table in plan.table:
        if table.at_most is not None:
            continue
        rows = experiment.rows(table, samples)
        counted = all(row.off.counted and row.on.counted for row in rows)
        charts.append(
            Chart(
                table.title,
                f"{'Instructions' if counted else 'ns'} per {table.unit}, by folio size",
                ["off", "on"],
                {f"{row.folio_kb} KB": [row.off.time, row.on.time] for row in rows},
            )
        )
    return charts
