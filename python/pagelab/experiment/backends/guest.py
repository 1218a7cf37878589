"""A benchmark of linux/bench in a kernel under QEMU."""

import json
import platform
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from pagelab import _core
from pagelab.errors import PagelabError, RunError
from pagelab.experiment import content
from pagelab.experiment.case import Case
from pagelab.experiment.progress import Progress
from pagelab.linux import guest, layout, suite
from pagelab.linux.layout import Layout

# First page, pages, first frame
Range = tuple[int, int, int]
# Plugins whose output is a line of numbers for each line that the benchmark prints.
_COUNTING = ("count", "nodes")


def cases(name: str, *, replay: dict[str, Any] | None = None) -> list[tuple[suite.Job, Case]]:
    """The boots of an entry of a suite under linux/bench, in order.

    `replay` has the machine, the changes to it and the entries of a range TLB through which the
    accesses that the guest recorded are run.
    Raises PagelabError when its kernel is not built, or it needs KVM and there is none.
    """
    where = layout.find()
    found = []
    seen: Counter[str] = Counter()
    for number, job in enumerate(_jobs(where, name)):
        image = suite.need_kernel(where, job)
        if job.entry.kvm and not guest.kvm_works():
            raise PagelabError(f"{name}: not without KVM: times under emulation mean nothing")
        seen[job.name] += 1
        sources = [
            image,
            # Its own program and what that may include: other benchmarks change on their own.
            *_files(job),
            job.folder / "lab.py",
            *sorted(job.folder.glob("*.h")),
            where.linux / "guest",
            # Headers that benchmarks share with tests.
            *sorted((where.linux / "tests").glob("*/*.h")),
            *([where.linux / "modules"] if "fbmm=on" in job.append else []),
        ]
        asked = [job.entry.model_dump(), job.append, job.manager, seen[job.name], replay]
        depends = [asked, content.of(sources), content.simulator_version() if replay else None]
        if job.entry.kvm:
            # Times are those of this machine.
            depends.append([platform.node(), platform.machine(), platform.release()])
        task = {"suite": name, "boot": number, "replay": replay}
        # Guests are timed, and compile their programs when they start: one at a time.
        case = Case("guest", _label(job, seen), task, depends, job.entry.memory << 20, alone=True)
        found.append((job, case))
    return found


def run(task: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """`printed`: the objects that the benchmark printed. `counts`: the numbers counted for each.

    `icount` says that the guest's clock counted instructions. With a replay there is `ranges`
    instead of counts: what the range TLB prevented.
    """
    where = layout.find()
    job = _jobs(where, task["suite"])[task["boot"]]
    progress(0, None, "in a guest")
    try:
        verdict, result = suite.run(where, job)
    except PagelabError as error:
        raise RunError(str(error)) from error
    if verdict is not suite.Verdict.PASS:
        said = result.stderr.decode(errors="replace")
        raise RunError(f"{job.name} failed: {result.describe()}\n{said}".rstrip())
    lines = result.stdout.decode(errors="replace").splitlines()
    found: dict[str, Any] = {
        "printed": [json.loads(line) for line in lines if line.startswith("{")],
        "counts": [],
        "icount": job.entry.icount,
    }
    if job.entry.count in _COUNTING:
        counted = result.files.get(guest.COUNTS, b"").decode().splitlines()
        found["counts"] = [[int(word) for word in line.split()] for line in counted]
        if len(found["counts"]) != len(found["printed"]):
            raise RunError(
                f"{len(found['printed'])} samples, but {len(found['counts'])} pairs of marks "
                "were passed"
            )
    if task["replay"]:
        found["ranges"] = _replay(task["replay"], result.files)
    return found


def _jobs(where: Layout, name: str) -> list[suite.Job]:
    return list(suite.load(where.linux / "bench", [name]))


def _files(job: suite.Job) -> Iterator[Path]:
    """The files that a job's words name: its program, others to compile, what it reads."""
    for word in (job.entry.program, *job.entry.words):
        # A word may be anything, also longer than the name of a file can be.
        with suppress(OSError, ValueError):
            path = job.folder / word.removeprefix("$")
            if path.exists():
                yield path


def _label(job: suite.Job, seen: Counter[str]) -> str:
    turn = f" {seen[job.name]}" if seen[job.name] > 1 else ""
    return f"{job.name}{turn}"


def _replay(asked: dict[str, Any], written: dict[str, bytes]) -> dict[str, int]:
    ranges = place(written["maps"].decode(), written["ranges"].decode())
    with tempfile.NamedTemporaryFile(prefix="pagelab-accesses-") as accesses:
        accesses.write(written[guest.COUNTS])
        accesses.flush()
        counts = _core.replay_ranges(
            asked["machine"], asked["set"], asked["entries"], ranges, Path(accesses.name)
        )
    names = ("accesses", "walks", "walks_with_ranges", "outside")
    return dict(zip(names, counts, strict=True)) | {
        "ranges": len(ranges),
        "pages": sum(pages for _, pages, _ in ranges),
    }


def place(maps: str, table: str) -> list[Range]:
    """Ranges by virtual page: /proc/PID/maps says where a file is mapped, contigmfs its frames."""
    pieces: dict[int, list[Range]] = {}
    for line in table.splitlines():
        owner, index, pages, frame = map(int, line.split())
        pieces.setdefault(owner, []).append((index, pages, frame))
    found = []
    for line in maps.splitlines():
        addresses, _, offset, _, inode, *_ = line.split()
        start, end = (int(word, 16) >> 12 for word in addresses.split("-"))
        first = int(offset, 16) >> 12
        for index, pages, frame in pieces.get(int(inode), []):
            low, high = max(index, first), min(index + pages, first + end - start)
            if low < high:
                found.append((start + low - first, high - low, frame + low - index))
    return sorted(found)
