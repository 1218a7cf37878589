"""Table 6: TLB misses that a range TLB prevents, with the layout contigmfs really makes."""

import tempfile
from pathlib import Path

from pagelab import _core
from pagelab.errors import PagelabError
from pagelab.linux import guest, markdown, suite
from pagelab.linux.fbmm import part
from pagelab.linux.fbmm.part import Data, Say
from pagelab.linux.layout import Layout

# First page, pages, first frame
Range = tuple[int, int, int]


def measure(layout: Layout, plan: Data, say: Say) -> Data:
    """Walks of each program without and with a range TLB, and how long its ranges are."""
    found = {}
    for program, name in plan["suites"].items():
        say(f"running {name}")
        job = part.job(layout, name)
        verdict, result = suite.run(layout, job)
        if verdict is not suite.Verdict.PASS:
            said = result.stderr.decode(errors="replace")
            raise PagelabError(f"{job.name} failed: {result.describe()}\n{said}")
        ranges = place(result.files["maps"].decode(), result.files["ranges"].decode())
        with tempfile.NamedTemporaryFile(prefix="pagelab-accesses-") as accesses:
            accesses.write(result.files[guest.COUNTS])
            accesses.flush()
            counts = _core.replay_ranges(
                plan["machine"], plan["set"], plan["entries"], ranges, Path(accesses.name)
            )
        names = ("accesses", "walks", "walks_with_ranges", "outside")
        found[program] = dict(zip(names, counts, strict=True)) | {
            "ranges": len(ranges),
            "pages": sum(pages for _, pages, _ in ranges),
        }
    return found


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


def render(plan: Data, data: Data) -> str:
    """A row a program; the paper's other programs below."""
    rows = []
    for program, one in data.items():
        prevented = 1 - one["walks_with_ranges"] / one["walks"] if one["walks"] else 0.0
        rows.append(
            [
                program,
                f"{100 * prevented:.2f} %",
                _paper(plan, program),
                f"{one['walks']:,} of {one['accesses']:,}",
                f"{one['outside']:,}",
                f"{one['ranges']} of {one['pages'] / max(one['ranges'], 1):.0f} pages",
            ]
        )
    rows += [
        [program, "", _paper(plan, program), "", "", ""]
        for program in plan["paper"]
        if program not in data
    ]
    head = ["program", "walks prevented", "paper", "walks without", "in no range", "ranges"]
    return markdown.table(head, rows)


def _paper(plan: Data, program: str) -> str:
    value = plan["paper"].get(program)
    return "" if value is None else f"{100 * value:.2f} %"
